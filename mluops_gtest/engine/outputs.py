"""What a call left in its outputs, for those who look at values; judged anew where they come from a file."""

from collections.abc import Callable, Mapping

from mluops_gtest.engine.describe import case_info
from mluops_gtest.engine.expectation import Expectation, expectation_of
from mluops_gtest.engine.judge import judge_values, wanted_criteria
from mluops_gtest.engine.judgement import judged
from mluops_gtest.model.binding import owned_rows
from mluops_gtest.model.case import Case
from mluops_gtest.model.criterion import Criterion
from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.model.tensor import Tensor
from mluops_gtest.value import Value


class OutputPair(Value):
    """An output that is compared: the rows that the operator owns, as the backend left them and as they must be."""

    tensor: Tensor
    criteria: tuple[Criterion, ...]
    got: Array
    expected: Array


class CaseOutputs(Value):
    """One call that answered: the verdict on it and the outputs as the backend left them, by name."""

    case: Case
    operator: Operator
    expectation: Expectation
    result: CaseResult
    arrays: Mapping[str, Array]
    scalars: Mapping[str, int]

    def pairs(self) -> tuple[OutputPair, ...]:
        """Every output that is compared, in order."""
        found = []
        for tensor, criteria in zip(self.expectation.outputs, self.case.criteria, strict=True):
            if criteria is None or tensor.desc.is_empty:
                continue
            spec = self.operator.output(tensor.id)
            wanted = wanted_criteria(tensor.desc.dtype, criteria, spec, recomputed=self.expectation.recomputed)
            rows = owned_rows(spec, self.expectation.counts)
            found.append(OutputPair(tensor, wanted, self.arrays[tensor.id][:rows], tensor.values[:rows]))
        return tuple(found)


# Called while the outputs are still in their buffers; copy what is needed longer.
OutputKeeper = Callable[[CaseOutputs], None]


def judged_again(
    case: Case, operator: Operator, arrays: Mapping[str, Array], scalars: Mapping[str, int]
) -> CaseOutputs:
    """The verdict on the values of an earlier call."""
    expectation = expectation_of(case, operator)
    status = expectation.answer.status
    blank = CaseResult(case.id, case.operator, case.tags, Outcome.SKIPPED, status, status, info=case_info(case))
    judgement = judge_values(case, operator, expectation, arrays, scalars, bitwise=False)
    return CaseOutputs(case, operator, expectation, judged(blank, judgement), arrays, scalars)
