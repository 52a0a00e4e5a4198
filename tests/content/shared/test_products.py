"""Sums of products against literal loops over exact fractions, by both ways of summing."""

import random
from fractions import Fraction

import numpy as np
import pytest

from generators._shared import products
from generators._shared.products import (
    Products,
    by_matrix_products,
    float64_is_exact,
    one_by_one,
    refuse_unless_conditioned,
    summed,
    terms_by_row,
)
from mluops_gtest.authoring import Draw, diff1_and_diff2
from mluops_gtest.base.errors import ContentError
from tests.support.examples import examples


def random_products(rng: random.Random, bits: int = 10) -> Products:
    sources, count, width, columns, offsets = (rng.randint(1, 6) for _ in range(5))
    draw = Draw(rng.getrandbits(32))
    met = [rng.randint(0, min(count, sources)) for _ in range(offsets)]
    meetings = tuple(np.array([rng.sample(range(n), met[k]) for n in (count, sources)]) for k in range(offsets))
    rows = draw.stream("rows").lattice((sources, width), bits)
    matrices = draw.stream("matrices").lattice((offsets, width, columns), bits)
    return Products(rows, matrices, tuple(m.reshape(2, -1).astype(np.int32) for m in meetings), count)


def literal(made: Products) -> np.ndarray:
    sums = [[Fraction(0)] * made.shape[1] for _ in range(made.count)]
    for matrix, meeting in zip(made.matrices, made.meetings, strict=True):
        for to, source in meeting.T.tolist():
            for column in range(made.shape[1]):
                for value, weight in zip(made.rows[source], matrix[:, column], strict=True):
                    sums[to][column] += Fraction(float(value)) * Fraction(float(weight))
    return np.array([[float(value) for value in row] for row in sums]).astype(made.rows.dtype)


@pytest.mark.slow
def test_both_ways_are_the_formula(monkeypatch):
    monkeypatch.setattr(products, "_BLOCK_SUMS", 7)
    rng = random.Random(1)
    for _ in range(examples(150)):
        made = random_products(rng)
        assert float64_is_exact(made)
        wanted = literal(made)
        for sums in (summed(made), by_matrix_products(made), one_by_one(made)):
            assert sums.dtype == wanted.dtype
            assert sums.shape == made.shape
            np.testing.assert_array_equal(sums, wanted)
            assert not np.signbit(sums[sums == 0]).any()


def test_what_float64_rounds_is_summed_exactly():
    # 2^80 + 2^20 − 2^80: float64 loses the middle term in this order.
    rows, matrices = np.array([[2.0**80, 1, 2.0**80]], "<f4"), np.array([[[1], [2.0**20], [-1]]], "<f4")
    made = Products(rows, matrices, (np.zeros((2, 1), np.int32),), 1)
    assert not float64_is_exact(made)
    assert summed(made).tolist() == [[2.0**20]]


def test_a_row_listed_twice_receives_twice():
    rows, matrices = np.array([[3], [5]], "<f4"), np.ones((1, 1, 1), "<f4")
    made = Products(rows, matrices, (np.array([[2, 0, 2], [0, 1, 1]], np.int32),), 3)
    assert by_matrix_products(made).tolist() == one_by_one(made).tolist() == [[5], [0], [8]]
    assert made.longest_sum == 2


def test_terms_come_by_row():
    rows, matrices = np.array([[2, 3]], "<f4"), np.array([[[1, 10], [100, 1000]], [[7, 0], [0, 7]]], "<f4")
    made = Products(rows, matrices, (np.array([[1], [0]]), np.array([[1], [0]])), 4)
    ((row, terms),) = terms_by_row(made)
    assert row == 1
    assert terms.tolist() == [[2, 20], [300, 3000], [14, 0], [0, 21]]


def test_every_nan_is_the_same_one():
    rows, matrices = np.array([[np.inf, -np.inf]], "<f4"), np.ones((1, 2, 1), "<f4")
    sums = summed(Products(rows, matrices, (np.zeros((2, 1), np.int32),), 1))
    assert sums.view("<u4").tolist() == [[0x7FC00000]]


def test_a_lattice_that_is_too_fine_and_sums_that_cancel_are_refused():
    one = (np.zeros((2, 1), np.int32),)
    rows, matrices = Draw(1).stream("rows").mantissas((1, 64)), Draw(1).stream("matrices").mantissas((1, 64, 2))
    criteria = diff1_and_diff2(1e-5)
    refuse_unless_conditioned(Products(rows, matrices, one, 1), criteria, lattice=False)
    with pytest.raises(ValueError, match="the lattice is too fine"):
        refuse_unless_conditioned(Products(rows * np.float32(2.0**40), matrices, one, 1), criteria, lattice=True)
    cancelling = np.concatenate([matrices, -matrices * np.float32(1 - 2.0**-20)], axis=1)
    with pytest.raises(ContentError, match="ill-conditioned"):
        refuse_unless_conditioned(
            Products(np.concatenate([rows, rows], axis=1), cancelling, one, 1), criteria, lattice=False
        )
