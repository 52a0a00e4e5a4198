"""Sums, products and distances without rounding, against fractions one by one."""

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
from mluops_gtest.core.tensor import Layout

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


def test_a_total_of_many_terms_does_not_overflow():
    assert total(np.full(300_000, np.float64(2**53 - 1))) == 300_000 * (2**53 - 1)


@given(FLOATS, FLOATS)
def test_a_product_of_floats_is_exact(left, right):
    (found,) = products(np.array([left], "<f4"), np.array([right], "<f4"))
    assert Fraction(float(found)) == Fraction(left) * Fraction(right)


def test_0_times_infinity_is_nan():
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
