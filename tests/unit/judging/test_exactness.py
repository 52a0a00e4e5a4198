"""Exact values in a data type, against what numpy rounds to."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.core.tensor import DType
from mluops_gtest.judging.arbitration import error, rounded, stored_number, ulp

DOUBLES = st.floats(allow_nan=False, allow_infinity=False, width=64)


@given(DOUBLES)
@pytest.mark.parametrize("dtype", [DType.HALF, DType.FLOAT])
def test_rounding_is_that_of_the_hardware(dtype, value):
    with np.errstate(over="ignore", under="ignore"):
        expected = float(np.float64(value).astype(dtype.storage))
    assert float(rounded(Fraction(value), dtype)) == expected


@pytest.mark.parametrize(
    ("exact", "expected"),
    [
        (1 + Fraction(1, 2**24), 1),  # a tie goes to even
        (1 + Fraction(1, 2**24) + Fraction(1, 2**80), 1 + Fraction(1, 2**23)),  # float64 in between would lose this
        (Fraction(1, 2**150), 0),
        (Fraction(3, 2**151), Fraction(1, 2**149)),
        (Fraction(2**128 - 2**103), math.inf),
        (Fraction(2**128 - 2**103 - 1), 2**128 - 2**104),
    ],
)
def test_a_float_is_rounded_once_to_even(exact, expected):
    assert rounded(exact, DType.FLOAT) == expected


@given(st.floats(width=16, allow_nan=False, allow_infinity=False))
def test_an_ulp_is_the_way_to_the_next_number(value):
    above = float(np.nextafter(np.float16(abs(value)), np.float16(np.inf)))
    if math.isfinite(above):
        assert ulp(Fraction(abs(value)), DType.HALF) == Fraction(above) - Fraction(abs(value))


def test_integers_are_taken_as_they_are():
    assert rounded(2**40 + 1, DType.INT64) == 2**40 + 1
    assert ulp(7, DType.INT32) == 1
    assert stored_number(np.int64(2**60 + 1), DType.INT64) == 2**60 + 1


def test_bfloat16_is_the_number_that_its_bits_stand_for():
    assert stored_number(np.uint16(0x3FC0), DType.BFLOAT16) == Fraction(3, 2)
    assert rounded(1 + Fraction(1, 2**8), DType.BFLOAT16) == 1


@pytest.mark.parametrize(
    ("value", "exact", "expected"),
    [
        (math.nan, math.nan, 0),
        (math.inf, math.inf, 0),
        (math.inf, -math.inf, math.inf),
        (math.nan, Fraction(1), math.inf),
        (Fraction(1), math.nan, math.inf),
        (Fraction(1, 3), Fraction(1, 2), Fraction(1, 6)),
    ],
)
def test_what_is_no_number_must_meet_its_like(value, exact, expected):
    assert error(value, exact) == expected
