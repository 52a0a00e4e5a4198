"""What the engine tells while it runs; any number of reporters listen."""

from collections.abc import Callable

from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult
from mluops_gtest.value import Value


class RunStarted(Value):
    """The plan stands; nothing has run yet."""

    backend: str
    total: int


class CaseStarted(Value):
    """A case is about to be loaded and run."""

    case: str


class CaseFinished(Value):
    """A case has its verdict."""

    result: CaseResult


class CasesRetracted(Value):
    """Verdicts on these cases do not count any more; the cases run again."""

    cases: tuple[str, ...]


class RunFinished(Value):
    """Every planned case has a result, be it not_run."""

    report: RunReport


Event = RunStarted | CaseStarted | CaseFinished | CasesRetracted | RunFinished
Listener = Callable[[Event], None]
