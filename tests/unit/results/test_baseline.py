"""baseline.json: small, exact enough, never made of failures; the ledger of known failures, which cannot rot."""

import datetime
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    load_waivers,
    reference_of,
)
from mluops_gtest.results.gate_request import new_waivers, select_required, update
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


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (selection(shard="2/3"), UsageError, "shard 2/3 of a run; `mluops-test merge`"),
        ({}, ContentError, "does not record what was selected"),
        ({"select": [], "reseed": None}, ContentError, "does not record what was selected"),
    ],
)
def test_results_that_do_not_tell_what_is_missing_are_refused(given, error, words):
    with pytest.raises(error, match=words):
        select_required(given, {}, str)


GOOD = {"case": "op/a", "outcome": "failed", "reason": "r", "owner": "o", "expires": "2026-12-31"}


def written(tmp_path, text):
    path = tmp_path / "waivers.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def entry(**changes):
    """One entry in YAML, a key a line; None leaves a key out."""
    fields = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    return "- " + "\n  ".join(f"{key}: {value}" for key, value in fields.items())


def test_entries_are_read_with_their_lines(tmp_path):
    text = f"# known\n{entry()}\n\n{entry(outcome=None, fingerprint='v1:3f2a', backend='mlu', link='https://bugs/1')}\n"
    first, second = load_waivers(written(tmp_path, text))
    assert (first.case, first.outcome, first.line) == ("op/a", Outcome.FAILED, 2)
    assert first.expires == datetime.date(2026, 12, 31)
    assert (second.fingerprint, second.backend, second.link, second.line) == ("v1:3f2a", "mlu", "https://bugs/1", 8)


def test_an_entry_may_name_several_globs_a_quoted_day_and_a_cause_without_a_case(tmp_path):
    (found,) = load_waivers(written(tmp_path, entry(case="[op/a, op/b*]", expires="'2026-12-31'")))
    assert [case for case in ("op/a", "op/b1", "op/c") if found.names(case)] == ["op/a", "op/b1"]
    assert found.expires == datetime.date(2026, 12, 31)
    (found,) = load_waivers(written(tmp_path, entry(case=None, outcome=None, cause="v3:3f2a9c01d4e7")))
    assert (found.case, found.cause, found.failure) == ("", *["v3:3f2a9c01d4e7"] * 2)
    for text in ("", "# nothing is known to fail\n", "[]"):
        assert load_waivers(written(tmp_path, text)) == ()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("- {case: op/a", None, "not valid YAML"),
        ("case: op/a", 1, "not a list"),
        ("- op/a", None, "entry 1 is 'op/a', not a mapping"),
        (entry(case=None), 1, "case missing"),
        (entry(reason=None, owner=None), 1, "reason and owner missing"),
        (entry(expires=None), 1, "expires missing"),
        (entry(owner="''"), 4, "owner is '', not a text"),
        (entry(reason=7), 3, "reason is 7, not a text"),
        (entry(outcome=None), 1, "either outcome or fingerprint"),
        (entry(fingerprint="v1:0"), 1, "either outcome or fingerprint"),
        (entry(outcome="faild"), 2, "Did you mean 'failed'"),
        (entry(outcome="passed"), 2, "'passed' cannot be waived"),
        (entry(outcome="suspect"), 2, "'suspect' cannot be waived"),
        (entry(outcome="not_run"), 2, "'not_run' cannot be waived"),
        (entry(outcome=None, fingerprint="abc"), 5, "'abc' is not a fingerprint"),
        (entry(outcome=None, cause="v3:3f2a"), 5, "'v3:3f2a' is not a cause"),
        (entry(outcome=None, cause="v2:3f2a9c01d4e7"), 5, "copy it from `gate` or causes.json"),
        (entry(cause="v3:3f2a9c01d4e7"), 1, "either outcome or fingerprint or cause"),
        (entry(outcome=None, cause="v3:3f2a9c01d4e7", reason=None), 1, "reason missing"),
        (entry(case="''", outcome=None, cause="v3:3f2a9c01d4e7"), 1, "case is '', not a text"),
        (entry(case="[]"), 1, "case is [], not a text"),
        (entry(case="[op/a, 7]"), 1, "not a text"),
        (entry(expires="soon"), 5, "expires is 'soon', not a date"),
        (entry(expires="2026-12-31 10:00:00"), 5, "not a date; write YYYY-MM-DD"),
        (entry(expires="'2026-02-30'"), 5, "not a date"),
        (entry(expires="2026-02-30"), 5, "'2026-02-30' is not a valid date"),
        (entry(expires="20261231"), 5, "not a date"),
        (entry(ownr="me"), 6, "Did you mean 'owner'"),
        ("- ? [a]\n  : b", 1, "a key must be a word"),
        (f"{entry()}\n  owner: you", 6, "'owner' occurs twice"),
        (f"{entry()}\n{entry(owner=None)}", 6, "entry 2: owner missing"),
    ],
)
def test_a_malformed_entry_is_named(tmp_path, text, line, words):
    path = written(tmp_path, text)
    with pytest.raises(ContentError) as caught:
        load_waivers(path)
    assert caught.value.exit_code is ExitCode.CONTENT
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    if line is not None:
        assert f"{path}:{line}:" in str(caught.value)


