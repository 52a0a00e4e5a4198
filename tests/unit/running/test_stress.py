"""`--stress`: how long, with how many threads, and what many repetitions of one case come to."""

import itertools
from dataclasses import replace

import pytest

from mluops_gtest.base.errors import UsageError
from mluops_gtest.core import cause as c
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import StressReading, ThreadsReading
from mluops_gtest.judging.fingerprint import with_fingerprint
from mluops_gtest.running.options import Stress, thread_counts
from mluops_gtest.running.repetition import Repetition, StressRun, combine_repetitions
from tests.support.reports import result

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


def test_so_many_times_with_the_counts_in_turn():
    whole, used = run(PASSED, stress=Stress(times=5))
    assert used == [2, 1, 4, 2, 1]
    assert whole.stress.repetitions == 5


def test_until_the_time_is_over_but_every_count_once():
    assert run(PASSED, stress=Stress(seconds=1.0))[1] == [2, 1, 4]
    assert len(run(PASSED, stress=Stress(seconds=20.0))[1]) > 10


def test_what_fails_alike_with_every_count_needs_no_more():
    whole, used = run(FAILED, stress=Stress(seconds=1000.0))
    assert used == [2, 1, 4]
    assert whole.outcome is Outcome.FAILED


def test_a_failure_that_comes_and_goes_is_counted_to_the_end():
    whole, used = run(PASSED, FAILED, PASSED, stress=Stress(seconds=20.0))
    assert (whole.outcome, whole.stress.failed) == (Outcome.FLAKY, 1)
    assert len(used) > 10


def test_a_skip_ends_it_at_once():
    assert run(SKIPPED, stress=Stress(times=50)) == (SKIPPED, [2])
