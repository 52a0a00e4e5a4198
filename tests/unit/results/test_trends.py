"""What a row of runs says of one case."""

import json
import math

import pytest

from mluops_gtest.core.outcome import FLOOR, Outcome
from mluops_gtest.results.history import CaseTrend, Measured, Point, Run, sparkline

RUN = Run(1, "2026-01-01", "numpy", "machine", "1.0", 1.0, {})
P, F, FLAKY, SKIPPED = Outcome.PASSED, Outcome.FAILED, Outcome.FLAKY, Outcome.SKIPPED


def trend(outcomes=(), values=(), dtype="float", criterion="diff1"):
    if not values:
        return CaseTrend("op/a", "op", tuple(Point(RUN, outcome, 0.1) for outcome in outcomes))
    points = (Point(RUN, P, 0.1, (Measured("y", criterion, dtype, value, 3e-3),)) for value in values)
    return CaseTrend("op/a", "op", tuple(points))


@pytest.mark.parametrize(
    ("outcomes", "passed", "flaky", "flips"),
    [
        ((P, P, P, P), 1.0, 0.0, 0),
        ((P, FLAKY, P, P), 0.75, 0.25, 2),
        ((P, F, F, P), 0.5, 0.0, 2),
        ((P, SKIPPED, P), 1.0, 0.0, 0),
        ((SKIPPED, Outcome.NOT_RUN), None, None, 0),
        ((P, Outcome.XFAILED), 0.5, 0.0, 0),
    ],
)
def test_rates_count_the_runs_that_asked_the_backend(outcomes, passed, flaky, flips):
    case = trend(outcomes)
    assert (case.pass_rate, case.flake_rate, case.flips) == (passed, flaky, flips)


@pytest.mark.parametrize(
    ("values", "factor"),
    [
        ((1e-6, 1e-6, 8e-6), 8.0),
        ((1e-6, 9e-6, 1e-6, 1e-6), 1.0),
        ((0.0, 0.0), 1.0),
        ((0.0, FLOOR), 1.0),
        ((0.0, 4 * FLOOR), 4.0),
        ((1e-5,), 1.0),
        ((1e-5, math.nan), math.inf),
        ((math.nan, math.nan), 1.0),
        ((math.nan, 1e-5, 1e-5), 1.0),
        ((math.inf, math.inf), 1.0),
        ((1e-5, math.inf), math.inf),
        ((8e-6, 1e-6), 1 / 8),
    ],
)
def test_drift_is_growth_over_the_usual_reading(values, factor):
    (drift,) = trend(values=values).drifts
    assert drift.factor == pytest.approx(factor)


def test_a_half_has_a_higher_floor():
    assert trend(values=(1e-6, 1e-3), dtype="half").drifts[0].factor == 1.0
    assert trend(values=(1e-6, 1e-3), dtype="float").drifts[0].factor == pytest.approx(1000)


def test_a_share_of_one_sided_errors_does_not_drift():
    assert trend(values=(0.1, 0.9), criterion="diff4").drifts == ()


def test_the_story_tells_how_much_of_the_threshold_was_used():
    exact = Measured("m", "diff3", "int32", 0.0, 0.0)
    points = (
        Point(RUN, P, 0.1, (Measured("y", "diff1", "float", 6e-4, 3e-3), exact)),
        Point(RUN, F, 0.1, (Measured("m", "diff3", "int32", 1.0, 0.0),)),
        Point(RUN, Outcome.CRASHED, 0.1),
    )
    story = CaseTrend("op/a", "op", points).story
    assert [(outcome, used) for _, outcome, used, _ in story] == [
        ("passed", pytest.approx(0.2)),
        ("failed", math.inf),
        ("crashed", None),
    ]


def test_json_has_no_numbers_that_json_lacks():
    assert json.dumps(trend(values=(1e-5, math.nan)).to_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("values", "log", "bars"),
    [
        ((), False, ""),
        ((1.0, 1.0), False, "▁▁"),
        ((0.0, 0.5, 1.0), False, "▁▅█"),
        ((1.0, math.nan, 2.0), False, "▁·█"),
        ((1.0, math.inf), False, "▁█"),
        ((math.nan,), False, "·"),
        ((2**-20, 2**-16, 2**-12), True, "▁▅█"),
        ((0.0, 1e-30, 1.0), True, "▁▁█"),
    ],
)
def test_sparklines(values, log, bars):
    assert sparkline(values, log=log) == bars
