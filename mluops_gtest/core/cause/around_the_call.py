"""Why a backend was not asked, or what went wrong through no fault of its own."""

from typing import Literal

from mluops_gtest.core.cause.base import CauseBase
from mluops_gtest.core.outcome import Outcome


class PassedAtTry(CauseBase, frozen=True):
    """It passed when it was tried again; the causes of the first try follow."""

    tries: int
    after: Outcome


class AfterTimedCalls(CauseBase, frozen=True):
    """It passed before it was called again and again; what the last call came to follows."""

    calls: int


class UnderStress(CauseBase, frozen=True):
    """It did not pass in some repetitions with changing numbers of threads; the causes of the first of them follow."""

    failed: int
    repetitions: int
    # Of the first that failed, and what it came to.
    threads: int
    outcome: Outcome


class OnlyAfter(CauseBase, frozen=True):
    """It passes alone in a fresh worker, and fails behind another case; the causes of that follow."""

    case: str


# What stands before other causes.
Prelude = PassedAtTry | AfterTimedCalls | UnderStress | OnlyAfter


class UnknownOperator(CauseBase, frozen=True):
    """There is no such operator here."""

    operator: str


class Unsupported(CauseBase, frozen=True):
    """supports() says no."""

    backend: str
    operator: str


class Declined(CauseBase, frozen=True):
    """The backend declined the call, in its own words."""

    text: str


class UndefinedCall(CauseBase, frozen=True):
    """The operator does not define what the call of a file comes to, for the reason that its precondition gives."""

    operator: str
    text: str


class Interrupted(CauseBase, frozen=True):
    """The user ended the run."""


class StoppedAtFailure(CauseBase, frozen=True):
    """Another case failed, and the run was asked to end there."""


class DeviceLost(CauseBase, frozen=True):
    """No worker is healthy any more."""

    backend: str
    device: int | None
    text: str


class RunLost(CauseBase, frozen=True):
    """No worker can be started any more."""

    text: str


# The backend was not asked, or does not offer it.
NotAsked = (
    UnknownOperator | Unsupported | Declined | UndefinedCall | Interrupted | StoppedAtFailure | DeviceLost | RunLost
)


class ContentError(CauseBase, frozen=True):
    """The case is broken, in the words of the error."""

    text: str


class BaselineWrong(CauseBase, frozen=True):
    """The exact values of disputed elements refute the baseline; values of the first one as text."""

    output: str
    # How many of the recomputed elements it is wrong at.
    elements: int
    examined: int
    index: tuple[int, ...]
    exact: str
    baseline: str
    # The reference made the baseline; else it stands in a file of the user's.
    ours: bool


class Unreadable(CauseBase, frozen=True):
    """The system does not give the case's file."""

    case: str
    text: str


class TooLarge(CauseBase, frozen=True):
    """The case does not fit into memory."""

    case: str


class Unwritable(CauseBase, frozen=True):
    """Something the case needs could not be written."""

    text: str


class Shortage(CauseBase, frozen=True):
    """The machine does not give what the case needs."""

    exception: str
    text: str


class Bug(CauseBase, frozen=True):
    """The harness is wrong."""

    exception: str
    text: str


class Disturbed(CauseBase, frozen=True):
    """Something from outside cut the case short whenever it ran, although it ran alone."""

    by: Literal["late answer", "fork server"]


class NoRoom(CauseBase, frozen=True):
    """No worker can hold the tensors."""


# Not the backend's doing.
NotItsFault = ContentError | BaselineWrong | Unreadable | TooLarge | Unwritable | Shortage | Bug | Disturbed | NoRoom
