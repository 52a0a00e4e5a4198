"""The ledger of known failures: what it covers, that it cannot rot, and the entries that the gate writes."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.base.errors import ContentError, ExitCode
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.results.gate_reference import load_waivers
from mluops_gtest.results.gate_request import new_waivers
from tests.unit.results.build import TODAY, gate, outcomes, report, result, waiver

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


def test_an_entry_may_name_several_globs(tmp_path):
    (found,) = load_waivers(written(tmp_path, entry(case="[op/a, op/b*]")))
    assert [case for case in ("op/a", "op/b1", "op/c") if found.names(case)] == ["op/a", "op/b1"]


def test_a_cause_needs_no_case(tmp_path):
    (found,) = load_waivers(written(tmp_path, entry(case=None, outcome=None, cause="v3:3f2a9c01d4e7")))
    assert (found.case, found.cause, found.failure) == ("", *["v3:3f2a9c01d4e7"] * 2)


@pytest.mark.parametrize("text", ["", "# nothing is known to fail\n", "[]"])
def test_an_empty_ledger_is_one(tmp_path, text):
    assert load_waivers(written(tmp_path, text)) == ()


def test_a_quoted_day_is_a_day(tmp_path):
    assert load_waivers(written(tmp_path, entry(expires="'2026-12-31'")))[0].expires.year == 2026


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
