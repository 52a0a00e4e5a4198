"""Sets of wrong elements in few words, and what failing cases have in common: what is told is what is wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.core.explanation import AxisSet
from mluops_gtest.core.readings import (
    Condition,
    Feature,
    Headline,
    axis_readings,
    format_headline,
    format_set,
    format_support,
    where_reading,
)
from mluops_gtest.judging.conditions import MIN_CASES, is_within, rules_for, symbols_of
from mluops_gtest.judging.where import axis_set, hull_of, indices_of, where_wrong

SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)


@st.composite
def masks(draw):
    """Any mask with at least one wrong element, and elements beside it that are right by accident."""
    shape = draw(SHAPES)
    size = int(np.prod(shape))
    wrong = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    wrong[draw(st.integers(0, size - 1))] = True
    spare = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    return wrong.reshape(shape), (wrong | spare).reshape(shape)


@st.composite
def products(draw):
    """A mask that is a product of intervals, tails and steps."""
    shape = draw(SHAPES)
    wrong = np.zeros(shape, bool)
    slices = []
    for length in shape:
        start = draw(st.integers(0, length - 1))
        slices.append(slice(start, draw(st.integers(start + 1, length)), draw(st.sampled_from([1, 1, 2, 3]))))
    wrong[tuple(slices)] = True
    return wrong


def mask_of(where, shape):
    """The mask that a description stands for."""
    if where.outside:
        return ~mask_of(type(where)(where.axes), shape)
    spans = where.spans or (1,) * len(shape)
    mask = np.ones((), bool)
    for axis in where.axes:
        along = np.zeros(axis.length, bool)
        along[indices_of(axis)] = True
        mask = mask[..., None] & along
    assert sum(spans) == len(shape)
    return mask.reshape(shape)


def between(where, wrong):
    return where.least or hull_of(wrong), where.most or where.axes


@pytest.mark.slow
@given(masks())
def test_an_exact_description_has_all_wrong_elements_and_none_that_is_not_allowed(drawn):
    wrong, allowed = drawn
    count = int(wrong.sum())
    found = where_wrong(wrong, allowed)
    for where in (found.where, *found.also):
        if where.is_scattered or found.inside != count + found.agreeing:
            continue
        mask = mask_of(where, wrong.shape)
        assert (mask | ~wrong).all(), "a wrong element is left out"
        assert (allowed | ~mask).all(), "an element is told that cannot be wrong"
    if not found.where.is_scattered and found.agreeing:
        assert mask_of(found.where, wrong.shape).sum() == found.inside


@given(masks())
def test_a_description_that_is_not_exact_states_its_share(drawn):
    wrong, _ = drawn
    found = where_wrong(wrong, wrong)
    if found.where.is_scattered:
        assert found.inside == 0
        return
    mask = mask_of(found.where, wrong.shape)
    assert mask.sum() == found.inside
    assert (mask | ~wrong).all()
    assert found.agreeing in (0, found.inside - wrong.sum())


@pytest.mark.slow
@given(masks())
def test_every_set_between_least_and_most_is_as_true(drawn):
    wrong, allowed = drawn
    found = where_wrong(wrong, allowed)
    for where in (found.where, *found.also):
        if where.is_scattered or where.outside or not found.inside:
            continue
        least, most = between(where, wrong)
        if found.agreeing + wrong.sum() != found.inside:
            continue
        for low, axis, high in zip(least, where.axes, most, strict=True):
            assert is_within(low, axis) or low.loose
            assert is_within(axis, high)
        widest = mask_of(type(where)(most, where.spans), wrong.shape)
        assert (allowed | ~widest).all()


@given(products())
def test_products_of_intervals_are_found_exactly(wrong):
    found = where_wrong(wrong, wrong)
    if all(len(set(np.diff(np.flatnonzero(hull)).tolist())) <= 1 for hull in _projections(wrong)) and _is_plain(wrong):
        assert not found.where.is_scattered
        assert (mask_of(found.where, wrong.shape) == wrong).all()


def _projections(wrong):
    return [wrong.any(axis=tuple(a for a in range(wrong.ndim) if a != axis)) for axis in range(wrong.ndim)]


def _is_plain(wrong):
    """Intervals along every axis: what has steps must also be shorter than a list."""
    return all(axis.is_interval for axis in hull_of(wrong))


@given(st.lists(st.booleans(), min_size=1, max_size=40).filter(any))
def test_a_set_along_an_axis_is_the_mask_it_came_from(mask):
    found = axis_set(np.array(mask))
    indices = np.flatnonzero(mask)
    if found.loose:
        assert set(indices) <= set(indices_of(found))
    else:
        assert indices_of(found).tolist() == indices.tolist()
        assert found.count == len(indices)


@given(st.lists(st.booleans(), min_size=1, max_size=40).filter(any))
def test_every_name_of_a_set_stands_for_that_set(mask):
    found = axis_set(np.array(mask))
    if found.loose:
        return
    for name in axis_readings(found):
        again = name.of(found.length)
        assert again is not None
        assert indices_of(again).tolist() == np.flatnonzero(mask).tolist()


WORDS = [
    ((8, 64), np.s_[:, 32:40], "data[:, 32:40]"),
    ((8, 128), np.s_[:, 64:], "data[:, 64:]"),
    ((65, 4), np.s_[-1], "data[64]"),
    ((4, 5, 6), np.s_[..., 0], "data[:, :, 0]"),
    ((3, 1024), np.s_[:, 255::256], "data[:, 255::256]"),
    ((40, 40), np.s_[:, ::2], "data[:, ::2]"),
    ((6, 7), np.s_[...], "all of data"),
    ((4, 4, 100), np.s_[1:3, :, 10:20], "data[1:3, :, 10:20]"),
    ((1, 20, 20), ~np.pad(np.ones((1, 18, 18), bool), ((0, 0), (1, 1), (1, 1))), "all of data but data[:, 1:19, 1:19]"),
    ((5, 13, 7), np.arange(455).reshape(5, 13, 7) >= 435, "the elements of data from 435 on (flat)"),
]


@pytest.mark.parametrize(("shape", "places", "words"), WORDS)
def test_sets_are_told_as_programmers_write_them(shape, places, words):
    wrong = np.zeros(shape, bool)
    wrong[places] = True
    found = where_wrong(wrong, wrong)
    assert format_set("data", where_reading(found.where))[0] == words


def test_scattered_elements_are_no_set():
    wrong = np.zeros((50, 50), bool)
    wrong[[3, 10, 44, 20], [40, 2, 11, 33]] = True
    assert where_wrong(wrong, wrong).where.is_scattered


def test_what_is_right_by_accident_widens_the_set():
    wrong = np.zeros((4, 10), bool)
    wrong[1, [0, 1, 3, 4, 6]] = True
    allowed = wrong.copy()
    allowed[1] = True
    found = where_wrong(wrong, allowed)
    assert (found.where.axes, found.inside, found.agreeing) == ((AxisSet(4, 1, 2), AxisSet(10, 0, 10)), 10, 5)


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


SPLIT = [*range(50, 60), *range(1, 30)]


@pytest.mark.parametrize(
    ("columns", "failing", "named"),
    [
        ({M: SPLIT, N: [*range(70, 80), *range(1, 30)]}, 10, {M, N}),
        ({Feature("dim", name): SPLIT for name in "abcd"}, 10, set()),
        ({M: [100] * 2 + [1] * 30}, 2, set()),
        ({M: [100] * 30 + [1] * 2}, 30, set()),
    ],
    ids=["all that are equally good", "more than three", "few that fail", "few that pass"],
)
def test_up_to_three_equally_good_rules_over_enough_cases_are_named(columns, failing, named):
    (size,) = {len(values) for values in columns.values()}
    assert {rule.conditions[0].feature for rule in rules_for(columns, failing, size - failing)} == named


def test_symbols_of_a_shape_are_its_own_names():
    assert symbols_of("[B, N, 3]") == ("B", "N", "")
    assert symbols_of("[≥ num_act_out, 4]: n, d, h, w") == ("", "")
    assert symbols_of("scalar") == ()
