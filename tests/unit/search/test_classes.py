"""The classes of an axis: the ends, neighbours of powers of two, and what lies between."""

from random import Random

import pytest

from mluops_gtest.core.call import Choice, Sizes
from mluops_gtest.search.draws import Axes, classes_of


def names(axis):
    return [one.name for one in classes_of(axis)]


def test_sizes_around_powers_of_two_stand_alone():
    assert names(Sizes(1, 20)) == [
        "1",
        "2",
        "3",
        "4",
        "5",
        "6",
        "7",
        "8",
        "9",
        "10…14",
        "15",
        "16",
        "17",
        "18…19",
        "20",
    ]


@pytest.mark.parametrize("axis", [Sizes(0, 0), Sizes(0, 1), Sizes(3, 3), Sizes(5, 1025), Sizes(0, 65537)])
def test_every_size_is_in_exactly_one_class(axis):
    classes = classes_of(axis)
    assert [size for one in classes for size in range(one.low, one.high + 1)] == list(range(axis.low, axis.high + 1))


def test_each_choice_is_a_class():
    assert names(Choice(("float", "half", (1, 2)))) == ["float", "half", "(1, 2)"]


def test_a_value_lies_in_its_class():
    axes, random = Axes({"n": Sizes(1, 1025), "dtype": Choice(("a", "b"))}), Random(1)
    for _ in range(200):
        point = axes.draw(random)
        chosen = axes.classes["n"][point.places["n"]]
        assert chosen.low <= point.values["n"] <= chosen.high
        assert axes.names(point) == {"n": chosen.name, "dtype": point.values["dtype"]}


def test_a_point_shrinks_to_the_smallest_sizes_and_keeps_its_choices():
    axes, random = Axes({"n": Sizes(1, 100), "m": Sizes(2, 50), "dtype": Choice(("a", "b"))}), Random(2)
    point = axes.draw(random)
    dtype = point.values["dtype"]
    while (smaller := axes.smaller(point, random)) is not None:
        assert sum(smaller.values[name] for name in "nm") < sum(point.values[name] for name in "nm")
        point = smaller
    assert dict(point.values) == {"n": 1, "m": 2, "dtype": dtype}
