"""Cases side by side: none is lost and none is run twice, whatever happens to a slot."""

import threading

import pytest

from mluops_gtest.core.cause import RunLost
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.running.caller import LostDeviceError
from mluops_gtest.running.case_run import PlannedCase
from mluops_gtest.running.run import Scheduler

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
