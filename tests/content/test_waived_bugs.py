"""Planted bugs are taken in: the waivers that the gate writes cover them, few of them, and nothing else."""

import datetime

import pytest

from mluops_gtest.core.outcome import Outcome
from mluops_gtest.results.gate import decide
from mluops_gtest.results.gate_reference import load_waivers, reference_of
from mluops_gtest.results.gate_request import new_waivers
from tests.support.planted_bugs import BUGS
from tests.support.planted_run import PlantedRuns, groups_of

OPERATORS = ("voxel_pooling_forward", "ball_query", "three_interpolate_backward", "get_indice_pairs")
CHOSEN = [bug for bug in BUGS if bug.operator in OPERATORS and not bug.large]
TODAY = datetime.date(2026, 5, 20)


@pytest.fixture(scope="module")
def runs(catalogue):
    return PlantedRuns(catalogue)


@pytest.mark.slow
@pytest.mark.parametrize("bug", CHOSEN, ids=lambda bug: f"{bug.operator}-{bug.name}")
def test_a_bug_is_taken_in(runs, bug, tmp_path):
    report, right = (runs.report(spoil, bug.operator) for spoil in (bug.spoil, lambda *_: None))
    blocked = decide(report, reference_of(right), (), TODAY)
    entries, left_out = new_waivers(blocked, "ann", TODAY, "known")
    (tmp_path / "known.yaml").write_text("".join(entries))
    waivers = load_waivers(tmp_path / "known.yaml")
    assert left_out == {}
    assert sum(bool(waiver.cause) for waiver in waivers) <= len(groups_of(report))
    taken_in = decide(report, reference_of(right), waivers, TODAY)
    assert not taken_in.blocked
    failed = {result.case for result in report.results if result.outcome is Outcome.FAILED}
    assert {change.case for change in taken_in.changes if change.now is Outcome.XFAILED} == failed
    # What is right stays right: the entries are unused, and nothing is covered.
    clean = decide(right, reference_of(right), waivers, TODAY)
    assert {problem.word for problem in clean.problems} <= {"unused", "xpassed"}
    assert len(clean.problems) == len(waivers)
