"""Every transition, what blocks, and what counts as compared."""

import pytest

from mluops_gtest.base.errors import ContentError, ExitCode, UsageError
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.results.gate import Transition, transition
from tests.unit.results.build import gate, outcomes, report, result

TABLE = [
    # before, now, what became of it, does it block
    ("passed", "passed", "still passing", False),
    ("failed", "passed", "fixed", False),
    ("xfailed", "passed", "fixed", False),
    ("suspect", "passed", "fixed", False),
    ("flaky", "passed", "fixed", False),
    ("skipped", "passed", "new", False),
    ("not_run", "passed", "new", False),
    (None, "passed", "new", False),
    ("passed", "failed", "regressed", True),
    ("passed", "flaky", "regressed", True),
    ("passed", "timed_out", "regressed", True),
    ("failed", "failed", "still failing", True),
    ("failed", "crashed", "still failing", True),
    ("xfailed", "failed", "still failing", True),
    ("suspect", "failed", "still failing", True),
    (None, "failed", "new and failing", True),
    ("skipped", "memory", "new and failing", True),
    ("passed", None, "missing", True),
    ("skipped", None, "missing", True),
    ("passed", "skipped", "became skipped", True),
    ("failed", "skipped", "became skipped", True),
    ("skipped", "skipped", "still skipped", False),
    (None, "skipped", "new", False),
    ("passed", "suspect", "suspect", True),
    ("suspect", "suspect", "suspect", True),
    (None, "suspect", "suspect", True),
    ("passed", "not_run", "not_run", True),
    (None, "not_run", "not_run", True),
]


@pytest.mark.parametrize(("before", "now", "word", "blocks"), TABLE)
def test_every_transition(before, now, word, blocks):
    old = outcomes(other="passed", **({} if before is None else {"a": before}))
    new = outcomes(other="passed", **({} if now is None else {"a": now}))
    decision = gate(old, new)
    change = next(change for change in decision.changes if change.case == "op/a")
    assert change.transition.value == word
    assert change.blocks is blocks
    assert decision.exit_code is (ExitCode.FAILED if blocks else ExitCode.OK)


def test_the_table_has_every_transition():
    assert {word for _, _, word, _ in TABLE} == {transition.value for transition in Transition}


@pytest.mark.parametrize(
    "outcome", [outcome for outcome in Outcome if outcome not in (Outcome.XFAILED, Outcome.XPASSED)]
)
def test_a_result_that_blocks_a_run_blocks_the_gate(outcome):
    for before in (None, *Outcome):
        blocks = transition(before, outcome).blocks
        assert blocks or not outcome.blocks
    assert outcome.fails == (transition(None, outcome) is Transition.NEW_AND_FAILING)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({}, {}),
        ({}, {"a": "passed"}),
        ({"a": "skipped"}, {"a": "skipped"}),
        ({"a": "skipped"}, {"a": "passed"}),
        ({}, {"a": "skipped"}),
    ],
)
def test_nothing_compared(before, now):
    assert gate(outcomes(**before), outcomes(**now)).exit_code is ExitCode.EMPTY


def test_what_blocks_counts_more_than_that_nothing_was_compared():
    assert gate(outcomes(a="passed"), outcomes(a="skipped")).exit_code is ExitCode.FAILED
    assert gate(outcomes(a="passed"), outcomes()).exit_code is ExitCode.FAILED


def test_missing_is_judged_within_what_was_asked_for():
    before, now = outcomes(a="passed", b="passed", c="passed"), outcomes(a="passed")
    assert gate(before, now).transitions == {Transition.STILL_PASSING: 1, Transition.MISSING: 2}
    decision = gate(before, now, asked_for={"op/a", "op/b"})
    assert [change.case for change in decision.blocking] == ["op/b"]
    assert gate(before, now, asked_for={"op/a"}).exit_code is ExitCode.OK


def test_a_case_outside_of_what_was_asked_for_is_still_judged_when_it_is_there():
    decision = gate(outcomes(a="passed", b="passed"), outcomes(a="passed", b="failed"), asked_for={"op/a"})
    assert [change.transition for change in decision.blocking] == [Transition.REGRESSED]


def test_backends_are_not_mixed_by_accident():
    before, now = report(result("op/a")), report(result("op/a"), backend="mlu")
    with pytest.raises(UsageError, match=r"'mlu'.*'numpy'.*--cross-backend"):
        gate(before, now)
    assert gate(before, now, cross_backend=True).exit_code is ExitCode.OK


def test_a_case_with_two_results_is_refused():
    with pytest.raises(ContentError, match="op/a has two results"):
        gate(outcomes(a="passed"), report(result("op/a", "failed"), result("op/a")))


@pytest.mark.parametrize("word", ["xfailed", "xpassed"])
def test_results_that_claim_a_waiver_are_refused(word):
    with pytest.raises(ContentError, match=f"op/a is {word}, which only the gate gives"):
        gate(outcomes(a="passed"), outcomes(a=word))
