"""Two sets of results side by side."""

import json
import math

from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import Perf
from mluops_gtest.results.run_comparison import compare, comparison_to_json
from tests.support.reports import report, result

P, F, S, X = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED, Outcome.XFAILED


def pair(before, after):
    """The row of one case; None: not there."""
    sides = [report() if outcome is None else report(result(outcome=outcome)) for outcome in (before, after)]
    (row,) = compare(*sides).rows
    return row


def test_what_is_worse():
    worse = [(P, F), (P, S), (S, F), (X, F), (P, None), (F, None), (None, F), (None, Outcome.NOT_RUN)]
    others = [(P, P), (F, P), (F, Outcome.CRASHED), (S, P), (F, S), (None, P), (None, S)]
    assert [sides for sides in worse + others if pair(*sides).worse] == worse


def test_another_reading_is_a_change_and_nothing_worse():
    (row,) = compare(report(result(value=1e-6)), report(result(value=2e-6))).rows
    assert (row.changed, row.worse) == (True, False)
    (reading,) = row.readings
    assert (reading.output, reading.criterion, reading.before, reading.after) == ("y", "diff1", 1e-6, 2e-6)


def test_another_time_is_no_change():
    (row,) = compare(report(result(seconds=1.0)), report(result(seconds=2.0))).rows
    assert (row.changed, row.seconds) == (False, (1.0, 2.0))


def test_two_nan_are_the_same():
    (row,) = compare(report(result("a", F, value=math.nan)), report(result("a", F, value=math.nan))).rows
    assert not row.changed


def test_medians_compare_only_with_medians():
    sampled = result(seconds=1.0, perf=Perf((3_000_000, 1_000_000, 2_000_000)))
    assert compare(report(sampled), report(sampled)).rows[0].seconds == (0.002, 0.002)
    assert compare(report(sampled), report(result(seconds=0.5))).rows[0].seconds == (1.0, 0.5)
    assert compare(report(sampled), report()).rows[0].seconds == (0.002, None)


def test_json_has_both_sides():
    both = compare(report(result("a"), result("b")), report(result("a", F, value=math.nan), result("c")))
    document = json.loads(json.dumps(comparison_to_json(both), allow_nan=False))
    assert document["worse"] == ["op/a", "op/b"]
    cases = {row["case"]: row for row in document["cases"]}
    assert (cases["op/a"]["before"]["outcome"], cases["op/a"]["after"]["outcome"]) == ("passed", "failed")
    assert cases["op/a"]["after"]["readings"][0]["value"] == "nan"
    assert (cases["op/b"]["after"], cases["op/c"]["before"]) == (None, None)
