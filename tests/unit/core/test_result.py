"""No result says `passed` unless something was looked at; how results are told and summed up; one table of outcomes."""

import ast
from pathlib import Path

import pytest

from mluops_gtest.base.errors import ExitCode
from mluops_gtest.core.call import Status
from mluops_gtest.core.cause import Exceeded, Excess, Places, format_share
from mluops_gtest.core.outcome import GRAVEST_FIRST, Outcome
from mluops_gtest.core.report import exit_code
from mluops_gtest.core.result import CaseResult, Reading, Worst, format_worst
from tests.support.reports import result

GOOD = Reading("y", "diff1", 1e-6, 3e-3, True)
BAD = Reading("y", "diff1", 1.0, 3e-3, False)
OK = Status.SUCCESS


def bare(outcome=Outcome.PASSED, **fields):
    return CaseResult("op/case", "op", (), outcome, **{"compared": True, **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"readings": (GOOD,)},
        {"status": OK, "expected_status": OK},
        {"status": Status.BAD_PARAM, "expected_status": Status.BAD_PARAM},
        {"status": OK, "expected_status": OK, "readings": (GOOD, GOOD)},
    ],
)
def test_a_look_is_enough(fields):
    assert bare(**fields).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "no reading and no status"),
        ({"status": OK}, "no reading and no status"),
        ({"expected_status": OK}, "no reading and no status"),
        ({"status": OK, "expected_status": Status.BAD_PARAM}, "answered SUCCESS, and BAD_PARAM was expected"),
        ({"status": OK, "expected_status": Status.BAD_PARAM, "readings": (GOOD,)}, "BAD_PARAM was expected"),
        ({"readings": (GOOD, BAD)}, "beyond its threshold"),
        ({"readings": (GOOD,), "compared": False}, "nothing was compared"),
    ],
)
def test_passed_without_proof_cannot_be(fields, words):
    with pytest.raises(ValueError, match="op/case cannot have passed: ") as caught:
        bare(**fields)
    assert words in str(caught.value)
    assert bare(Outcome.FAILED, **fields).outcome is Outcome.FAILED


ANSWERED = bare(status=OK, expected_status=OK)
SKIPPED = bare(Outcome.SKIPPED, compared=False)
BROKEN = bare(Outcome.ERROR, compared=False, content_error=True)


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([ANSWERED], ExitCode.OK),
        ([ANSWERED, SKIPPED], ExitCode.OK),
        ([SKIPPED], ExitCode.EMPTY),
        ([], ExitCode.EMPTY),
        ([ANSWERED, BROKEN], ExitCode.CONTENT),
        ([BROKEN, bare(Outcome.FAILED)], ExitCode.CONTENT),
        ([bare(Outcome.NOT_RUN, compared=False)], ExitCode.FAILED),
        *(([ANSWERED, bare(outcome)], ExitCode.FAILED) for outcome in Outcome if outcome.blocks),
    ],
)
def test_the_worst_applies(results, code):
    assert exit_code(results) is code


def test_the_order_of_exit_codes():
    order = [ExitCode(number) for number in (70, 74, 4, 3, 1, 5, 0)]
    for i, code in enumerate(order):
        assert ExitCode.worst(order[i:]) is code


@pytest.mark.parametrize(
    ("counts", "equality", "words"),
    [
        ((12, 600, 640, 1000), False, "12 of 1000 elements beyond tolerance (640 unequal in their bits)"),
        ((0, 600, 600, 1000), False, "0 of 1000 elements beyond tolerance (600 unequal in their bits)"),
        ((600, 600, 600, 1000), True, "600 of 1000 elements unequal"),
        ((600, 600, 602, 1000), True, "600 of 1000 elements unequal (602 in their bits)"),
        ((None, 600, None, 1000), False, "600 of 1000 elements unequal"),
    ],
)
def test_the_share_says_what_was_counted(counts, equality, words):
    assert format_share(*counts, equality=equality) == words


