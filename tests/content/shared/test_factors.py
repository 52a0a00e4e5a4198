"""Every kind of factor is what it says, along any axis."""

import numpy as np
import pytest

from generators._shared.products import draw_factor, lattice_bits
from mluops_gtest.authoring import Draw, DType
from mluops_gtest.authoring.sums import largest_magnitude, lattice_exponent

SHAPES = [((6, 40), -1), ((40, 6), 0), ((3, 40, 2), 1)]


def draw(values, dtype, shape, axis, sign=1):
    stream = Draw(5).stream(f"factor {sign}")
    return np.moveaxis(draw_factor(stream, values, dtype, shape, terms=40, axis=axis, sign=sign), axis, -1)


def test_lattices_are_the_widest_that_stay_exact():
    assert lattice_bits(DType.FLOAT, 27 * 128) == 20
    assert lattice_bits(DType.FLOAT, 27 * 16) == 22
    assert lattice_bits(DType.FLOAT, 1) == 24
    assert lattice_bits(DType.HALF, 27 * 128) == 11


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
def test_lattice_factors_have_that_many_bits(dtype):
    values = draw_factor(Draw(0).stream("x"), "lattice", dtype, (100, 20), terms=27 * 128)
    assert values.dtype == dtype.storage
    assert largest_magnitude(values) < 2.0 ** (lattice_exponent(values) + lattice_bits(dtype, 27 * 128))


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_neighbouring_terms_nearly_cancel(shape, axis, dtype):
    terms = np.prod([draw("cancelling", dtype, shape, axis, sign).astype(np.float64) for sign in (1, -1)], axis=0)
    pairs = np.abs(terms[..., ::2] + terms[..., 1::2])
    assert (pairs < 0.3 * np.abs(terms[..., ::2])).all()
    assert (pairs > 0).all()


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_half_adds_nothing_to_a_leading_term(shape, axis):
    terms = np.prod([draw("leading", DType.HALF, shape, axis, sign).astype(np.float64) for sign in (1, -1)], axis=0)
    for end in (0, -1):
        largest = terms[..., end].astype("<f2")
        # float16 additions: the sum rounds back to where it began.
        assert (largest + terms[..., 1].astype("<f2") == largest).all()
    assert (terms[..., 1:-1] < 0.25).all()


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
def test_signs_and_exponents(dtype):
    positive, full, wide = (draw(values, dtype, (50, 40), -1) for values in ("positive", "full", "wide"))
    assert (positive >= 0.25).all()
    assert (positive < 0.5).all()
    assert set(np.frexp(full)[1].ravel().tolist()) == {1}
    assert (full < 0).any()
    assert np.ptp(np.frexp(wide)[1]) == (24 if dtype is DType.FLOAT else 8)


@pytest.mark.parametrize(("dtype", "smallest"), [(DType.FLOAT, 2.0**-149), (DType.HALF, 2.0**-24)])
@pytest.mark.parametrize("terms", [1, 3, 27])
def test_tiny_products_are_multiples_of_the_smallest_number_and_their_sums_are_subnormal(dtype, smallest, terms):
    first, second = (
        draw_factor(Draw(1).stream(name), "tiny", dtype, (terms, 500), terms=terms, sign=sign)
        for name, sign in (("a", 1), ("b", -1))
    )
    normal = np.finfo(dtype.storage).smallest_normal
    assert min(np.abs(first).min(), np.abs(second).min()) >= normal
    products = first.astype(np.float64) * second.astype(np.float64)
    assert (products % smallest == 0).all()
    assert np.abs(products).sum(axis=0).max() <= normal


@pytest.mark.parametrize(("dtype", "smallest"), [(DType.FLOAT, 2.0**-149), (DType.HALF, 2.0**-24)])
def test_quarters_lie_at_below_and_above_the_middle_between_two_numbers(dtype, smallest):
    first, second = (
        draw_factor(Draw(1).stream(name), "quarters", dtype, (500,), terms=1, sign=sign).astype(np.float64)
        for name, sign in (("a", 1), ("b", -1))
    )
    quarters = first * second * 4 / smallest
    assert set(quarters % 4) == {0, 1, 2, 3}
    # Ties that go down to an even number, and up to one.
    assert {2, 6} <= set(quarters % 8)
    with pytest.raises(ValueError, match="sums of one product, not of 2"):
        draw_factor(Draw(1).stream("a"), "quarters", dtype, (500,), terms=2)


def test_tiny_sums_of_many_products_are_refused():
    with pytest.raises(ValueError, match="sums of 1024 products"):
        draw_factor(Draw(1).stream("a"), "tiny", DType.HALF, (5,), terms=1024)


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
def test_a_lifted_factor_is_subnormal_and_its_products_are_not(dtype):
    first, second = (
        draw_factor(Draw(1).stream(name), "lifted", dtype, (500,), terms=4, sign=sign)
        for name, sign in (("a", 1), ("b", -1))
    )
    normal = np.finfo(dtype.storage).smallest_normal
    assert np.abs(first).max() < normal
    products = np.abs(first.astype(np.float64) * second.astype(np.float64))
    assert normal <= products.min()
    # Far from what diff1 and diff2 add to what they divide by, and from the largest half.
    assert products.mean() > 1e-8
    assert products.max() < 1000
