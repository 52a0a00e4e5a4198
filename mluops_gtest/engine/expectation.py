"""What must come back from a case: status, outputs, scalar results; decided before the backend runs."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import field

from mluops_gtest.errors import CaseFileError, OperatorError, UndefinedCallError
from mluops_gtest.model.baselines import baseline_of
from mluops_gtest.model.binding import bind_values, expected_results, owned_rows, row_counts
from mluops_gtest.model.call import UndefinedDataError
from mluops_gtest.model.case import BUFFER_LIMIT, Case
from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.operator import CheckVerdict, Operator, raised_by
from mluops_gtest.model.tensor import Tensor
from mluops_gtest.value import Value

T = TypeVar("T")
# What a baseline that is recomputed may take per output.
_MAX_BYTES = 2 << 30


class Expectation(Value):
    """The right answer to a case, and whether it was recomputed here rather than stored."""

    answer: CheckVerdict
    outputs: tuple[Tensor, ...]
    results: Mapping[str, int]
    degenerate: str | None
    recomputed: bool = False
    # How many rows the operator owns, by the result or the output that says so.
    counts: Mapping[str, int] = field(default_factory=dict)
    # Outputs: True where the operator leaves what the caller preset. Inputs: what it may make of them.
    kept: Mapping[str, Array] = field(default_factory=dict)
    tolerated: Mapping[str, Array] = field(default_factory=dict)


def expectation_of(case: Case, operator: Operator) -> Expectation:
    """The right answer; an error where the case and the operator contradict each other."""
    call = bind_values(case, operator)
    answer = _sound(case, operator, lambda: operator.answer(call))
    if answer.status != case.expect.status or (case.expect.check is not None and answer.check != case.expect.check):
        raise CaseFileError(
            f"{case.id}: the case expects {case.expect.status.name}"
            f"{f' from the check {case.expect.check}' if case.expect.check else ''}, but the operator's checks say "
            f"{answer.status.name}"
            f"{f' ({answer.check}: {operator.check(answer.check).message})' if answer.check else ''}. "
            "Correct the case, or give it the expected status in an Expect field."
        )
    results = expected_results(case, operator)
    degenerate = case.expect.degenerate
    if not answer.computes:
        return Expectation(answer, case.outputs, results, degenerate)
    _refuse_excess(case)
    broken = _sound(case, operator, lambda: operator.broken(call))
    if broken is not None:
        raise UndefinedCallError(case.id, case.operator, broken)
    outputs = case.outputs
    if not case.baseline_stored or len(results) < len(operator.results):
        # A file may leave out what is no tensor (num_act_out), too: only the reference can tell it.
        baseline = _sound(case, operator, lambda: baseline_of(operator, call))
        results = {**results, **baseline.scalars}
        if not case.baseline_stored:
            outputs = tuple(_filled(tensor, baseline.outputs[tensor.id], case) for tensor in case.outputs)
    counts = row_counts(operator, outputs, results)
    for tensor in outputs:
        rows = owned_rows(operator.output(tensor.id), counts)
        if rows is not None and not 0 <= rows <= tensor.desc.dims[0]:
            what = f"{tensor.id} has {tensor.desc.dims[0]} rows for {rows}"
            if not case.baseline_stored:
                raise UndefinedCallError(case.id, case.operator, what)
            raise CaseFileError(f"{case.id}: the case is broken: {what}. Correct the values that it stores.")
    return Expectation(
        answer,
        outputs,
        results,
        degenerate,
        recomputed=not case.baseline_stored,
        counts=counts,
        kept=_sound(case, operator, lambda: {s.id: s.kept(call) for s in operator.outputs if s.kept is not None}),
        tolerated=_sound(
            case, operator, lambda: {s.id: s.may_become(call) for s in operator.inputs if s.may_become is not None}
        ),
    )


def _sound(case: Case, operator: Operator, ask: Callable[[], T]) -> T:
    """What an operator says of a case; data outside of what its document defines is the case's fault."""
    try:
        return ask()
    except (MemoryError, OperatorError):
        raise
    except UndefinedDataError as error:
        raise UndefinedCallError(case.id, case.operator, str(error)) from error
    except Exception as error:
        raise CaseFileError(
            f"{case.id}: the data lie outside of what {case.operator} defines: {raised_by(error, operator.reference)}. "
            "Look at index ranges and at the lengths of lists in the parameters."
        ) from error


def _refuse_excess(case: Case) -> None:
    """A file of a few bytes must not claim gigabytes, nor a workspace larger than its buffer."""
    for tensor in case.outputs:
        if tensor.data is None and tensor.desc.nbytes > _MAX_BYTES:
            raise CaseFileError(
                f"{case.id}: the output {tensor.id!r} would take {tensor.desc.nbytes} bytes to recompute; "
                f"at most {_MAX_BYTES} are taken. Store its values."
            )
    if (case.expect.workspace_size or 0) > BUFFER_LIMIT:
        raise CaseFileError(
            f"{case.id}: workspace_size {case.expect.workspace_size} in a case that computes; at most {BUFFER_LIMIT}."
        )


def _filled(tensor: Tensor, array: Array, case: Case) -> Tensor:
    if tuple(array.shape) != tensor.desc.dims:
        raise CaseFileError(
            f"{case.id}: the output {tensor.id!r} has dims {list(tensor.desc.dims)}, the reference gives "
            f"{list(array.shape)}. Correct the dims in the file."
        )
    return tensor.holding(array)
