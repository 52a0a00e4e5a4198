"""What came out of one case, and which outcomes block."""

from dataclasses import dataclass
from enum import Enum

from mluops_gtest.model.status import Status


class Outcome(Enum):
    """The verdict on one case; `blocks` is the one table that decides what stops a merge."""

    PASSED = ("passed", False)
    FAILED = ("failed", True)
    WRONG_STATUS = ("wrong_status", True)
    MEMORY = ("memory", True)
    CRASHED = ("crashed", True)
    TIMED_OUT = ("timed_out", True)
    SUSPECT = ("suspect", True)
    SKIPPED = ("skipped", False)
    ERROR = ("error", True)
    XFAILED = ("xfailed", False)
    XPASSED = ("xpassed", True)
    NOT_RUN = ("not_run", True)

    blocks: bool

    def __new__(cls, word: str, blocks: bool) -> "Outcome":
        """Spread one row of the table over the member."""
        member = object.__new__(cls)
        member._value_ = word
        member.blocks = blocks
        return member


@dataclass(frozen=True, slots=True)
class Reading:
    """One criterion measured on one output."""

    output: str
    criterion: str
    value: float
    threshold: float
    within: bool


@dataclass(frozen=True, slots=True)
class Worst:
    """The element that is furthest from its baseline; values as text, so that NaN and bits survive JSON."""

    output: str
    index: tuple[int, ...]
    evaluated: str
    baseline: str
    unequal: int
    compared: int
    max_ulp: int | None = None


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The verdict on one case with everything needed to understand it."""

    case: str
    operator: str
    tags: tuple[str, ...]
    outcome: Outcome
    status: Status | None = None
    expected_status: Status | None = None
    readings: tuple[Reading, ...] = ()
    worst: Worst | None = None
    seconds: float = 0.0
    reason: str = ""
    repro: str = ""
    notes: tuple[str, ...] = ()
    # What the backend printed during the case, limited in size.
    output: str = ""
    # The case itself or its content is broken, not the backend: exit 3.
    content_error: bool = False
    # A value or a status of the backend was really compared.
    compared: bool = False
