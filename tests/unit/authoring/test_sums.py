"""Sums, products and distances without rounding, and data on which any order of sums is good enough."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.authoring.exact_numbers import (
    as_integers,
    fraction,
    offset_weights,
    overflows,
    pairs_naming,
    products,
    squared_distances_to,
    total,
)
from mluops_gtest.authoring.random import Draw
from mluops_gtest.authoring.sums import (
    ANY_EXPONENT,
    assert_conditioned,
    exact_sums,
    largest_magnitude,
    lattice_exponent,
    lattice_unit,
    magnitudes,
    odd_sums,
    sums_are_exact,
)
from mluops_gtest.base.errors import ContentError
from mluops_gtest.core.tensor import DType, Layout, diff1_and_diff2, exact
from mluops_gtest.judging.arbitration import rounded

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


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.lists(FLOATS))
def test_a_total_is_the_sum_of_fractions(values):
    assert total(np.array(values, np.float64)) == sum(map(Fraction, values))


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1, math.inf], math.inf), ([-math.inf, 3], -math.inf), ([math.inf, -math.inf], math.nan), ([math.nan], math.nan)],
)
def test_a_total_follows_ieee(values, expected):
    found = total(np.array(values, np.float64))
    assert found == expected or (math.isnan(found) and math.isnan(expected))


@given(FLOATS, FLOATS)
def test_a_product_of_floats_is_exact(left, right):
    (found,) = products(np.array([left], "<f4"), np.array([right], "<f4"))
    assert Fraction(float(found)) == Fraction(left) * Fraction(right)


def test_a_total_of_many_terms_does_not_overflow_and_0_times_infinity_is_nan():
    assert total(np.full(300_000, np.float64(2**53 - 1))) == 300_000 * (2**53 - 1)
    assert math.isnan(products(np.array([0], "<f4"), np.array([np.inf], "<f4"))[0])


@given(st.lists(FLOATS, min_size=1))
def test_integers_with_an_exponent_are_the_values(values):
    integers, exponent = as_integers(np.array(values, "<f4"))
    assert [int(one) * Fraction(2) ** exponent for one in integers] == [Fraction(value) for value in values]


@given(st.lists(st.tuples(FLOATS, FLOATS, FLOATS), min_size=1, max_size=4), st.tuples(FLOATS, FLOATS, FLOATS))
def test_squared_distances_are_exact(points, point):
    found = squared_distances_to(np.array(points, "<f4"))(np.array(point, "<f4"))
    expected = [sum((Fraction(u) - Fraction(k)) ** 2 for u, k in zip(point, one, strict=True)) for one in points]
    assert found == expected


def test_points_that_are_not_finite_have_no_distance():
    points = np.array([[0, 0, np.nan], [1, 0, 0], [np.inf, 0, 0]], "<f4")
    assert squared_distances_to(points)(np.zeros(3, "<f4")) == [None, 1, None]
    assert squared_distances_to(points)(np.array([0, np.inf, 0], "<f4")) == [None] * 3


@pytest.mark.parametrize("kind", ["<f2", "<f4"])
def test_what_rounds_to_infinity_overflows(kind):
    largest = Fraction(float(np.finfo(kind).max))
    half_ulp = largest - Fraction(float(np.nextafter(np.finfo(kind).max, np.dtype(kind).type(0))))
    limit = largest + half_ulp / 2
    assert overflows(limit, np.dtype(kind).itemsize)
    assert not overflows(limit - Fraction(1, 2**20), np.dtype(kind).itemsize)


def test_a_stored_number_is_what_it_is():
    assert fraction(np.float32(0.1)) == Fraction(13421773, 2**27)
    assert math.isnan(fraction(np.float32(np.nan)))


def test_weights_are_the_same_in_every_layout():
    weights = np.arange(2 * 3 * 2 * 5 * 4).reshape(2, 3, 2, 5, 4)  # D, H, W, Ci, Co
    wanted = weights.reshape(-1, 5, 4)
    assert (offset_weights(weights, Layout.ARRAY) == wanted).all()
    assert (offset_weights(weights.transpose(4, 0, 1, 2, 3), Layout.NDHWC) == wanted).all()
    assert (offset_weights(weights.transpose(4, 3, 0, 1, 2), Layout.NCDHW) == wanted).all()
    flat = weights[0]
    assert (offset_weights(flat, Layout.ARRAY) == flat.reshape(-1, 5, 4)).all()
    assert (offset_weights(flat, Layout.HWCN) == flat.reshape(-1, 5, 4)).all()
    assert (offset_weights(flat.transpose(3, 2, 0, 1), Layout.NCHW) == flat.reshape(-1, 5, 4)).all()


def test_only_pairs_in_use_name_a_row():
    pairs = np.array([[[0, 1, 1], [2, 0, 0]], [[1, 1, 0], [1, 2, 0]]])
    assert list(pairs_naming(1, 0, pairs, [2, 1])) == [(0, 0), (1, 1)]
    assert list(pairs_naming(0, 1, pairs, [3, 2])) == [(0, 1), (0, 1)]


@pytest.mark.parametrize(
    "terms_of_one",
    [
        (1.0, 2.0**-24, 2.0**-60),
        (1.0, 2.0**-24, -(2.0**-60)),
        (1.0, -(2.0**-25), 2.0**-90),
        (1.0 + 2.0**-23, 2.0**-24, -(2.0**-100)),
        (2.0**80, 1.0, -(2.0**80)),
        (2.0**53, 1.0, 2.0**-53),
        (2.0**53 + 2, -1.0, -(2.0**-40)),
        (2.0**-149, 2.0**-150, 2.0**-200),
        (3.0, -3.0, 0.0),
    ],
)
def test_a_sum_is_rounded_once_whatever_its_order(terms_of_one):
    exact = sum(map(Fraction, terms_of_one), Fraction(0))
    for order in itertools.permutations(terms_of_one):
        total = odd_sums(np.array(order)[:, None])
        for dtype in (DType.FLOAT, DType.HALF):
            with np.errstate(over="ignore"):
                assert total.astype(dtype.storage)[0] == rounded(exact, dtype)


def test_random_sums_of_many_magnitudes_are_rounded_once():
    rng = np.random.default_rng(1)
    for _ in range(40):
        columns = rng.integers(-(2**48), 2**48, (3, 50)) * 2.0 ** rng.integers(-90, 40, (3, 50))
        with np.errstate(over="ignore"):
            totals = odd_sums(columns).astype("<f4")
        expected = [float(rounded(sum(map(Fraction, column)), DType.FLOAT)) for column in columns.T.tolist()]
        np.testing.assert_array_equal(totals, expected)


def test_a_sum_of_negative_zeros_is_one():
    assert np.signbit(odd_sums(np.array([[-0.0, -0.0, 1.0], [-0.0, 0.0, -1.0]]))).tolist() == [True, False, False]
