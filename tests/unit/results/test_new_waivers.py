"""Waivers that the gate writes: what they say is read back, and they cover what they were written for."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.core.outcome import Outcome
from mluops_gtest.results.gate_reference import load_waivers
from mluops_gtest.results.gate_request import new_waivers
from tests.unit.results.build import TODAY, gate, outcomes, report, result
from tests.unit.results.test_findings import cleared_tail

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
    before = outcomes(a="passed", b="passed")
    decision = gate(before, outcomes(a=outcome, b="passed"))
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


def test_one_entry_for_all_cases_of_a_cause(tmp_path_factory):
    before = outcomes(**{str(i): "passed" for i in range(5)})
    tails = [cleared_tail(i, length, f"v1:{i}") for i, length in enumerate((4, 6, 9, 40))]
    now = report(*tails, result("op/4", "failed", fingerprint="v1:other"))
    waivers, left_out = read_back(tmp_path_factory, gate(before, now))
    assert [(one.case, one.failure) for one in waivers] == [("", "v3:5cd66c13a9b3"), ("op/4", "v1:other")]
    assert left_out == {}
    decision = gate(before, now, *waivers)
    assert (decision.blocked, {change.now.value for change in decision.changes}) == (False, {"xfailed"})
    fewer = gate(before, report(*tails, result("op/4")), *waivers)
    assert [problem.word for problem in fewer.problems] == ["xpassed"]
