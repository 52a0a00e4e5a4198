"""Which failures are confirmed; what many repetitions come to; no case is lost or run twice, whatever happens."""

import itertools
import threading
from dataclasses import replace

import pytest

from mluops_gtest.base.errors import UsageError
from mluops_gtest.core import cause as c
from mluops_gtest.core.call import Status
from mluops_gtest.core.cause import NothingCompared, Places, RunLost, TimedOut, Unwritten
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult, StressReading, ThreadsReading
from mluops_gtest.judging.fingerprint import with_fingerprint
from mluops_gtest.running.caller import BackendChoice, InlineCaller, LostDeviceError
from mluops_gtest.running.case_run import CaseRun, Options, PlannedCase
from mluops_gtest.running.options import Stress, thread_counts
from mluops_gtest.running.repetition import UNCONFIRMED, Confirmation, Repetition, StressRun, combine_repetitions
from mluops_gtest.running.run import Scheduler
from tests.support.reports import result
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


@pytest.mark.parametrize("lives", [[None], [None] * 2, [None] * 5, [0, None], [1, None], [29, None]])
def test_every_case_runs_once_though_a_slot_is_lost(lives):
    slots = [Slot(dies_after) for dies_after in lives]
    assert finished(Scheduler(slots).run(CASES)) == sorted(case.id for case in CASES)
    assert sorted(case for slot in slots for case in slot.ran) == sorted(case.id for case in CASES)


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


PASSED = result()
FAILED = with_fingerprint(result(outcome=Outcome.FAILED, causes=(c.ScalarWrong("n", "2", 3),)))
SKIPPED = result(outcome=Outcome.SKIPPED, compared=False, readings=())


@pytest.mark.parametrize(
    ("word", "stress"),
    [("60", Stress(60.0)), ("0.5", Stress(0.5)), ("20x", Stress(times=20)), (" 1x ", Stress(times=1))],
)
def test_words_for_how_long(word, stress):
    assert Stress.parse(word) == stress


@pytest.mark.parametrize("word", ["", "0", "0.0", "0x", "-3", "x", "1e3", "nan", "٣", "9" * 40, "2 x", "inf"])
def test_what_is_no_time_is_refused(word):
    with pytest.raises(UsageError, match="--stress 20x"):
        Stress.parse(word)


def test_cases_share_the_seconds_and_lanes_add_to_them():
    assert Stress(60.0).shared(cases=12, slots=2).seconds == 10.0
    assert Stress(times=7).shared(cases=12, slots=2) == Stress(times=7)
    assert Stress(60.0).shared(cases=0, slots=1).seconds == 60.0


@pytest.mark.parametrize(("cores", "counts"), [(1, (2, 1)), (2, (2, 1, 4, 3)), (8, (8, 2, 1, 16, 9))])
def test_numbers_of_threads_begin_where_races_are_likeliest(cores, counts):
    assert thread_counts(cores) == counts


def repetitions(*results, bits=None, counts=(2, 1, 4)):
    threads = itertools.cycle(counts)
    return [Repetition(next(threads), one, (bits or {}).get(i, b"first")) for i, one in enumerate(results)]


def test_all_passed_and_equal():
    whole = combine_repetitions(repetitions(PASSED, PASSED, PASSED, PASSED))
    rows = (ThreadsReading(1, 1, 0, 0), ThreadsReading(2, 2, 0, 0), ThreadsReading(4, 1, 0, 0))
    assert whole == replace(PASSED, stress=StressReading(rows))


def test_other_bits_that_pass_are_a_note():
    whole = combine_repetitions(repetitions(PASSED, PASSED, PASSED, PASSED, bits={2: b"other", 3: b"third"}))
    assert whole.outcome is Outcome.PASSED
    assert (whole.stress.differing, whole.stress.failed) == (2, 0)
    (note,) = whole.notes
    assert note.startswith("2 of 4 repetitions left other bits than the first, and all of them pass")
    assert "1 with 2, 1 with 4 threads" in note


def test_some_that_fail_make_the_case_flaky_with_their_count():
    whole = combine_repetitions(repetitions(PASSED, FAILED, PASSED, PASSED, FAILED))
    assert whole.outcome is Outcome.FLAKY
    assert whole.reason == "failed in 2 of 5 repetitions, first with OMP_NUM_THREADS=1: n is 2, expected 3"
    assert whole.stress.first_failed == 1
    assert whole.fingerprint not in ("", FAILED.fingerprint)


def test_a_race_has_one_fingerprint_wherever_it_strikes():
    def struck(first, count):
        places = c.Places(count, 4000, first, first + count - 1)
        return with_fingerprint(result(outcome=Outcome.FAILED, causes=(c.BeyondBound("y", places, "float"),)))

    near, far = struck(0, 1), struck(2000, 900)
    assert near.fingerprint != far.fingerprint
    assert (
        combine_repetitions(repetitions(PASSED, near)).fingerprint
        == combine_repetitions(repetitions(PASSED, far, PASSED)).fingerprint
    )


def test_what_always_fails_keeps_its_outcome_and_its_fingerprint():
    whole = combine_repetitions(repetitions(FAILED, FAILED))
    assert (whole.outcome, whole.fingerprint) == (Outcome.FAILED, FAILED.fingerprint)
    assert whole.reason.startswith("failed in 2 of 2 repetitions, first with OMP_NUM_THREADS=2: ")


class Scripted:
    """Gives these results one after the other, then the last again and again: a CaseRun and its caller."""

    save_outputs = None

    def __init__(self, *results):
        self.caller, self.used, self.results = self, [], list(results)

    def with_threads(self, threads):
        self.used.append(threads)
        return self

    def attempt(self, _task):
        return self.results.pop(0) if len(self.results) > 1 else self.results[0]


def run(*results, stress):
    """The verdict and the numbers of threads; a second passes with every look at the clock."""
    scripted = Scripted(*results)
    clock = itertools.count(1).__next__
    return StressRun(scripted, stress, counts=(2, 1, 4), clock=clock).run(None), scripted.used


@pytest.mark.parametrize(
    ("results", "stress", "outcome", "used"),
    [
        pytest.param([PASSED], Stress(times=5), Outcome.PASSED, [2, 1, 4, 2, 1], id="so many times, counts in turn"),
        pytest.param([PASSED], Stress(1.0), Outcome.PASSED, [2, 1, 4], id="every count once, though the time is over"),
        pytest.param([PASSED], Stress(20.0), Outcome.PASSED, None, id="until the time is over"),
        pytest.param([FAILED], Stress(1000.0), Outcome.FAILED, [2, 1, 4], id="what fails alike with every count"),
        pytest.param([PASSED, FAILED, PASSED], Stress(20.0), Outcome.FLAKY, None, id="what comes and goes, to the end"),
    ],
)
def test_how_long_a_case_is_repeated(results, stress, outcome, used):
    whole, counts = run(*results, stress=stress)
    assert counts == used if used else len(counts) > 10
    assert (whole.outcome, whole.stress.repetitions) == (outcome, len(counts))
    assert whole.stress.failed == {Outcome.PASSED: 0, Outcome.FLAKY: 1, Outcome.FAILED: len(counts)}[outcome]


def test_a_skip_ends_it_at_once():
    assert run(SKIPPED, stress=Stress(times=50)) == (SKIPPED, [2])
