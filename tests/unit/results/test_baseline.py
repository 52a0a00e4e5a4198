"""baseline.json: small, sorted, exact enough, and never made of failures; and which of its cases a selection means."""

import json

import pytest

from mluops_gtest.base.errors import ContentError, ExitCode, NothingSelectedError, UsageError
from mluops_gtest.catalog.selection import select
from mluops_gtest.core.case import Query
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.results.gate import Accept, Policy, decide
from mluops_gtest.results.gate_reference import (
    ReferenceCase,
    baseline_from_json,
    baseline_text,
    load_json,
    reference_of,
)
from mluops_gtest.results.gate_request import select_required, update
from tests.unit.results.build import EVERYTHING, MACHINE, TODAY, outcomes, report, result, waiver

TIMES = [1_000_000 + 1000 * i for i in range(-20, 21)]
FULL = report(
    result("op/b", value=1.23456e-5, times=TIMES),
    result("op/a", value=1e-9, tags=("smoke", "boundary")),
    result("files/x.prototxt", "skipped", operator="op", tags=()),
)
TEXT = """\
{
"format": 1,
"kind": "mluops-test baseline",
"backend": "numpy",
"machine": {"cpus": 2, "machine": "x86_64", "platform": "Linux"},
"cases": {
"files/x.prototxt": {"outcome": "skipped", "operator": "op"},
"op/a": {"outcome": "passed", "tags": ["boundary", "smoke"]},
"op/b": {"outcome": "passed", "tags": ["boundary"], "readings": {"y diff1": 1.235e-05}, "times": [[1000000, ERROR, 41]]}
}
}
"""


def read(tmp_path, text):
    path = tmp_path / "baseline.json"
    path.write_text(text, encoding="utf-8")
    return baseline_from_json(path, load_json(path))


def updated(new, old=None, *waivers, asked_for=None, again=(), **policy):
    old = None if old is None else reference_of(old)
    return update(new, old, waivers, TODAY, dict(enumerate(again)), Policy(**policy), asked_for)


def test_one_sorted_line_per_case_with_nothing_superfluous(tmp_path):
    text = baseline_text(updated(FULL).reference)
    error = json.loads(text)["cases"]["op/b"]["times"][0][1]
    assert 0.001 < error < 0.004
    assert text == TEXT.replace("ERROR", str(error))
    assert baseline_text(read(tmp_path, text)) == text
    assert "machine" not in json.loads(baseline_text(reference_of(outcomes(a="passed"))))


def test_a_baseline_file_gates_as_its_report_does(tmp_path):
    reference = read(tmp_path, baseline_text(updated(FULL).reference))
    assert decide(FULL, reference, (), TODAY).exit_code is ExitCode.OK
    worse = report(result("op/b", value=1e-3, times=[2 * t for t in TIMES]), result("op/a", "failed"))
    for against in (reference, reference_of(FULL)):
        decision = decide(worse, against, (), TODAY)
        assert [c.transition.value for c in decision.blocking] == ["missing", "regressed"]
        assert [d.case for d in decision.drifts] == ["op/b"]
        assert [c.answer.value for c in decision.performance.changes] == ["slower"]


