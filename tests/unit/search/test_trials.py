"""Candidates on a backend: after the first hang nobody waits long."""

from dataclasses import dataclass, field

from mluops_gtest.core import cause
from mluops_gtest.core.call import Status
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.running.caller import Ending, InlineCaller, Reply
from mluops_gtest.running.case_run import Options
from mluops_gtest.search.minimise import Trials
from tests.unit.running.small_operator import DOUBLES, doubling


class Backend:
    name = "hanging"

    def run(self, call):
        return Status.SUCCESS


@dataclass
class Hanging(InlineCaller):
    """Says that it hung, and remembers how long it was given."""

    given: list = field(default_factory=list)
    seconds: float = 0.0

    def __post_init__(self):
        super().__init__(Backend())

    def request(self, _what, call, timeout):
        self.given.append(timeout)
        if self.seconds:
            call.array("y")[...] = 2 * call.array("x")
            return Reply(status=Status.SUCCESS, seconds=self.seconds, scalars={"count": 4})
        return Reply(ended=Ending.TIMED_OUT, causes=(cause.TimedOut(timeout),))


def test_the_first_hang_gets_all_its_time_and_the_next_one_second():
    caller = Hanging()
    trials = Trials(caller, Options(timeout=50.0), DOUBLES)
    assert trials(doubling()).outcome is Outcome.TIMED_OUT
    assert trials(doubling()).outcome is Outcome.TIMED_OUT
    trials.explained(doubling())
    assert caller.given == [50.0, 1.0, 50.0]


def test_a_slow_backend_is_not_taken_for_a_hanging_one():
    caller = Hanging(seconds=0.5)
    trials = Trials(caller, Options(timeout=50.0), DOUBLES)
    trials(doubling())
    caller.seconds = 0.0
    trials(doubling())
    trials(doubling())
    assert caller.given == [50.0, 50.0, 10.0]


def test_no_call_gets_longer_than_the_user_allows():
    caller = Hanging()
    trials = Trials(caller, Options(timeout=0.25), DOUBLES)
    trials(doubling())
    trials(doubling())
    assert caller.given == [0.25, 0.25]
