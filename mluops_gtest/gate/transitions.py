"""What became of a case since the reference, and whether that alone stops a merge."""

from mluops_gtest.model.result import Outcome
from mluops_gtest.model.table_enum import TableEnum

# These, and no others, can be waived.
FAILING = tuple(outcome for outcome in Outcome if outcome.fails)
# Before there was no verdict on the kernel.
_WAS_OPEN = (None, Outcome.SKIPPED, Outcome.NOT_RUN)


class Transition(TableEnum):
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

    def __init__(self, _word: str, blocks: bool) -> None:
        self.blocks = blocks


def transition(before: Outcome | None, now: Outcome | None) -> Transition:
    """The transition between two outcomes; None means the case was absent. Skipped or not run counts as absent."""
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
            if before is not None and before.passes:
                return Transition.STILL_PASSING
            return Transition.NEW if before in _WAS_OPEN else Transition.FIXED
    if before is not None and before.passes:
        return Transition.REGRESSED
    return Transition.NEW_AND_FAILING if before in _WAS_OPEN else Transition.STILL_FAILING