HEAD = '{"format": 1, "kind": "mluops-test baseline", "backend": "numpy", '


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON: the file ends too early (line 1, column 2)"),
        (HEAD + '"backend": 2, "cases": {}}', "'backend' occurs twice"),
        (HEAD + '"cases": {"op/a": {"outcome": "passed"}, "op/a": {"outcome": "failed"}}}', "'op/a' occurs twice"),
        (HEAD.replace(": 1", ": 2") + '"cases": {}}', "format 2; this version reads 1"),
        (HEAD + '"cases": []}', "$.cases: expected an object, got []"),
        (HEAD.replace('"numpy"', "null") + '"cases": {}}', "$.backend: expected a text, got None"),
        (HEAD + '"machine": {"a": ' + "[" * 20 + "]" * 20 + '}, "cases": {}}', "nested too deeply"),
        (HEAD + '"cases": {"op/a": {}}}', "case 'op/a': the key 'outcome' is missing"),
        (HEAD + '"cases": {"op/a": 3}}', "case 'op/a': expected an object, got 3"),
        (HEAD + '"cases": {"op/a": {"outcome": "pased"}}}', "case 'op/a': $.outcome: expected one of passed, failed"),
        (HEAD + '"cases": {"op/a": {"outcome": "passed", "x": 1}}}', "unknown key 'x'; allowed are outcome, operator"),
        (HEAD + '"cases": {"op/a": {"outcome": "passed", "tags": "smoke"}}}', "$.tags: expected a list, got 'smoke'"),
        (HEAD + '"cases": {"op/a": {"outcome": "passed", "readings": {"y diff1": NaN}}}}', "not valid JSON"),
        (HEAD + '"cases": {"op/a": {"outcome": "passed", "readings": {"y diff1": 1e999}}}}', "number out of range"),
        (HEAD + '"cases": {"op/a": {"outcome": "passed", "readings": {"y diff1": -1}}}}', "a reading must be ≥ 0"),
        (HEAD + '"cases": {"op/a": {"outcome": "passed", "times": [[0, 0.1, 9]]}}}', "$.times: times are"),
        (HEAD + '"cases": {"op/a": {"outcome": "passed", "times": [[5, 0.1, 1]]}}}', "at least 5"),
        (HEAD + '"cases": {"op/a": {"outcome": "passed", "times": [[5, 0.1]]}}}', "a list of length 3"),
    ],
)
def test_a_broken_file_is_named_with_what_is_broken(tmp_path, text, words):
    with pytest.raises(ContentError) as caught:
        read(tmp_path, text)
    assert caught.value.exit_code is ExitCode.CONTENT
    assert str(tmp_path / "baseline.json") in str(caught.value)
    assert words in str(caught.value)


def test_a_waived_failure_is_noted_as_one():
    made = updated(outcomes(a="failed", b="passed"), None, waiver("op/a"))
    assert not made.decision.blocked
    assert made.reference.cases["op/a"].outcome.value == "xfailed"
    assert updated(outcomes(a="failed", b="passed"), None, waiver("op/a", expires="2020-01-01")).decision.blocked
    assert updated(outcomes(a="crashed", b="passed"), None, waiver("op/a")).decision.blocked


def test_an_update_tells_what_it_changes():
    made = updated(outcomes(a="skipped", c="passed"), outcomes(a="passed", b="passed"))
    assert (made.added, made.dropped, made.changed) == (("op/c",), ("op/b",), ("op/a",))


def test_what_is_accepted_is_listed_and_nothing_else_is():
    old = report(*(result(f"op/{name}", times=TIMES) for name in "abc"))
    new = report(result("op/a", "skipped"), result("op/b", times=[2 * t for t in TIMES]))
    everything = frozenset(Accept)
    made = updated(new, old, accept=everything)
    assert not made.decision.blocked
    assert [(accept.value, case) for accept, case in made.decision.accepted] == [
        ("skipped", "op/a"),
        ("missing", "op/c"),
        ("slower", "op/b"),
    ]
    for left_out in Accept:
        partly = updated(new, old, accept=everything - {left_out}).decision
        assert partly.blocked
        assert partly.acceptable == (left_out,)
    failing = updated(outcomes(a="failed", b="suspect", c="not_run"), old, accept=everything).decision
    assert len(failing.blocking) == 3
    assert failing.acceptable == ()


def test_a_subset_leaves_the_other_cases_alone():
    old = outcomes(a="passed", b="passed", c="passed")
    made = updated(outcomes(a="skipped", d="passed"), old, asked_for={"op/a", "op/c"})
    assert {case: known.outcome.value for case, known in made.reference.cases.items()} == {
        "op/a": "skipped",
        "op/b": "passed",
        "op/d": "passed",
    }
    assert made.dropped == ("op/c",)


def test_committed_times_stay_until_they_are_measured_anew():
    old, plain = report(result("op/a", times=TIMES)), report(result("op/a"))
    slower = report(result("op/a", times=[2 * t for t in TIMES]))
    kept = updated(plain, old).reference
    assert kept.cases["op/a"].times == reference_of(old).cases["op/a"].times
    assert kept.machine == reference_of(old).machine
    assert updated(slower, old).reference.cases["op/a"].times == reference_of(slower).cases["op/a"].times