@pytest.mark.parametrize(("ulp", "told"), [(3, "; at most 3 ulp apart"), (1129804209, ""), (0, ""), (None, "")])
def test_a_distance_in_ulp_is_told_where_it_says_something(ulp, told):
    worst = Worst("y", (0, 3), "1.5", "1", 7, 16, ulp, 2, 7)
    expected = f"y[0, 3] = 1.5, expected 1; 2 of 16 elements beyond tolerance (7 unequal in their bits){told}"
    assert format_worst(result(outcome=Outcome.FAILED, value=1.0, worst=worst)) == expected


@pytest.mark.parametrize(("evaluated", "baseline"), [("inf", "0.0"), ("1.5", "nan"), ("(nan+1j)", "(1+1j)")])
def test_beside_nan_and_infinity_no_distance_says_anything(evaluated, baseline):
    worst = Worst("y", (3,), evaluated, baseline, 7, 16, 6, 1, 7)
    assert "ulp" not in format_worst(result(outcome=Outcome.FAILED, value=1.0, worst=worst))


def test_where_equality_is_asked_the_unequal_ones_count():
    readings = (Reading("y", "diff3", 1.0, 0.0, False),)
    worst = Worst("y", (3,), "1", "2", 7, 16, None, 7, 7)
    told = format_worst(result(outcome=Outcome.FAILED, readings=readings, worst=worst))
    assert told == "y[3] = 1, expected 2; 7 of 16 elements unequal"


def test_what_the_reason_says_is_not_said_twice():
    worst = Worst("y", (3,), "1", "2", 7, 16, 2, 5, 7)
    cause = Exceeded("y", (Excess("diff1", 1.0, 3e-3),), Places(7, 16, 0, 9), False, False, 5, 7)
    told = format_worst(result(outcome=Outcome.FAILED, value=1.0, worst=worst, causes=(cause,)))
    assert told == "y[3] = 1, expected 2; at most 2 ulp apart"


PACKAGE = Path(__file__).parents[3] / "mluops_gtest"


def words_of(predicate):
    return {outcome.value for outcome in Outcome if predicate(outcome)}


@pytest.mark.parametrize("told", [lambda o: o.sign, lambda o: o.words["en"], lambda o: o.words["zh"]])
def test_no_two_outcomes_share_a_sign_or_words(told):
    words = [told(outcome) for outcome in Outcome]
    assert all(words)
    assert len(set(words)) == len(words)
    assert all(len(outcome.sign) == 1 for outcome in Outcome)


def test_the_order_by_gravity_has_each_outcome_once_and_what_blocks_first():
    assert sorted(o.value for o in GRAVEST_FIRST) == sorted(o.value for o in Outcome)
    blocks = [outcome.blocks for outcome in GRAVEST_FIRST]
    assert blocks == sorted(blocks, reverse=True)


def test_the_sets_of_outcomes():
    assert words_of(lambda o: o.blocks) == words_of(lambda _: True) - {"passed", "skipped", "xfailed"}
    assert words_of(lambda o: o.passes) == {"passed", "xpassed"}
    failing = {"failed", "wrong_status", "memory", "crashed", "timed_out", "error"}
    assert words_of(lambda o: o.may_become_flaky) == failing
    assert words_of(lambda o: o.fails) == failing | {"flaky"}
    assert words_of(lambda o: not o.was_called) == {"skipped", "not_run"}
    assert words_of(lambda o: o.has_no_answer) == {"crashed", "timed_out", "error", "not_run"}
    assert words_of(lambda o: o.is_unstable) == {"crashed", "timed_out", "flaky", "memory"}


@pytest.mark.slow
def test_no_other_module_lists_outcomes():
    """Two may stand side by side; a longer list is a set that belongs beside the table."""

    def listed(node):
        items = node.keys if isinstance(node, ast.Dict) else node.args if isinstance(node, ast.Call) else node.elts
        named = [item for item in items if isinstance(item, ast.Attribute) and isinstance(item.value, ast.Name)]
        return sum(item.value.id == "Outcome" for item in named)

    lists = (ast.Dict, ast.Tuple, ast.List, ast.Set, ast.Call)
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != PACKAGE / "core" / "outcome.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, lists) and listed(node) > 2
    ]
    assert found == []
