"""What counts as the same failure, and candidates judged as `run` judges, without waiting long for hangs."""

from typing import Final, Self

from msgspec.structs import replace

from mluops_gtest.engine.caller import Caller
from mluops_gtest.engine.execute import Executor, Options
from mluops_gtest.model import cause as c
from mluops_gtest.model.case import Case
from mluops_gtest.model.operator import Operator
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
    is_innocent = any(isinstance(cause, c.NotItsFault | c.NotAsked) for cause in result.causes)
    return result.outcome.fails and not result.content_error and not result.bug and not is_innocent


def _mark(cause: c.Cause) -> Mark:
    """The cause without figures and places; empty for what only stands before other causes."""
    match cause:
        case c.PassedAtTry() | c.AfterTimedCalls() | c.UnderStress() | c.OnlyAfter():
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
        case c.QueryStatus(answered=answered, expected=expected):  # before that of the operator, whose type it has
            return ("query", answered, expected)
        case c.WrongStatus(answered=answered, expected=expected):
            return ("status", answered, expected)
        case (
            c.Unwritten(output=name)
            | c.NonFinite(output=name)
            | c.WrittenAnyway(output=name)
            | c.ScalarMissing(output=name)
            | c.ScalarWrong(output=name)
            | c.FileSize(output=name)
            | c.StillWritten(output=name)
            | c.InputChanged(input=name)
            | c.HostArrayChanged(array=name)
            | c.PageWritten(tensor=name)
        ):
            return (type(cause).__name__, name)
    return (type(cause).__name__,)


# After the first hang a call gets so many seconds, or so many times what the slowest call took that did not hang.
_SHORT_SECONDS: Final = 1.0
_TIMES_THE_SLOWEST: Final = 20.0


class Trials:
    """Calls the backend with one candidate after the other."""

    def __init__(self, caller: Caller, options: Options, operator: Operator) -> None:
        self._caller, self._options, self._operator = caller, options, operator
        self._executor = Executor(caller, replace(options, explain=False))
        self._slowest = 0.0

    def __call__(self, case: Case) -> CaseResult:
        """The verdict, without an explanation."""
        result = self._executor.execute(case, self._operator)
        if result.outcome is Outcome.TIMED_OUT:
            self._hurry()
        else:
            self._slowest = max(self._slowest, result.seconds)
        return result

    def explained(self, case: Case) -> CaseResult:
        """The verdict with its explanation, and with all the time that a run gives."""
        return Executor(self._caller, self._options).execute(case, self._operator)

    def _hurry(self) -> None:
        short = max(_SHORT_SECONDS, _TIMES_THE_SLOWEST * self._slowest)
        limit = short if self._options.timeout is None else min(short, self._options.timeout)
        self._executor = Executor(self._caller, replace(self._executor.options, timeout=limit))
