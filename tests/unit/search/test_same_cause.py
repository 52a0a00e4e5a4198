"""Which failures have the same cause."""

from dataclasses import replace

import pytest

from mluops_gtest.core import cause as c
from mluops_gtest.core.call import Status
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult, ElementReading
from mluops_gtest.search.minimise import FailureCause, can_be_minimised

PLACES = c.Places(3, 10, 1, 7)


def failed(*causes, outcome=Outcome.FAILED, status=Status.SUCCESS, elements=()):
    return CaseResult("op/case", "op", (), outcome, status=status, causes=causes, elements=elements, compared=True)


def exceeded(output, value=1.0, places=PLACES):
    return c.Exceeded(output, (c.Excess("diff1", value, 1e-3),), places, False, False, None, 3)


def beyond(output):
    return ElementReading(output, "float", 2, 10, 5.0, (0,), "1", "2", 0.1)


def same(first, second):
    return FailureCause.of(first).is_also_of(second)


def test_digits_and_places_do_not_matter():
    assert same(failed(exceeded("y")), failed(exceeded("y", 0.1, c.Places(1, 1, 0, 0))))
    assert same(failed(c.TimedOut(60.0), outcome=Outcome.TIMED_OUT), failed(c.TimedOut(1.0), outcome=Outcome.TIMED_OUT))
    overruns = [failed(c.Overrun("y", "behind", n), outcome=Outcome.MEMORY) for n in (1, 500)]
    assert same(*overruns)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (failed(exceeded("y")), failed(exceeded("z"))),
        (failed(exceeded("y")), failed(c.Unwritten("y", PLACES, (0,)))),
        (failed(exceeded("y")), failed(exceeded("y"), outcome=Outcome.MEMORY)),
        (failed(exceeded("y")), failed(exceeded("y"), status=Status.BAD_PARAM)),
        (failed(c.Overrun("y", "behind", 1)), failed(c.Overrun("y", "in front", 1))),
        (failed(c.Killed("SIGSEGV", 11)), failed(c.Killed("SIGABRT", 6))),
        (failed(c.Raised("ValueError", "a")), failed(c.Raised("KeyError", "a"))),
        (failed(c.WrongStatus("SUCCESS", "BAD_PARAM")), failed(c.WrongStatus("NOT_SUPPORTED", "BAD_PARAM"))),
    ],
)
def test_kind_output_outcome_status_side_and_signal_do(first, second):
    assert same(first, first)
    assert not same(first, second)
    assert not same(second, first)


def test_a_crash_is_the_same_however_its_signal_is_told():
    assert same(failed(c.Killed("SIGSEGV", 11)), failed(c.Fault("SIGSEGV", "read", "0x10", "null")))


def test_causes_may_go_but_not_come_and_the_main_one_stays():
    both = failed(exceeded("y"), exceeded("z"))
    assert same(both, failed(exceeded("y")))
    assert not same(failed(exceeded("y")), both)
    assert not same(both, failed(exceeded("z")))


def test_what_was_beyond_arithmetic_stays_so():
    """A sum that cancels breaks a criterion by rounding alone."""
    wrong = failed(exceeded("y"), elements=(beyond("y"),))
    assert same(wrong, wrong)
    assert not same(wrong, failed(exceeded("y")))
    assert same(failed(exceeded("y")), wrong)


def test_only_the_backends_own_failures_can_be_minimised():
    assert can_be_minimised(failed(exceeded("y")))
    assert can_be_minimised(failed(c.Raised("ValueError", "a"), outcome=Outcome.ERROR))
    assert not can_be_minimised(failed(c.ContentError("x"), outcome=Outcome.ERROR))
    assert not can_be_minimised(replace(failed(c.Bug("KeyError", "x"), outcome=Outcome.ERROR), bug=True))
    assert not can_be_minimised(failed(c.Unsupported("b", "op"), outcome=Outcome.SKIPPED))
    assert not can_be_minimised(failed(c.ConstantBaseline("y"), outcome=Outcome.SUSPECT))
