"""Narrow integers are wrong beyond what they hold, and right within it."""

import numpy as np
import pytest

from mluops_gtest.authoring.narrowing import NARROW

KEPT = {name: narrow for name, _, narrow in NARROW}


@pytest.mark.parametrize(
    ("kind", "value", "kept"),
    [
        ("int8", 127, 127),
        ("int8", -128, -128),
        ("int8", 128, -128),
        ("int8", -129, 127),
        ("int8", 256, 0),
        ("int16", 32767, 32767),
        ("int16", 32768, -32768),
        ("int16", -(2**31), 0),
        ("half", 2048, 2048),
        ("half", -2049, -2048),
        ("half", 2051, 2052),
        ("half", 2**31 - 1, 65504),
        ("float", 2**24, 2**24),
        ("float", 2**24 + 1, 2**24),
        ("float", 2**31 - 1, 2**31),
    ],
)
def test_what_remains_of_an_integer(kind, value, kept):
    assert KEPT[kind](np.array([value, 5], np.int64)).tolist() == [kept, 5]


def test_no_kind_is_forgotten():
    assert set(KEPT) == {"int8", "int16", "half", "float"}
