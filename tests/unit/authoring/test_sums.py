import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.authoring.random import Draw
from mluops_gtest.authoring.sums import (
    ANY_EXPONENT,
    assert_conditioned,
    exact_sums,
    largest_magnitude,
    lattice_exponent,
    lattice_unit,
    magnitudes,
    sums_are_exact,
)
from mluops_gtest.base.errors import ContentError
from mluops_gtest.core.tensor import DType, diff1_and_diff2, exact

BEYOND_A_CHUNK = (1 << 22) + 3


def exponent_by_definition(values):
    exponents = []
    for value in map(float, values):
        if math.isfinite(value) and value != 0:
            top, bottom = Fraction(value).as_integer_ratio()
            exponents.append((top & -top).bit_length() - bottom.bit_length())
    return min(exponents, default=ANY_EXPONENT)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "width"), [("<f4", 32), ("<f2", 16)])
def test_the_exponent_is_the_largest_that_divides_all_values(dtype, width):
    @given(st.lists(st.floats(width=width), max_size=20))
    def holds(values):
        assert lattice_exponent(np.array(values, dtype)) == exponent_by_definition(values)

    holds()


@pytest.mark.parametrize("values", [[], [0.0, -0.0], [math.inf, math.nan]])
def test_nothing_to_divide_gives_the_documented_exponent(values):
    assert lattice_exponent(np.array(values, "<f4")) == ANY_EXPONENT


@pytest.mark.parametrize("where", [0, (1 << 15) + 1, 1 << 22, BEYOND_A_CHUNK - 1])
def test_one_fine_value_among_millions_decides_the_exponent(where):
    values = np.full(BEYOND_A_CHUNK, 0.5, np.float32)
    values[where] = 0.75
    assert lattice_exponent(values) == -2


def test_the_exponent_of_drawn_data_is_the_lattice_and_nan_does_not_hide_the_values_beside_it():
    assert lattice_exponent(Draw(1).stream("x").lattice((300, 700), bits=24)) == -24
    values = np.ones(1 << 16, np.float32)
    values[40000], values[40001] = np.nan, 1.5
    assert lattice_exponent(values) == -1


@given(st.lists(st.floats(width=32), max_size=20))
def test_magnitudes_count_finite_values_of_both_signs(values):
    counted = [abs(v) for v in values if math.isfinite(v) and v != 0]
    assert magnitudes(np.array(values, "<f4")) == (min(counted, default=0.0), max(counted, default=0.0))
    assert largest_magnitude(np.array(values, "<f4")) == max(counted, default=0.0)


def test_magnitudes_are_found_in_every_chunk_and_in_halves():
    values = np.zeros(BEYOND_A_CHUNK, np.float32)
    values[0], values[-1] = 3, -7
    assert magnitudes(values) == (3, 7)
    assert magnitudes(values[:-1]) == (3, 3)
    assert magnitudes(np.array([-1.5, 0.0, 2.0**-24, np.inf], "<f2")) == (2.0**-24, 1.5)


@pytest.mark.parametrize(
    ("exponent", "largest", "terms", "exact"),
    [
        (0, 1.0, 2**53, True),
        (0, 1.0, 2**53 + 1, False),
        (-24, 1.0, 2**29, True),
        (-24, 1.0, 2**29 + 1, False),
        (-149, 2.0**-149, 2**53, True),
        (-149, 3.4e38, 1, False),
        (ANY_EXPONENT, 0.0, 2**60, True),
    ],
)
def test_sums_are_exact_up_to_53_bits(exponent, largest, terms, exact):
    assert sums_are_exact(exponent, largest, terms) is exact


@given(
    st.lists(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3), max_size=9)
)
def test_exact_sums_are_the_nearest_float64_to_the_true_sums(rows):
    terms = np.array(rows, np.float64).reshape(len(rows), 3)
    expected = [float(sum(map(Fraction, column), Fraction(0))) for column in terms.T.tolist()]
    assert exact_sums(terms).tolist() == expected


