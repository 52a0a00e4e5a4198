"""Which failures are confirmed, while there is time; no case is lost or run twice, whatever happens to a slot."""

import threading

import pytest

from mluops_gtest.core.call import Status
from mluops_gtest.core.cause import NothingCompared, Places, RunLost, TimedOut, Unwritten
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.running.caller import BackendChoice, InlineCaller, LostDeviceError
from mluops_gtest.running.case_run import CaseRun, Options, PlannedCase
from mluops_gtest.running.repetition import UNCONFIRMED, Confirmation
from mluops_gtest.running.run import Scheduler
from tests.unit.running.small_operator import DOUBLES, doubling

UNWRITTEN = Unwritten("y", Places(1, 2, 0, 0), (0,))


def failure(operator="op", cause=UNWRITTEN, outcome=Outcome.FAILED):
    return CaseResult(f"{operator}/case", operator, (), outcome, causes=(cause,))


def due(confirmation, slot, first, times, seconds=0.0):
    """The numbers, from 1 on, of those that are confirmed."""
    return [number for number in range(1, times + 1) if confirmation.is_due(slot, first, seconds)]


def test_the_first_three_and_then_one_in_20_of_each_kind_and_slot():
    confirmation = Confirmation(lambda: 0.0)
    assert due(confirmation, "slot", failure(), 50) == [1, 2, 3, 23, 43]
    assert due(confirmation, "slot", failure("other"), 4) == [1, 2, 3]
    assert due(confirmation, "slot", failure(cause=NothingCompared()), 4) == [1, 2, 3]
    assert due(confirmation, "other slot", failure(), 4) == [1, 2, 3]


def test_timeouts_once_per_operator_whatever_the_slot():
    confirmation = Confirmation(lambda: 0.0)
    late = failure(cause=TimedOut(1.0), outcome=Outcome.TIMED_OUT)
    assert due(confirmation, "slot", late, 50) == [1]
    assert due(confirmation, "other slot", late, 50) == []
    assert confirmation.is_due("slot", failure("other", TimedOut(1.0), Outcome.TIMED_OUT), 1.0)


def test_a_failure_that_takes_more_than_there_is_left_is_not_confirmed():
    now = [0.0]
    confirmation = Confirmation(lambda: now[0])
    for now[0], fits, exceeds in ((0.0, 60.0, 60.5), (1000.0, 250.0, 251.0)):
        assert confirmation.is_due("slot", failure(f"op{fits}"), fits)
        assert not confirmation.is_due("slot", failure(f"op{exceeds}"), exceeds)


@pytest.mark.parametrize(
    ("spec", "serve", "keeps"),
    [("exec:./a.out", False, False), ("exec:./a.out", True, True), ("c:./a.so", False, True)],
)
def test_a_program_without_serve_has_no_history(spec, serve, keeps):
    assert BackendChoice(spec, (), serve=serve).keeps_state is keeps


class Clocked:
    """A wrong backend: each of its calls takes 25 s."""

    name = "clocked"

    def __init__(self):
        self.now = 0.0

    def run(self, call):
        self.now += 25.0
        call.array("y")[...] = 7.0
        call.scalars["count"] = call.array("x").size
        return Status.SUCCESS


def test_what_confirmation_took_is_spent():
    backend = Clocked()
    caller, confirmation = InlineCaller(backend), Confirmation(lambda: backend.now)
    caller.has_run = True
    case = doubling(count=4)
    source = type("Source", (), {"load": lambda _self, _id: case})()
    case_run = CaseRun(caller, Options(), None, source, {"doubles": DOUBLES}, confirmation)
    results = [case_run.run(PlannedCase(case.id, case.operator, case.tags)) for _ in range(4)]
    assert {one.outcome for one in results} == {Outcome.FAILED}
    # The first has no history; the next two take 25 s each to confirm, and then 10 s are left.
    assert [UNCONFIRMED in one.notes for one in results] == [False, False, False, True]
    assert backend.now == 6 * 25.0


GONE = RunLost("gone")
CASES = [PlannedCase(f"op/{i}", "op", ()) for i in range(30)]


class Slot:
    """Finishes cases until `dies_after` of them, then loses its device at the next one."""

    def __init__(self, dies_after=None):
        self.left = dies_after
        self.ran = []

    def run(self, planned):
        if self.left == 0:
            raise LostDeviceError(GONE)
        if self.left is not None:
            self.left -= 1
        self.ran.append(planned.id)
        return CaseResult(planned.id, "op", (), Outcome.SKIPPED)


def finished(events):
    return sorted(event.case for event in events if isinstance(event, CaseResult))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_case_runs_once(count):
    slots = [Slot() for _ in range(count)]
    assert finished(Scheduler(slots).run(CASES)) == sorted(case.id for case in CASES)
    assert sorted(case for slot in slots for case in slot.ran) == sorted(case.id for case in CASES)


@pytest.mark.parametrize("dies_after", [0, 1, 29])
def test_a_lost_slot_gives_its_case_to_the_others(dies_after):
    slots = Scheduler([Slot(dies_after), Slot()])
    assert finished(slots.run(CASES)) == sorted(case.id for case in CASES)


def test_when_no_slot_is_left_the_reason_is_kept():
    slots = Scheduler([Slot(2), Slot(3)])
    assert len(finished(slots.run(CASES))) == 5
    assert slots.lost == GONE


@pytest.mark.parametrize("count", [1, 3])
def test_stopping_takes_no_further_case(count):
    stopped = threading.Event()

    class Waits(Slot):
        """Its second case ends only when the slots have been stopped."""

        def run(self, planned):
            assert not self.ran or stopped.wait(10)
            return super().run(planned)

    slots = Scheduler([Waits() for _ in range(count)])
    seen = []
    for event in slots.run(CASES):
        seen.append(event)
        if isinstance(event, CaseResult):
            slots.stop()
            stopped.set()
    assert len(finished(seen)) <= 2 * count


@pytest.mark.parametrize("count", [1, 2])
def test_a_bug_of_ours_is_not_swallowed(count):
    class Broken(Slot):
        def run(self, planned):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(Scheduler([Broken() for _ in range(count)]).run(CASES))