BEFORE = outcomes(a="passed", b="passed")


def words(decision):
    return [problem.word for problem in decision.problems]


def now(decision):
    return {change.case: change.now.value for change in decision.changes if change.now}


def test_a_waived_failure_is_xfailed_and_blocks_nothing():
    for before in (BEFORE, outcomes(a="failed", b="passed"), outcomes(b="passed")):
        decision = gate(before, outcomes(a="failed", b="passed"), waiver("op/a"))
        assert now(decision) == {"op/a": "xfailed", "op/b": "passed"}
        assert decision.exit_code is ExitCode.OK


@pytest.mark.parametrize("outcome", [outcome.value for outcome in Outcome if outcome.fails])
def test_every_way_of_failing_can_be_waived(outcome):
    decision = gate(BEFORE, outcomes(a=outcome, b="passed"), waiver("op/a", outcome=outcome))
    assert not decision.blocked
    assert gate(BEFORE, outcomes(a=outcome, b="passed")).blocked


def test_a_fingerprint_waives_that_failure_alone():
    same = report(result("op/a", "failed", fingerprint="v1:1"), result("op/b"))
    other = report(result("op/a", "failed", fingerprint="v1:2"), result("op/b"))
    known = waiver("op/a", fingerprint="v1:1")
    assert not gate(BEFORE, same, known).blocked
    decision = gate(BEFORE, other, known)
    assert [change.case for change in decision.blocking] == ["op/a"]
    assert decision.problems[0].text == "matches no failure: op/a is failed (v1:2), but the waiver is for v1:1"


def test_failing_differently_blocks():
    decision = gate(BEFORE, outcomes(a="crashed", b="passed"), waiver("op/a", outcome="failed"))
    assert [change.now for change in decision.blocking] == [Outcome.CRASHED]
    assert words(decision) == ["unused"]
    assert decision.problems[0].text == "matches no failure: op/a is crashed, but the waiver is for failed"


def test_what_passes_now_blocks_until_the_waiver_is_gone():
    decision = gate(outcomes(a="xfailed", b="passed"), outcomes(a="passed", b="passed"), waiver("op/a"))
    assert now(decision)["op/a"] == "xpassed"
    assert words(decision) == ["xpassed"]
    assert decision.exit_code is ExitCode.FAILED


def test_a_glob_that_is_too_wide_is_xpassed_where_it_need_not_be():
    decision = gate(BEFORE, outcomes(a="failed", b="passed"), waiver("op/*"))
    assert now(decision) == {"op/a": "xfailed", "op/b": "xpassed"}
    assert "op/b" in decision.problems[0].text
    assert "op/a" not in decision.problems[0].text