def test_times_of_another_machine_do_not_mix():
    old = report(result("op/a", times=TIMES), result("op/b", times=TIMES))
    new = report(result("op/a", times=TIMES), result("op/b"), machine={**MACHINE, "cpus": 64})
    made = updated(new, old).reference
    assert made.machine["cpus"] == 64
    assert made.cases["op/a"].times
    assert not made.cases["op/b"].times


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        ({"reseed": 7}, "RESULTS has the values of --reseed 7; a baseline needs the declared ones"),
        ({"shard": "1/2"}, "shard 1/2"),
    ],
)
def test_other_values_and_a_part_of_a_run_are_no_baseline(selection, words):
    with pytest.raises(UsageError, match=words):
        updated(report(result("op/a"), selection={**EVERYTHING, **selection}))


@pytest.mark.parametrize("results", [{}, {"a": "skipped"}])
def test_a_run_that_compared_nothing_is_no_baseline(results):
    with pytest.raises(NothingSelectedError, match="compared nothing"):
        updated(outcomes(**results))


def selection(**given):
    nothing = {"select": [], "operators": [], "tags": [], "keyword": "", "everything": False, "shard": None}
    return {**nothing, **given}


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"everything": True},
        {"operators": ["voxel_pooling_forward"]},
        {"operators": ["dynamic_point_to_voxel_backward"]},
        {"tags": ["network", "smoke"]},
        {"tags": ["undefined"]},
        {"keyword": "edge and not half"},
        {"select": ["get_indice_pairs/*"], "tags": ["negative"]},
        {"select": ["dynamic_point_to_voxel_backward/*"], "keyword": "voxel and not null"},
        {"select": ["masked_im2col_forward/*", "voxel_pooling_forward/bevdepth_twin"], "operators": []},
        {"select": ["masked_im2col_forward/*"], "operators": ["masked_im2col_forward"], "tags": ["boundary"]},
    ],
)
def test_the_recorded_selection_means_what_it_meant(catalogue, query):
    known = {d.id: ReferenceCase(d.operator, d.tags, Outcome.PASSED) for d in catalogue.drafts.values()}
    given = selection(**query)
    wanted = Query(**{name: tuple(value) if isinstance(value, list) else value for name, value in query.items()})
    ran = {case.id for case in select(catalogue, wanted, lambda path: "").cases}
    assert 0 < len(ran) < len(known) or query in ({}, {"everything": True})
    assert select_required(given, known, catalogue.canonical_id) == ran


def test_an_undefined_case_is_asked_for_by_its_exact_id_alone():
    cases = {"op/odd": ReferenceCase("op", ("undefined",), Outcome.PASSED)}
    assert select_required(selection(select=["op/odd"]), cases, str) == {"op/odd"}
    assert select_required(selection(select=["op/*"]), cases, str) == set()
    assert select_required(selection(everything=True), cases, str) == set()


def test_a_folder_means_the_files_in_it():
    cases = {
        case: ReferenceCase("op", (), Outcome.PASSED)
        for case in ("mine/a.prototxt", "mine/deep/b.pb", "mine2/c.pb", "op/d")
    }
    assert select_required(selection(select=["mine"]), cases, str) == {"mine/a.prototxt", "mine/deep/b.pb"}
    assert select_required(selection(select=["./mine/"]), cases, str) == {"mine/a.prototxt", "mine/deep/b.pb"}
    assert select_required(selection(select=["mine2/c.pb"]), cases, str) == {"mine2/c.pb"}


def test_one_shard_does_not_tell_what_is_missing():
    with pytest.raises(UsageError, match="shard 2/3 of a run; `mluops-test merge`"):
        select_required(selection(shard="2/3"), {}, str)


@pytest.mark.parametrize("given", [{}, {"select": [], "reseed": None}])
def test_results_without_a_selection_are_refused(given):
    with pytest.raises(ContentError, match="does not record what was selected"):
        select_required(given, {}, str)
