"""Cases side by side: none is lost and none is run twice, whatever happens to a lane."""

import threading

import pytest

from mluops_gtest.core.cause import RunLost
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import CaseFinished, CaseStarted
from mluops_gtest.core.result import CaseResult
from mluops_gtest.running.caller import LostDeviceError
from mluops_gtest.running.run import Lanes, PlannedCase

GONE = RunLost("gone")
CASES = [PlannedCase(f"op/{i}", "op", ()) for i in range(30)]


class Lane:
    """Finishes cases until `dies_after` of them, then loses its device at the next one."""

    def __init__(self, dies_after=None):
        self.left = dies_after
        self.ran = []

    def start(self, planned):
        return CaseStarted(planned.id)

    def run(self, planned):
        if self.left == 0:
            raise LostDeviceError(GONE)
        if self.left is not None:
            self.left -= 1
        self.ran.append(planned.id)
        return CaseFinished(CaseResult(planned.id, "op", (), Outcome.SKIPPED))


def finished(events):
    return sorted(event.result.case for event in events if isinstance(event, CaseFinished))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_case_runs_once(count):
    lanes = [Lane() for _ in range(count)]
    assert finished(Lanes(lanes).run(CASES)) == sorted(case.id for case in CASES)
    assert sorted(case for lane in lanes for case in lane.ran) == sorted(case.id for case in CASES)


@pytest.mark.parametrize("dies_after", [0, 1, 29])
def test_a_lost_lane_gives_its_case_to_the_others(dies_after):
    lanes = Lanes([Lane(dies_after), Lane()])
    assert finished(lanes.run(CASES)) == sorted(case.id for case in CASES)


def test_when_no_lane_is_left_the_reason_is_kept():
    lanes = Lanes([Lane(2), Lane(3)])
    assert len(finished(lanes.run(CASES))) == 5
    assert lanes.lost == GONE


@pytest.mark.parametrize("count", [1, 3])
def test_stopping_takes_no_further_case(count):
    stopped = threading.Event()

    class Waits(Lane):
        """Its second case ends only when the lanes have been stopped."""

        def run(self, planned):
            assert not self.ran or stopped.wait(10)
            return super().run(planned)

    lanes = Lanes([Waits() for _ in range(count)])
    seen = []
    for event in lanes.run(CASES):
        seen.append(event)
        if isinstance(event, CaseFinished):
            lanes.stop()
            stopped.set()
    assert len(finished(seen)) <= 2 * count


@pytest.mark.parametrize("count", [1, 2])
def test_a_bug_of_ours_is_not_swallowed(count):
    class Broken(Lane):
        def run(self, planned):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(Lanes([Broken() for _ in range(count)]).run(CASES))
