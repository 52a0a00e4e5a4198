"""The embedded default: each operator's own float32 kernel, with its own checks."""

from collections.abc import Mapping

from mluops_gtest.errors import OperatorError, shown
from mluops_gtest.model.call import Declined, OpCall
from mluops_gtest.model.operator import Operator, source_of
from mluops_gtest.model.status import Status
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
                f"{source_of(kernel)}: the kernel of {call.operator} returns {shown(status)}. Let it return a Status."
            )
        return status

    def _operator(self, call: OpCall) -> Operator:
        if call.operator not in self._operators:
            raise Declined(f"no kernel for {call.operator}")
        return self._operators[call.operator]
