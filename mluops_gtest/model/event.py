"""What the engine tells while it runs; any number of reporters listen."""

from collections.abc import Callable
from dataclasses import dataclass

from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The plan stands; nothing has run yet."""

    backend: str
    total: int


@dataclass(frozen=True, slots=True)
class CaseStarted:
    """A case is about to be loaded and run."""

    case: str


@dataclass(frozen=True, slots=True)
class CaseFinished:
    """A case has its verdict."""

    result: CaseResult


@dataclass(frozen=True, slots=True)
class RunFinished:
    """Every planned case has a result, be it not_run."""

    report: RunReport


Event = RunStarted | CaseStarted | CaseFinished | RunFinished
Listener = Callable[[Event], None]
