"""The embedded default: each operator's own float32 kernel, with its own checks.

The oracle itself as a backend: the ordered checks, then the reference.
"""

from collections.abc import Mapping

from mluops_gtest.base.errors import OperatorError, repr_short
from mluops_gtest.core.buffers import baseline_of
from mluops_gtest.core.call import Declined, OpCall, Status
from mluops_gtest.core.operator import Operator, source_of
from mluops_gtest.version import __version__


class NumpyBackend:
    """Runs `Operator.kernel`, an implementation that shares no algorithm with the reference."""

    name = "numpy"
    version = f"mluops-test {__version__}"

    def __init__(self, operators: Mapping[str, Operator]) -> None:
        self._operators = operators

    def supports(self, operator: str) -> bool:
        """Every operator of the content root has a kernel."""
        return operator in self._operators

    def workspace_size(self, call: OpCall) -> int:
        """What the kernel asks for."""
        ask = self._operator(call).workspace_size
        return 0 if ask is None else ask(call)

    def run(self, call: OpCall) -> Status:
        kernel = self._operator(call).kernel
        status = kernel(call)
        if not isinstance(status, Status):
            raise OperatorError(
                f"{source_of(kernel)}: the kernel of {call.operator} returns {repr_short(status)}. "
                "Let it return a Status."
            )
        return status

    def _operator(self, call: OpCall) -> Operator:
        if call.operator not in self._operators:
            raise Declined(f"no kernel for {call.operator}")
        return self._operators[call.operator]


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
