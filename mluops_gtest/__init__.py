"""Conformance tests for accelerator operators, from Python: `import mluops_gtest as mt`."""

from mluops_gtest.version import __version__

# As type checkers know it; the module typing would be the slowest import before Ctrl-C has its answer.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from mluops_gtest.api import (
        ArrayVerdict,
        NumpyBackend,
        cases,
        compare,
        decide,
        explain,
        fuzz,
        generate_cases,
        minimise,
        reference,
        run,
    )
    from mluops_gtest.base.errors import HarnessError
    from mluops_gtest.core.call import Declined, OpCall, Status
    from mluops_gtest.core.case import Backend
    from mluops_gtest.core.declaration import Baseline
    from mluops_gtest.core.outcome import Outcome
    from mluops_gtest.core.report import RunReport
    from mluops_gtest.core.result import CaseResult
    from mluops_gtest.documents import to_json
    from mluops_gtest.results.gate import Decision
    from mluops_gtest.running.session import CaseHandle

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
    "explain",
    "fuzz",
    "generate_cases",
    "minimise",
    "reference",
    "run",
    "to_json",
]

# All other names stand in `api`.
_HOME = {
    "Backend": "core.case",
    "Baseline": "core.operator",
    "CaseHandle": "running.session",
    "CaseResult": "core.result",
    "Decision": "results.gate",
    "Declined": "core.call",
    "HarnessError": "base.errors",
    "OpCall": "core.call",
    "Outcome": "core.outcome",
    "RunReport": "core.report",
    "Status": "core.call",
    "to_json": "documents",
}


def __getattr__(name: str) -> object:
    # Lazy, so that `mluops-test --help` and `--version` do not pay for numpy.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME.get(name, 'api')}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
