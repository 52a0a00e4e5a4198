"""The oracle itself as a backend: the ordered checks, then the reference."""

from collections.abc import Mapping

from mluops_gtest.model.baselines import baseline_of
from mluops_gtest.model.call import Declined, OpCall
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.status import Status
from mluops_gtest.version import __version__


class ReferenceBackend:
    """Proves the pipeline, and shows what a perfect backend looks like."""

    name = "reference"
    version = f"mluops-test {__version__}"
    # A case without a stored baseline would compare this backend with itself.
    is_reference = True

    def __init__(self, operators: Mapping[str, Operator]) -> None:
        self._operators = operators

    def supports(self, operator: str) -> bool:
        """Every operator of the content root has a reference."""
        return operator in self._operators

    def run(self, call: OpCall) -> Status:
        """Answer by the ordered checks; write the reference's outputs where the operator computes."""
        if call.operator not in self._operators:
            raise Declined(f"no reference for {call.operator}")
        operator = self._operators[call.operator]
        early = operator.early_answer(call)
        if early is not None:
            return early
        baseline = baseline_of(operator, call)
        for name, values in baseline.outputs.items():
            call.array(name)[...] = values
        call.scalars.update(baseline.scalars)
        return Status.SUCCESS