def test_exact_sums_keep_what_float64_would_lose_and_follow_ieee():
    assert exact_sums(np.array([[2.0**100], [1.0], [-(2.0**100)]])).tolist() == [1.0]
    assert not np.signbit(exact_sums(np.full((2, 1), -0.0))[0])
    inf, nan = math.inf, math.nan
    terms = np.array([[inf, inf, -inf, nan, 1.0], [3e38, -inf, 1.0, inf, 2.0]])
    np.testing.assert_array_equal(exact_sums(terms), [inf, nan, -inf, nan, 3.0])


def test_well_conditioned_terms_are_accepted():
    terms = Draw(2).stream("x").mantissas((500, 20), exponents=(-2, 2))
    assert_conditioned(terms, exact_sums(terms), diff1_and_diff2(3e-3))


@pytest.mark.parametrize(
    ("order", "column"),
    [
        ("sequential", [2.0**24] + [1.0] * 2**13),
        ("reversed", [1.0] * 2**13 + [2.0**24]),
        # One by one every partial sum is representable; the pair in the middle needs a bit more than float32 has.
        ("pairwise", [-(2.0**24), 0.0, 2.0**24, 2.0**24 + 2, -(2.0**24), 0.0, 0.0, 0.0]),
    ],
    ids=["sequential", "reversed", "pairwise"],
)
def test_each_order_that_loses_the_sum_is_refused(order, column):
    terms = np.array(column)[:, None]
    with pytest.raises(ContentError, match=order):
        assert_conditioned(terms, exact_sums(terms), diff1_and_diff2(1e-3))


def test_passing_without_room_is_refused_and_how_much_is_enough_can_be_said():
    terms, baseline = np.array([[1.0]]), np.array([1.002])
    with pytest.raises(ContentError, match="diff1"):
        assert_conditioned(terms, baseline, diff1_and_diff2(3e-3))
    assert_conditioned(terms, baseline, diff1_and_diff2(3e-3), room=1.25)


def test_a_wrong_non_finite_position_is_left_out_and_other_criteria_are_not_measured():
    assert_conditioned(np.array([[np.nan, 1.0]]), np.array([np.nan, 1.0]), diff1_and_diff2(3e-3))
    with pytest.raises(ValueError, match="diff3"):
        assert_conditioned(np.ones((1, 1)), np.ones(1), exact())


def test_half_arithmetic_is_tried_where_it_is_asked_for():
    """1 + 2^-11 + … in half never leaves 1; float32 adds it up."""
    terms = np.array([1.0] + [2.0**-11] * 64)[:, None]
    assert_conditioned(terms, exact_sums(terms), diff1_and_diff2(3e-3))
    with pytest.raises(ContentError, match="sequential half sums"):
        assert_conditioned(terms, exact_sums(terms), diff1_and_diff2(3e-3), arithmetic=DType.HALF)


def test_a_sum_beyond_the_largest_half_is_refused():
    terms = np.array([[65504.0], [65504.0]])
    with pytest.raises(ContentError, match="inf"):
        assert_conditioned(terms, exact_sums(terms), diff1_and_diff2(3e-3), arithmetic=DType.HALF)


# The first values lie on a coarse lattice, one behind them on a fine one.
FINE_BEHIND = np.concatenate([np.full(5000, 2.0**-3, "<f4"), np.array([2.0**-20], "<f4")])
ZEROS_IN_FRONT = np.concatenate([np.zeros(5000, "<f4"), np.array([1024.0], "<f4")])


@pytest.mark.parametrize(
    ("values", "sums", "unit"),
    [
        pytest.param(FINE_BEHIND, [1.0, 600.0], 2.0**-20, id="the unit divides every value where a sum may need it"),
        pytest.param(FINE_BEHIND, [2.0**22, 2.0**23], 0.0, id="it is left out where every sum needs more bits"),
        pytest.param(FINE_BEHIND, [2.0**21, 2.0**23], 2.0**-20, id="and only there"),
        pytest.param(ZEROS_IN_FRONT, [2.0**30], 1024.0, id="zeros in front say nothing about the rest"),
        pytest.param(FINE_BEHIND, [0.0] * 3, 2.0**-20, id="sums that are all zero need no bits"),
    ],
)
def test_the_unit_of_sums(values, sums, unit):
    assert lattice_unit(values, of_sums=np.array(sums, "<f4")) == unit
