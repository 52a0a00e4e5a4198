"""baseline.json: small, sorted, exact enough, and never made of failures."""

import json

import pytest

from mluops_gtest.base.errors import ContentError, ExitCode, NothingSelectedError, UsageError
from mluops_gtest.results.gate import Accept, Policy, decide
from mluops_gtest.results.gate_findings import blockers
from mluops_gtest.results.gate_reference import baseline_from_json, baseline_text, is_baseline, load_json, reference_of
from mluops_gtest.results.gate_request import update
from tests.unit.results.build import EVERYTHING, MACHINE, TODAY, gate, outcomes, report, result, waiver

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


def test_the_file_without_times_names_no_machine():
    assert "machine" not in json.loads(baseline_text(reference_of(outcomes(a="passed"))))


def test_what_is_written_is_read_back(tmp_path):
    text = baseline_text(updated(FULL).reference)
    assert baseline_text(read(tmp_path, text)) == text


def test_a_baseline_file_gates_as_its_report_does(tmp_path):
    reference = read(tmp_path, baseline_text(updated(FULL).reference))
    assert decide(FULL, reference, (), TODAY).exit_code is ExitCode.OK
    worse = report(result("op/b", value=1e-3, times=[2 * t for t in TIMES]), result("op/a", "failed"))
    for against in (reference, reference_of(FULL)):
        decision = decide(worse, against, (), TODAY)
        assert [c.transition.value for c in decision.blocking] == ["missing", "regressed"]
        assert [d.case for d in decision.drifts] == ["op/b"]
        assert [c.answer.value for c in decision.performance.changes] == ["slower"]


@pytest.mark.parametrize("text", ['{"format": 1, "results": []}', "[]", "3"])
def test_a_report_is_no_baseline(tmp_path, text):
    (tmp_path / "x").write_text(text)
    assert not is_baseline(load_json(tmp_path / "x"))


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


@pytest.mark.parametrize(
    "word", ["failed", "wrong_status", "memory", "crashed", "timed_out", "error", "flaky", "suspect", "not_run"]
)
def test_failures_what_did_not_run_and_what_proves_nothing_are_refused(word):
    assert [change.case for change in updated(outcomes(a=word, b="passed")).decision.blocking] == ["op/a"]


@pytest.mark.parametrize("word", ["suspect", "not_run"])
def test_no_waiver_lets_these_in(word):
    assert updated(outcomes(a=word, b="passed"), None, waiver("op/a")).decision.blocked


def test_a_waived_failure_is_noted_as_one():
    made = updated(outcomes(a="failed", b="passed"), None, waiver("op/a"))
    assert not made.decision.blocked
    assert made.reference.cases["op/a"].outcome.value == "xfailed"
    assert updated(outcomes(a="failed", b="passed"), None, waiver("op/a", expires="2020-01-01")).decision.blocked
    assert updated(outcomes(a="crashed", b="passed"), None, waiver("op/a")).decision.blocked


def test_an_update_tells_what_it_changes():
    made = updated(outcomes(a="skipped", c="passed"), outcomes(a="passed", b="passed"))
    assert (made.added, made.dropped, made.changed) == (("op/c",), ("op/b",), ("op/a",))


def test_an_update_refuses_what_the_gate_blocks():
    old = report(*(result(f"op/{name}", value=1e-6, times=TIMES) for name in "abc"))
    new = report(
        result("op/a", "skipped"),
        result("op/b", value=1e-3, times=[2 * t for t in TIMES]),
        result("op/d"),
    )
    for policy in ({}, {"strict_accuracy": True}):
        made, gated = updated(new, old, waiver("op/gone"), **policy), gate(old, new, waiver("op/gone"), **policy)
        assert made.decision.blocked
        assert blockers(made.decision) == blockers(gated)
    assert blockers(gated) == (
        "1 became skipped, 1 missing, 1 waiver to clear, 1 case by its time, 1 reading that drifted"
    )


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


def test_further_runs_are_kept_side_by_side():
    run = report(result("op/a", times=TIMES))
    assert len(updated(run, None, again=(run, run)).reference.cases["op/a"].times) == 3


def test_other_values_are_no_baseline():
    with pytest.raises(UsageError, match="RESULTS has the values of --reseed 7; a baseline needs the declared ones"):
        updated(report(result("op/a"), selection={**EVERYTHING, "reseed": 7}))


def test_a_part_of_a_run_is_refused():
    with pytest.raises(UsageError, match="shard 1/2"):
        updated(report(result("op/a"), selection={**EVERYTHING, "shard": "1/2"}))


@pytest.mark.parametrize("results", [{}, {"a": "skipped"}])
def test_a_run_that_compared_nothing_is_no_baseline(results):
    with pytest.raises(NothingSelectedError, match="compared nothing"):
        updated(outcomes(**results))
