"""What must come back from a case, decided before the backend runs, and what arithmetic allows each element of it."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
from msgspec import field

from mluops_gtest.base.errors import CaseFileError, OperatorError, UndefinedCallError
from mluops_gtest.base.frozen import Value
from mluops_gtest.core.binding import (
    BoundSource,
    baseline_of,
    bind_values,
    computed_bounds,
    expected_results,
    owned_rows,
    row_counts,
)
from mluops_gtest.core.call import UndefinedDataError
from mluops_gtest.core.case import BUFFER_LIMIT, Case
from mluops_gtest.core.cause import BeyondBound, Places
from mluops_gtest.core.operator import Bound, CheckVerdict, Operator, raised_by
from mluops_gtest.core.result import ElementReading
from mluops_gtest.core.tensor import Array, DType, Precision, Tensor, WorkingPrecision
from mluops_gtest.judging.blocks import value_text
from mluops_gtest.judging.elementwise import (
    ElementErrors,
    Limits,
    allowances,
    beyond_bound,
    can_be_bounded,
    furthest_beyond,
)


class ElementwiseCheck:
    """The bound of one case, computed from its inputs when an output first differs from its baseline."""

    def __init__(
        self,
        case: Case,
        operator: Operator,
        precision: WorkingPrecision,
        *,
        decides: bool,
        alone: bool = False,
        bounds: BoundSource = computed_bounds,
    ) -> None:
        """`decides`: an element beyond the bound fails the case; `alone`: nothing else about its values does."""
        self._case, self._operator, self._source, self._declared = case, operator, bounds, precision
        self.decides, self.alone = decides, alone
        self._bounds: Mapping[str, Bound] | None = None

    def limits(self, tensor: Tensor, evaluated: Array) -> Limits | None:
        """What the rows that the operator owns are held to; None where nothing is declared for that output."""
        owned = self._owned(tensor, evaluated)
        return None if owned is None else Limits(owned[1], self._precision(owned[0]), self._excused(owned[0]))

    def describe(
        self, tensor: Tensor, errors: ElementErrors, evaluated: Array, baseline: Array
    ) -> tuple[ElementReading, BeyondBound]:
        """What the rows that the operator owns come to, held to their limits."""
        dtype = tensor.desc.dtype
        precision = (self._excused(dtype) if errors.as_half else self._precision(dtype)).value
        index = tuple(int(i) for i in np.unravel_index(errors.worst or 0, evaluated.shape))
        reading = ElementReading(
            tensor.id,
            precision,
            errors.beyond,
            errors.compared,
            errors.ratio,
            index,
            value_text(evaluated[index], dtype),
            value_text(baseline[index], dtype),
            errors.allowed,
            errors.as_half,
        )
        places = Places(errors.beyond, errors.compared, errors.first, errors.last)
        return reading, BeyondBound(tensor.id, places, precision)

    def covers(self, tensor: Tensor) -> bool:
        """The operator declares what arithmetic allows this output."""
        return can_be_bounded(tensor.desc.dtype) and self._bound(tensor.id) is not None

    def beyond(self, tensor: Tensor, evaluated: Array, baseline: Array) -> Array | None:
        """The flat indices that neither the bound nor half excuses; None where nothing is declared."""
        owned = self._owned(tensor, evaluated)
        return None if owned is None else beyond_bound(evaluated, baseline, *owned, self._excused(owned[0]))

    def furthest_beyond(self, tensor: Tensor, evaluated: Array, baseline: Array, most: int) -> tuple[int, Array]:
        """How many elements neither the bound nor half excuses, and the flat indices of the `most` furthest."""
        owned = self._owned(tensor, evaluated)
        if owned is None:
            return 0, np.zeros(0, np.int64)
        return furthest_beyond(evaluated, baseline, *owned, self._excused(owned[0]), most)

    def beyond_at(
        self,
        tensor: Tensor,
        places: tuple[Array, ...],
        values: Array,
        baseline: Array,
        precision: Precision | None = None,
    ) -> Array | None:
        """Which of the values at these places no arithmetic explains: that of `precision`, else what is excused."""
        dtype = tensor.desc.dtype
        bound = self._bound(tensor.id) if can_be_bounded(dtype) else None
        if bound is None:
            return None
        here = bound.part(places, tensor.desc.dims)
        beyond = np.zeros(values.size, bool)
        beyond[beyond_bound(values, baseline, dtype, here, precision or self._excused(dtype))] = True
        return beyond

    def allowed(self, tensor: Tensor, evaluated: Array, baseline: Array) -> Array | None:
        """What each element may be off by, half included; None where nothing is declared."""
        owned = self._owned(tensor, evaluated)
        return None if owned is None else allowances(evaluated, baseline, *owned, self._excused(owned[0]))

    def _precision(self, dtype: DType) -> Precision:
        return self._declared.of(self._operator.name, dtype)

    def _excused(self, dtype: DType) -> Precision:
        return self._declared.excused(self._operator.name, dtype)

    def _owned(self, tensor: Tensor, evaluated: Array) -> tuple[DType, Bound] | None:
        """The bound of the rows that the operator owns, and their type."""
        dtype = tensor.desc.dtype
        bound = self._bound(tensor.id) if can_be_bounded(dtype) else None
        return None if bound is None else (dtype, bound.part(slice(0, evaluated.shape[0]), tensor.desc.dims))

    def _bound(self, output: str) -> Bound | None:
        if self._bounds is None:
            self._bounds = self._source(self._case, self._operator)
        return self._bounds.get(output)


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
    preserved_rows: Mapping[str, Array] = field(default_factory=dict)
    allowed_input_changes: Mapping[str, Array] = field(default_factory=dict)


def expectation_of(case: Case, operator: Operator) -> Expectation:
    """The right answer; an error where the case and the operator contradict each other."""
    call = bind_values(case, operator)
    answer = _ask_operator(case, operator, lambda: operator.answer(call))
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
    _refuse_too_large(case)
    broken = _ask_operator(case, operator, lambda: operator.broken(call))
    if broken is not None:
        raise UndefinedCallError(case.id, case.operator, broken)
    outputs = case.outputs
    if not case.baseline_stored or len(results) < len(operator.results):
        # A file may leave out what is no tensor (num_act_out), too: only the reference can tell it.
        baseline = _ask_operator(case, operator, lambda: baseline_of(operator, call))
        results = {**results, **baseline.scalars}
        if not case.baseline_stored:
            outputs = tuple(_with_values(tensor, baseline.outputs[tensor.id], case) for tensor in case.outputs)
    counts = row_counts(operator, outputs, results)
    for tensor in outputs:
        rows = owned_rows(operator.output(tensor.id), counts)
        if rows is not None and not 0 <= rows <= tensor.desc.dims[0]:
            what = f"{tensor.id} has {tensor.desc.dims[0]} rows for {rows}"
            if not case.baseline_stored:
                raise UndefinedCallError(case.id, case.operator, what)
            raise CaseFileError(f"{case.id}: the case is broken: {what}. Correct the values that it stores.")
    preserved = {spec.id: spec.kept for spec in operator.outputs if spec.kept is not None}
    changed = {spec.id: spec.may_become for spec in operator.inputs if spec.may_become is not None}
    return Expectation(
        answer,
        outputs,
        results,
        degenerate,
        recomputed=not case.baseline_stored,
        counts=counts,
        preserved_rows=_ask_operator(case, operator, lambda: {name: rows(call) for name, rows in preserved.items()}),
        allowed_input_changes=_ask_operator(
            case, operator, lambda: {name: change(call) for name, change in changed.items()}
        ),
    )


def _ask_operator(case: Case, operator: Operator, ask: Callable[[], T]) -> T:
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


def _refuse_too_large(case: Case) -> None:
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


def _with_values(tensor: Tensor, array: Array, case: Case) -> Tensor:
    if tuple(array.shape) != tensor.desc.dims:
        raise CaseFileError(
            f"{case.id}: the output {tensor.id!r} has dims {list(tensor.desc.dims)}, the reference gives "
            f"{list(array.shape)}. Correct the dims in the file."
        )
    return tensor.holding(array)
