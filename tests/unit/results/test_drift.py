"""Readings that grow while the case still passes."""

import math

import pytest

from mluops_gtest.base.errors import ExitCode
from mluops_gtest.core.result import Reading
from mluops_gtest.results.gate_findings import decision_to_json, findings
from mluops_gtest.results.gate_reference import DriftLimits
from tests.unit.results.build import EVERYTHING, gate, report, result

FLOAT, HALF = 2.0**-22, 2.0**-9


def drift(before, now, dtype="float", **policy):
    old, new = (report(result("op/a", value=value, dtype=dtype)) for value in (before, now))
    return gate(old, new, **policy)


@pytest.mark.parametrize(
    ("before", "now", "dtype", "found"),
    [
        (1e-5, 3.9e-5, "float", False),
        (1e-5, 4.1e-5, "float", True),
        (1e-5, 4e-5, "float", False),
        (0.0, 4 * FLOAT, "float", False),
        (0.0, 4.01 * FLOAT, "float", True),
        (FLOAT / 100, FLOAT / 2, "float", False),
        (0.0, 4 * HALF, "half", False),
        (0.0, 4.01 * HALF, "half", True),
        (0.0, 4.01 * HALF, "bfloat16", True),
        (0.0, 8 * FLOAT, "half", False),
        (1e-3, 1e-9, "float", False),
    ],
)
def test_a_reading_may_grow_by_the_factor_from_the_floor_on(before, now, dtype, found):
    assert bool(drift(before, now, dtype).drifts) is found


def test_drift_is_told_and_blocks_only_when_asked_for():
    assert drift(1e-5, 1e-3).exit_code is ExitCode.OK
    decision = drift(1e-5, 1e-3, strict_accuracy=True)
    assert decision.exit_code is ExitCode.FAILED
    assert decision.drifts[0].factor == pytest.approx(100)
    assert (decision.drifts[0].output, decision.drifts[0].criterion, decision.drifts[0].limit) == ("y", "diff1", 4.0)


def test_operators_have_limits_of_their_own():
    assert not drift(1e-5, 6e-5, drift=DriftLimits(4, {"op": 8})).drifts
    assert drift(1e-5, 6e-5, drift=DriftLimits(4, {"other": 8})).drifts
    assert drift(1e-5, 3e-5, drift=DriftLimits(2)).drifts


@pytest.mark.parametrize(("before", "now"), [("failed", "failed"), ("passed", "failed"), ("failed", "passed")])
def test_only_cases_that_still_pass_drift(before, now):
    old, new = report(result("op/a", before, value=1e-5)), report(result("op/a", now, value=1.0))
    assert not gate(old, new).drifts


def test_a_share_is_no_size_and_nan_is_no_number():
    def readings(*pairs):
        return tuple(Reading("y", criterion, value, 1.0, True) for criterion, value in pairs)

    old = report(result("op/a", readings=readings(("diff4", 0.01), ("diff2", 1e-5)), value=None))
    new = report(result("op/a", readings=readings(("diff4", 0.5), ("diff2", math.nan)), value=None))
    assert not gate(old, new).drifts


def test_the_floor_is_that_of_the_output_which_was_read():
    info = result("op/a", dtype="half").info
    reading = (Reading("other", "diff1", 5 * FLOAT, 1.0, True),)
    new = report(result("op/a", readings=reading, value=None, info=info))
    assert len(gate(report(result("op/a")), new).drifts) == 1


def with_seed(number, *results):
    return report(*results, selection={**EVERYTHING, "reseed": number})


@pytest.mark.parametrize(
    ("before", "now", "compared"), [(None, 7, False), (7, None, False), (7, 8, False), (7, 7, True)]
)
def test_readings_of_other_values_are_not_compared_and_that_is_told(before, now, compared):
    old, new = with_seed(before, result("op/a", value=1e-6)), with_seed(now, result("op/a", value=1e-3))
    decision = gate(old, new, strict_accuracy=True)
    assert bool(decision.drifts) is compared
    assert decision.exit_code is (ExitCode.FAILED if compared else ExitCode.OK)
    told = [finding for finding in findings(decision) if finding.key == "other values"]
    assert len(told) == (0 if compared else 1)
    assert bool(decision_to_json(decision)["other_values"]) is not compared
    if not compared:
        assert f"RESULTS {'without --reseed' if now is None else f'with --reseed {now}'}, the baseline" in told[0].text


def test_outcomes_are_compared_whatever_the_values():
    decision = gate(with_seed(None, result("op/a")), with_seed(7, result("op/a", "failed")))
    assert [change.transition.value for change in decision.blocking] == ["regressed"]
