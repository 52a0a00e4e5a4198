"""What must come back from a case: status, outputs, scalar results; decided before the backend runs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mluops_gtest.errors import CaseFileError
from mluops_gtest.model.binding import bind_values, expected_results
from mluops_gtest.model.case import Case
from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.operator import Answer, Operator
from mluops_gtest.model.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Expectation:
    """The right answer to a case, and whether it was recomputed here rather than stored."""

    answer: Answer
    outputs: tuple[Tensor, ...]
    results: Mapping[str, int]
    degenerate: str | None
    recomputed: bool = False


def expectation_of(case: Case, operator: Operator) -> Expectation:
    """The right answer; an error where the case and the operator's checks contradict each other."""
    call = bind_values(case, operator)
    answer = operator.answer(call)
    if answer.status != case.expect.status or (case.expect.check is not None and answer.check != case.expect.check):
        raise CaseFileError(
            f"{case.id}: the case expects {case.expect.status.name}"
            f"{f' from the check {case.expect.check}' if case.expect.check else ''}, but the operator's checks say "
            f"{answer.status.name}{f' ({answer.check}: {operator.check(answer.check).says})' if answer.check else ''}. "
            "Correct the case, or give it the expected status in an Expect field."
        )
    results = expected_results(case, operator)
    degenerate = case.expect.degenerate
    if not answer.computes or case.baseline_stored:
        return Expectation(answer, case.outputs, results, degenerate)
    baseline = operator.reference(call)
    outputs = tuple(_filled(tensor, baseline.outputs[tensor.id], case) for tensor in case.outputs)
    return Expectation(answer, outputs, {**results, **baseline.scalars}, degenerate, recomputed=True)


def _filled(tensor: Tensor, array: Array, case: Case) -> Tensor:
    if tuple(array.shape) != tensor.desc.dims:
        raise CaseFileError(
            f"{case.id}: the output {tensor.id!r} has dims {list(tensor.desc.dims)}, the reference gives "
            f"{list(array.shape)}. Correct the dims in the file."
        )
    return replace(tensor, data=array.astype(tensor.desc.dtype.storage, copy=False).reshape(-1))
