"""When two failures have the same cause: independent of digits, places and how much of an output is wrong."""

from collections.abc import Iterable
from typing import Self

from mluops_gtest.model import cause as c
from mluops_gtest.model.outcome import Outcome
from mluops_gtest.model.result import CaseResult
from mluops_gtest.model.status import Status
from mluops_gtest.value import Value

# A kind of cause, and what it is about: an output, a buffer and its side, a signal, an exception, two statuses.
Mark = tuple[str, ...]
_VALUES = "values"


class FailureCause(Value):
    """How a case fails, in what stays the same when the case becomes smaller."""

    outcome: Outcome
    status: Status | None
    # Of the causes, the main one first.
    marks: tuple[Mark, ...]
    # Outputs with elements further off than arithmetic allows.
    beyond: frozenset[str]

    @classmethod
    def of(cls, result: CaseResult) -> Self:
        """How this case fails."""
        marks = dict.fromkeys(mark for cause in result.causes if (mark := _mark(cause)))
        beyond = {reading.output for reading in result.elements if reading.beyond}
        beyond |= {cause.output for cause in result.causes if isinstance(cause, c.BeyondBound)}
        return cls(result.outcome, result.status, tuple(marks), frozenset(beyond))

    def is_also_of(self, result: CaseResult) -> bool:
        """The result fails for this cause.

        It comes to the same outcome and status, its main cause is the same, and it has no cause that was not there.
        Where elements were further off than arithmetic allows, some still are: a sum that merely cancels in the
        smaller case may break a criterion, but it is not the same mistake.
        """
        other = FailureCause.of(result)
        if (self.outcome, self.status, self.marks[:1]) != (other.outcome, other.status, other.marks[:1]):
            return False
        wrong = {output for kind, *about in other.marks if kind == _VALUES for output in about}
        return set(other.marks) <= set(self.marks) and wrong & self.beyond <= other.beyond


def can_be_minimised(result: CaseResult) -> bool:
    """The backend did something wrong that a smaller case may show as well."""
    return result.outcome.fails and not result.content_error and not result.bug and not _is_not_its_fault(result.causes)


def _is_not_its_fault(causes: Iterable[c.Cause]) -> bool:
    return any(isinstance(cause, c.NotItsFault | c.NotAsked) for cause in causes)


def _mark(cause: c.Cause) -> Mark:
    """The cause without figures and places; empty for what only stands before other causes."""
    match cause:
        case c.PassedAtTry() | c.AfterTimedCalls() | c.UnderStress():
            return ()
        case c.Exceeded(output=name) | c.BeyondBound(output=name) | c.BitsUnequal(output=name):
            return (_VALUES, name)
        case c.Killed(signal=signal) | c.Fault(signal=signal) | c.ProgramDied(signal=signal):
            return ("died", signal)
        case c.Exited(code=code):
            return ("exited", str(code))
        case c.Raised(exception=exception, asked=asked):
            return ("raised", exception, asked)
        case c.Overrun(buffer=buffer, side=side):
            return ("overrun", buffer, side)
        case c.WrongStatus(answered=answered, expected=expected):
            return ("status", answered, expected)
        case (
            c.Unwritten(output=name)
            | c.NonFinite(output=name)
            | c.WrittenAnyway(output=name)
            | c.ScalarMissing(output=name)
            | c.ScalarWrong(output=name)
            | c.FileSize(output=name)
            | c.InputChanged(input=name)
            | c.HostArrayChanged(array=name)
            | c.PageWritten(tensor=name)
        ):
            return (type(cause).__name__, name)
    return (type(cause).__name__,)
