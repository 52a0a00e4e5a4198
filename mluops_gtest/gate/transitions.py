"""What became of a case since the reference, and whether that alone stops a merge."""

from enum import Enum

from mluops_gtest.model.result import Outcome

# Verdicts that say the kernel is wrong; these, and no others, can be waived.
FAILING = (
    Outcome.FAILED,
    Outcome.WRONG_STATUS,
    Outcome.MEMORY,
    Outcome.CRASHED,
    Outcome.TIMED_OUT,
    Outcome.ERROR,
    Outcome.FLAKY,
)
# Before and now there was a verdict on the kernel.
_WAS_PASSING = (Outcome.PASSED, Outcome.XPASSED)
_WAS_OPEN = (None, Outcome.SKIPPED, Outcome.NOT_RUN)


class Transition(Enum):
    """From the reference to now; `blocks` unless a waiver covers the failure."""

    STILL_PASSING = ("still passing", False)
    FIXED = ("fixed", False)
    NEW = ("new", False)
    STILL_SKIPPED = ("still skipped", False)
    REGRESSED = ("regressed", True)
    STILL_FAILING = ("still failing", True)
    NEW_AND_FAILING = ("new and failing", True)
    MISSING = ("missing", True)
    BECAME_SKIPPED = ("became skipped", True)
    SUSPECT = ("suspect", True)
    NOT_RUN = ("not_run", True)

    blocks: bool

    def __new__(cls, word: str, blocks: bool) -> "Transition":
        """Spread one row of the table over the member."""
        member = object.__new__(cls)
        member._value_ = word
        member.blocks = blocks
        return member


def transition(before: Outcome | None, now: Outcome | None) -> Transition:
    """The transition between two outcomes; None where the case was not there. Skipped or not run is not there yet."""
    match now:
        case None:
            return Transition.MISSING
        case Outcome.NOT_RUN:
            return Transition.NOT_RUN
        case Outcome.SUSPECT:
            return Transition.SUSPECT
        case Outcome.SKIPPED:
            if before is Outcome.SKIPPED:
                return Transition.STILL_SKIPPED
            return Transition.NEW if before in _WAS_OPEN else Transition.BECAME_SKIPPED
        case Outcome.PASSED:
            if before in _WAS_PASSING:
                return Transition.STILL_PASSING
            return Transition.NEW if before in _WAS_OPEN else Transition.FIXED
    if before in _WAS_PASSING:
        return Transition.REGRESSED
    return Transition.NEW_AND_FAILING if before in _WAS_OPEN else Transition.STILL_FAILING