@pytest.mark.parametrize(("expires", "expired"), [("2026-05-19", True), ("2026-05-20", False), ("2026-05-21", False)])
def test_a_waiver_holds_through_its_last_day(expires, expired):
    assert datetime.date(2026, 5, 20) == TODAY
    decision = gate(BEFORE, outcomes(a="failed", b="passed"), waiver("op/a", expires=expires))
    assert decision.blocked is expired
    assert words(decision) == (["expired"] if expired else [])
    assert now(decision)["op/a"] == ("failed" if expired else "xfailed")


def test_a_waiver_for_a_case_that_is_skipped_matches_nothing():
    before = outcomes(a="skipped", b="passed")
    assert words(gate(before, before, waiver("op/a"))) == ["unused"]


def test_a_waiver_outside_of_what_was_asked_for_is_not_judged():
    assert not gate(BEFORE, outcomes(a="passed"), waiver("op/b"), asked_for={"op/a"}).blocked
    assert gate(BEFORE, outcomes(a="passed"), waiver("op/c"), asked_for={"op/a"}).blocked


def test_a_waiver_for_another_backend_is_not_judged():
    failing = outcomes(a="failed", b="passed")
    decision = gate(BEFORE, failing, waiver("op/a", backend="mlu"))
    assert decision.problems == ()
    assert decision.blocked
    assert not gate(BEFORE, failing, waiver("op/a", backend="numpy")).blocked


@pytest.mark.parametrize("outcome", ["suspect", "not_run", "skipped"])
def test_what_is_no_failure_cannot_hide_behind_a_waiver(outcome):
    assert gate(BEFORE, outcomes(a=outcome, b="passed"), waiver("op/a")).blocked


UNTIL = TODAY + datetime.timedelta(days=30)
TEXTS = st.text(min_size=1, max_size=40).filter(str.strip)


def read_back(tmp_path_factory, decision, owner="ann", reason="known"):
    entries, left_out = new_waivers(decision, owner, UNTIL, reason)
    path = tmp_path_factory.mktemp("ledger") / "known.yaml"
    path.write_bytes("".join(entries).encode("utf-8", "surrogatepass"))
    return load_waivers(path), left_out


@given(owner=TEXTS, reason=TEXTS, names=st.lists(TEXTS, min_size=1, max_size=4, unique=True), backend=TEXTS)
def test_whatever_the_words_they_are_read_back(tmp_path_factory, owner, reason, names, backend):
    before = report(*(result(f"op/{name}") for name in names), backend=backend)
    now = report(*(result(f"op/{name}", "failed", fingerprint="v1:a") for name in names), backend=backend)
    waivers, left_out = read_back(tmp_path_factory, gate(before, now), owner, reason)
    assert left_out == {}
    assert {(one.owner, one.reason, one.backend, one.expires) for one in waivers} == {(owner, reason, backend, UNTIL)}
    decision = gate(before, now, *waivers)
    assert not decision.blocked
    # A name is a name, not a glob.
    (one,) = waivers
    assert [name for name in (*names, "other") if one.names(f"op/{name}")] == names


@pytest.mark.parametrize("outcome", [outcome.value for outcome in Outcome if outcome.fails])
def test_failures_of_values_and_statuses_are_written_alone(tmp_path_factory, outcome):
    decision = gate(BEFORE, outcomes(a=outcome, b="passed"))
    waivers, left_out = read_back(tmp_path_factory, decision)
    if outcome in ("failed", "wrong_status", "flaky"):
        assert ([one.case for one in waivers], left_out) == (["op/a"], {})
    else:
        assert waivers == ()
        assert left_out == {f"{outcome}: fix it, or waive it by hand": ["op/a"]}


def test_what_nobody_can_waive_is_named(tmp_path_factory):
    before = outcomes(a="passed", b="passed", c="passed", d="passed")
    waivers, left_out = read_back(tmp_path_factory, gate(before, outcomes(a="suspect", b="not_run", c="skipped")))
    assert waivers == ()
    assert [case for cases in left_out.values() for case in cases] == ["op/a", "op/b", "op/c", "op/d"]
    assert set(left_out) == {f"{word} cannot be waived" for word in ("suspect", "not_run", "became skipped", "missing")}
