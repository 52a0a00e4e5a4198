"""Which failures are one."""

from mluops_gtest.core import cause
from mluops_gtest.core.cause import Places
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.search.corpus import KnownCauses, cause_key


def failed(*causes, outcome=Outcome.FAILED, operator="op"):
    return CaseResult("op/x", operator, (), outcome, causes=causes)


def places(count):
    return Places(count, 100, 0, count)


def test_figures_and_places_do_not_matter():
    one, other = (failed(cause.BeyondBound("y", places(n), "float")) for n in (3, 70))
    assert cause_key(one) == cause_key(other)


def test_values_that_are_not_finite_are_wrong_values_too():
    odd = cause.NonFinite("y", 1, 0, (), places(1))
    assert cause_key(failed(odd)) == cause_key(failed(cause.BeyondBound("y", places(2), "float")))


def test_outputs_outcomes_checks_and_operators_tell_causes_apart():
    beyond = cause.BeyondBound("y", places(1), "float")
    status = cause.WrongStatus("SUCCESS", "BAD_PARAM", check="x_rank")
    keys = {
        cause_key(failed(beyond)),
        cause_key(failed(beyond, operator="other")),
        cause_key(failed(cause.BeyondBound("z", places(1), "float"))),
        cause_key(failed(status, outcome=Outcome.WRONG_STATUS)),
        cause_key(failed(cause.WrongStatus("SUCCESS", "BAD_PARAM", check="y_rank"), outcome=Outcome.WRONG_STATUS)),
        cause_key(failed(outcome=Outcome.TIMED_OUT)),
    }
    assert len(keys) == 6


def test_a_cause_is_new_once():
    known = KnownCauses()
    key = ("op", "failed", "values", "y", "TurnedZero")
    assert [known.is_new(key), known.is_new(key)] == [True, False]


def test_of_failures_that_differ_in_the_law_alone_few_are_kept():
    known = KnownCauses()
    laws = [known.is_new(("op", "failed", "values", "y", f"law {number}")) for number in range(6)]
    assert laws == [True, True, True, False, False, False]
