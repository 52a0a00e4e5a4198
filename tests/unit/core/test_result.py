"""No result can say `passed` unless something was looked at."""

import pytest

from mluops_gtest.core.call import Status
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult, Reading

GOOD = Reading("y", "diff1", 1e-6, 3e-3, True)
BAD = Reading("y", "diff1", 1.0, 3e-3, False)
OK = Status.SUCCESS


def result(outcome=Outcome.PASSED, **fields):
    return CaseResult("op/case", "op", (), outcome, **{"compared": True, **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"readings": (GOOD,)},
        {"status": OK, "expected_status": OK},
        {"status": Status.BAD_PARAM, "expected_status": Status.BAD_PARAM},
        {"status": OK, "expected_status": OK, "readings": (GOOD, GOOD)},
    ],
)
def test_a_look_is_enough(fields):
    assert result(**fields).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "no reading and no status"),
        ({"status": OK}, "no reading and no status"),
        ({"expected_status": OK}, "no reading and no status"),
        ({"status": OK, "expected_status": Status.BAD_PARAM}, "answered SUCCESS, and BAD_PARAM was expected"),
        ({"status": OK, "expected_status": Status.BAD_PARAM, "readings": (GOOD,)}, "BAD_PARAM was expected"),
        ({"readings": (GOOD, BAD)}, "beyond its threshold"),
        ({"readings": (GOOD,), "compared": False}, "nothing was compared"),
    ],
)
def test_passed_without_proof_cannot_be(fields, words):
    with pytest.raises(ValueError, match="op/case cannot have passed: ") as caught:
        result(**fields)
    assert words in str(caught.value)
    assert result(Outcome.FAILED, **fields).outcome is Outcome.FAILED
