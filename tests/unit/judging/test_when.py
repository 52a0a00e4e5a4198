"""What cases that fail have in common: a rule that is stated separates what it claims."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.core.readings import Condition, Feature, Headline, format_headline, format_support
from mluops_gtest.judging.conditions import MIN_CASES, rules_for, symbols_of

M, N, TYPE = Feature("dim", "m"), Feature("dim", "n"), Feature("dtype", "out")
SIZE = Feature("elements", "out")


def holds(condition, value):
    match condition.sign:
        case "=":
            return value == condition.value
        case "≥":
            return value >= condition.value
        case "≤":
            return value <= condition.value
        case "multiple":
            return value % condition.value == 0
    return value % condition.value != 0


def rows(columns, rule):
    """Which rows keep all conditions of the rule."""
    kept = [[holds(one, value) for value in columns[one.feature]] for one in rule.conditions]
    return [all(row) for row in zip(*kept, strict=True)]


@given(st.data())
def test_a_rule_that_is_stated_really_separates(data):
    failing, passing = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 12))
    numbers = st.lists(st.integers(1, 9), min_size=failing + passing, max_size=failing + passing)
    types = st.lists(st.sampled_from(["half", "float"]), min_size=failing + passing, max_size=failing + passing)
    columns = {M: data.draw(numbers), N: data.draw(numbers), SIZE: data.draw(numbers), TYPE: data.draw(types)}
    found = rules_for(columns, failing, passing)
    assert len(found) <= 3
    if min(failing, passing) < MIN_CASES:
        assert found == ()
    for rule in found:
        kept = rows(columns, rule)
        assert all(kept[:failing]), "a failing case does not keep the rule"
        assert sum(kept[failing:]) == rule.passing_inside
        assert rule.passing_inside + rule.passing_outside == passing
        for condition in rule.conditions:
            if condition.gap:
                low, high = sorted((condition.value, condition.nearest))
                assert not any(low < value < high for value in columns[condition.feature])


@given(st.data())
def test_values_without_a_reason_have_no_rule(data):
    """Failures drawn by lot over two features: a rule would be an accident, and is hardly ever stated."""
    number = 30
    lot = st.permutations([3] * 15 + [5] * 15)
    columns = {M: data.draw(lot), TYPE: data.draw(st.permutations(["half", "float"] * 15))}
    failing = 15
    separated = {M: len(set(columns[M][:failing])) == 1, TYPE: len(set(columns[TYPE][:failing])) == 1}
    if not any(separated.values()):
        assert all(rule.passing_inside for rule in rules_for(columns, failing, number - failing))


def headline(columns, failing, passing):
    return Headline("op", "out", failing, rules=rules_for(columns, failing, passing))


def test_a_threshold_names_the_nearest_case_that_passes():
    columns = {M: [63, 64, 65, 100] * 3 + [*range(1, 41)] * 2}
    found = headline(columns, 12, 80)
    assert format_headline(found) == "op: elements of out are wrong, when m ≥ 63 (12 of 12)"
    assert format_support(found) == ("fails when m ≥ 63 (12 of 12), passes when m ≤ 40 (80); nothing between was run",)


@pytest.mark.parametrize(
    ("columns", "failing", "condition"),
    [
        ({TYPE: ["half"] * 9 + ["float"] * 30, M: [*range(13)] * 3}, 9, Condition(TYPE, "=", "half")),
        ({M: [*range(1, 17, 2), *range(2, 17, 2)]}, 8, Condition(M, "no multiple", 2)),
    ],
)
def test_types_and_odd_sizes_are_named(columns, failing, condition):
    (rule,) = rules_for(columns, failing, len(columns[M]) - failing)
    assert rule.conditions == (condition,)


def test_two_conditions_are_named_where_neither_is_enough():
    cases = [(kind, m) for kind in ("half", "float") for m in range(1, 21)]
    failing = [case for case in cases if case[0] == "half" and case[1] >= 11]
    passing = [case for case in cases if case not in failing]
    kinds, numbers = zip(*failing, *passing, strict=True)
    (rule,) = rules_for({TYPE: kinds, M: numbers}, len(failing), len(passing))
    assert {(c.feature, c.sign, c.value) for c in rule.conditions} == {(TYPE, "=", "half"), (M, "≥", 11)}
    assert (rule.passing_inside, rule.passing_outside) == (0, len(passing))


def test_equally_good_rules_are_all_named():
    columns = {M: [*range(50, 60), *range(1, 30)], N: [*range(70, 80), *range(1, 30)]}
    found = rules_for(columns, 10, 29)
    assert {rule.conditions[0].feature for rule in found} == {M, N}


def test_more_than_three_equally_good_rules_are_none():
    columns = {Feature("dim", name): [*range(50, 60), *range(1, 30)] for name in "abcd"}
    assert rules_for(columns, 10, 29) == ()


@pytest.mark.parametrize(("failing", "passing"), [(2, 30), (30, 2)])
def test_fewer_than_three_cases_on_a_side_say_nothing(failing, passing):
    columns = {M: [100] * failing + [1] * passing}
    assert rules_for(columns, failing, passing) == ()


def test_symbols_of_a_shape_are_its_own_names():
    assert symbols_of("[B, N, 3]") == ("B", "N", "")
    assert symbols_of("[≥ num_act_out, 4]: n, d, h, w") == ("", "")
    assert symbols_of("scalar") == ()
