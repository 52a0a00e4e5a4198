"""Kernels with one planted bug each: the headline says where, what and when, and waivers of the gate take it in."""

import datetime
import re

import numpy as np
import pytest

from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.readings import format_headline
from mluops_gtest.results.gate import decide
from mluops_gtest.results.gate_reference import load_waivers, reference_of
from mluops_gtest.results.gate_request import new_waivers
from tests.support.planted_bugs import BUGS
from tests.support.planted_run import PlantedRuns, groups_of, half_of

# A few small cases may show what is told of the others as something else, and are causes of their own.
MOST = 0.8
_SUPPORT = re.compile(r" \((\d+) of (\d+)\)$")
# Operators whose bugs are also taken in.
WAIVED = ("voxel_pooling_forward", "ball_query", "three_interpolate_backward", "get_indice_pairs")
TODAY = datetime.date(2026, 5, 20)
# One kernel loses its last offset; filters of 3 and of 4 axes have their own words for it.
LAST_OFFSET = {"filters_grad[-1, -1] is zero", "filters_grad[-1, -1, -1] is zero"}


@pytest.fixture(scope="module")
def runs(catalogue):
    return PlantedRuns(catalogue)


def heads(report, share=MOST):
    """The headlines of most cases, without their numbers, as many as tell of that share of all failures."""
    words, left = [], share * len(report.failing)
    for group in groups_of(report):
        assert group.headline is not None, group.example.reason
        if left > 0:
            words.append(_SUPPORT.sub("", format_headline(group.headline)))
        left -= len(group.members)
    return words


def test_there_are_bugs_of_every_operator(operators):
    assert {bug.operator for bug in BUGS} == set(operators)
    assert len(BUGS) >= 30


@pytest.mark.slow(seconds=5)
@pytest.mark.parametrize("operator", sorted({bug.operator for bug in BUGS}))
def test_planted_bugs_have_their_headlines_and_are_taken_in(runs, operator, tmp_path):
    """Of an operator one after the other: what is right in its cases is computed once."""
    for bug in (bug for bug in BUGS if bug.operator == operator):
        report = runs.report(bug.spoil, operator, bug.large, bug.choose)
        (said,) = heads(report)
        when = bug.when
        if bug.limits is not None:
            number = re.search(rf", {re.escape(when).replace(re.escape('{}'), '([0-9]+)')}$", said)
            assert number, said
            assert bug.limits[0] <= int(number[1]) <= bug.limits[1], said
            when = when.format(number[1])
        assert said == f"{operator}: {bug.cause}" + (f", {when}" if when else "")
        if operator in WAIVED:
            check_waivers(report, runs.right_report(operator, bug.choose), tmp_path / "known.yaml")


def check_waivers(report, right, file):
    """The entries that the gate writes cover the failures, few of them, and nothing else."""
    blocked = decide(report, reference_of(right), (), TODAY)
    entries, left_out = new_waivers(blocked, "ann", TODAY, "known")
    file.write_text("".join(entries))
    waivers = load_waivers(file)
    assert left_out == {}
    assert 0 < sum(bool(waiver.cause) for waiver in waivers) <= len(groups_of(report))
    taken_in = decide(report, reference_of(right), waivers, TODAY)
    assert not taken_in.blocked
    failed = {result.case for result in report.results if result.outcome is Outcome.FAILED}
    assert {change.case for change in taken_in.changes if change.now is Outcome.XFAILED} == failed
    # What is right stays right: the entries are unused, and nothing is covered.
    clean = decide(right, reference_of(right), waivers, TODAY)
    assert {problem.word for problem in clean.problems} <= {"unused", "xpassed"}
    assert len(clean.problems) == len(waivers)


@pytest.mark.slow
def test_filters_of_two_ranks_have_their_own_words(runs):
    def last_offset_dropped(call, outputs, before):
        grad = outputs["filters_grad"]
        grad.reshape(-1, *grad.shape[-2:])[-1] = 0

    words = heads(runs.report(last_offset_dropped, "indice_convolution_backward_filter", choose=half_of))
    assert {one.partition(": ")[2] for one in words} == LAST_OFFSET


@pytest.mark.slow
def test_five_bugs_at_once_are_five_causes(runs):
    """In one operator, each in its share of the cases, of all sizes."""

    def spoil(call, outputs, before):
        pooled, memo = outputs["output_features"], outputs["pos_memo"]
        match call.tensor("input_features").dims[1] % 5:
            case 0:
                pooled[:, -1] = 0
            case 1:
                pooled *= np.float32(1.5)
            case 2:
                pooled[..., 0] = np.nan
            case 3:
                memo[..., 1][memo[..., 0] >= 0] += 1
            case 4:
                pooled[0] = before["output_features"][0]

    words = heads(runs.report(spoil, "voxel_pooling_forward"), 1.0)
    causes = {re.split(r", (?:only )?when ", one.partition(": ")[2])[0] for one in words}
    assert causes == {
        "output_features[:, -1] is zero",
        "all of output_features is scaled by 1.5",
        "output_features[:, :, :, 0] is NaN",
        "elements of pos_memo[:, :, 1] are 1 too large",
        "output_features[0] is never written",
    }
    assert len(words) == 5
