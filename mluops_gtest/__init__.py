"""Conformance tests for accelerator operators, from Python: `import mluops_gtest as mt`."""

from mluops_gtest.version import __version__

# As type checkers know it; the module typing would be the slowest import before Ctrl-C has its answer.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from mluops_gtest.api.case_handle import CaseHandle, NumpyBackend, cases, reference
    from mluops_gtest.api.comparing import ArrayVerdict, compare
    from mluops_gtest.api.gating import decide
    from mluops_gtest.api.generation import generate_cases
    from mluops_gtest.api.report import CaseResult, RunReport
    from mluops_gtest.api.running import run
    from mluops_gtest.errors import HarnessError
    from mluops_gtest.gate.decision import Decision
    from mluops_gtest.model.backend import Backend
    from mluops_gtest.model.call import Declined, OpCall
    from mluops_gtest.model.operator import Baseline
    from mluops_gtest.model.outcome import Outcome
    from mluops_gtest.model.status import Status

__all__ = [
    "ArrayVerdict",
    "Backend",
    "Baseline",
    "CaseHandle",
    "CaseResult",
    "Decision",
    "Declined",
    "HarnessError",
    "NumpyBackend",
    "OpCall",
    "Outcome",
    "RunReport",
    "Status",
    "__version__",
    "cases",
    "compare",
    "decide",
    "generate_cases",
    "reference",
    "run",
]

_HOME = {
    "Backend": "model.backend",
    "Baseline": "model.operator",
    "CaseHandle": "api.case_handle",
    "CaseResult": "api.report",
    "ArrayVerdict": "api.comparing",
    "Decision": "gate.decision",
    "Declined": "model.call",
    "HarnessError": "errors",
    "NumpyBackend": "api.case_handle",
    "OpCall": "model.call",
    "Outcome": "model.outcome",
    "RunReport": "api.report",
    "Status": "model.status",
    "cases": "api.case_handle",
    "compare": "api.comparing",
    "decide": "api.gating",
    "generate_cases": "api.generation",
    "reference": "api.case_handle",
    "run": "api.running",
}


def __getattr__(name: str) -> object:
    # Lazy, so that `mluops-test --help` and `--version` do not pay for numpy.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
