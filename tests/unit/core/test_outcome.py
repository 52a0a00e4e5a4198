"""One table of outcomes: complete, and without two that a reader could mistake for each other."""

import ast
from pathlib import Path

import pytest

from mluops_gtest.core.outcome import GRAVEST_FIRST, Outcome

PACKAGE = Path(__file__).parents[3] / "mluops_gtest"


def words_of(predicate):
    return {outcome.value for outcome in Outcome if predicate(outcome)}


def test_no_two_outcomes_share_a_sign():
    signs = [outcome.sign for outcome in Outcome]
    assert len(set(signs)) == len(signs)
    assert all(len(sign) == 1 for sign in signs)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_outcome_has_words_of_its_own_in_every_language(lang):
    words = [outcome.words[lang] for outcome in Outcome]
    assert all(words)
    assert len(set(words)) == len(words)


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
