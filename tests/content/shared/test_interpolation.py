import itertools

import numpy as np
import pytest

from generators._shared.interpolation import (
    Direction,
    changed_weights,
    draw_triples,
    draw_values,
    exact_bits,
    nearest_triples,
    network_operands,
    shortened,
)
from mluops_gtest.authoring import Draw, DType, diff1_and_diff2
from mluops_gtest.base.errors import ContentError

KINDS = ("even", "random", "iij", "iji", "jii", "iii", "same", "ends", "edges", "one_cell", "first", "last")
BOTH = pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])


def triples(kind, *, batches=3, cells=40, points=30, seed=1):
    return draw_triples(Draw(seed).stream("indices"), kind, batches, cells, points)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("cells", "points"), [(40, 30), (33, 1), (300, 7)])
def test_triples_name_cells_that_exist(kind, cells, points):
    drawn = triples(kind, cells=cells, points=points)
    assert drawn.shape == (3, points, 3)
    assert drawn.dtype == "<i4"
    assert drawn.min() >= 0
    assert drawn.max() < cells


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("first", "last", "edges")])
def test_every_batch_has_its_own(kind):
    drawn = triples(kind)
    assert not np.array_equal(drawn[0], drawn[1])


def test_even_triples_name_all_cells_equally_often():
    counts = np.bincount(triples("even", cells=9, points=6)[0].reshape(-1), minlength=9)
    assert counts.tolist() == [2] * 9
    few = np.unique(triples("even", cells=100, points=3)[0])
    assert len(few) == 9
    assert (few[0], few[-1]) == (0, 99)


@pytest.mark.parametrize("cells", [3, 4, 40, 2**24 + 65])
def test_random_triples_have_three_cells(cells):
    drawn = triples("random", cells=cells, points=200)
    assert (np.diff(np.sort(drawn, axis=-1), axis=-1) > 0).all()
    for place in range(3):
        assert drawn[..., place].min() < cells * 0.4
        assert drawn[..., place].max() >= cells * 0.6


@pytest.mark.parametrize("cells", [1, 2])
def test_fewer_than_three_cells_repeat(cells):
    assert set(triples("random", cells=cells).reshape(-1).tolist()) == set(range(cells))


@pytest.mark.parametrize(("kind", "equal"), [("iij", (0, 1)), ("iji", (0, 2)), ("jii", (1, 2))])
def test_repeated_cells_stand_where_the_name_says(kind, equal):
    drawn = triples(kind)
    for pair in itertools.combinations(range(3), 2):
        assert (drawn[..., pair[0]] == drawn[..., pair[1]]).all() == (pair == equal)


def test_the_ends_stand_in_every_position():
    drawn = triples("ends", points=12)
    for place in range(3):
        assert {0, 39} <= set(drawn[..., place].reshape(-1).tolist())


def test_edges_lie_between_tiles():
    drawn = triples("edges", cells=260, points=8)
    assert set(drawn[..., 1].reshape(-1).tolist()) == {32, 64, 128, 256}
    assert (drawn[..., 1] - drawn[..., 0] == 1).all()


@pytest.mark.parametrize(("cells", "points"), [(16, 60), (60, 16), (20, 20)])
def test_nearest_cells_come_nearest_first_and_their_weights_sum_to_one(cells, points):
    indices, weights = nearest_triples(Draw(4), 2, cells, points)
    assert indices.shape == weights.shape == (2, points, 3)
    assert (np.diff(weights, axis=-1) <= 0).all()
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-15)
    if cells >= points:
        assert weights.max() < 0.9999


@pytest.mark.parametrize("terms", [1, 2, 3, 7, 128, 500])
def test_half_adds_lattice_products_exactly_in_any_order(terms):
    weight_bits, value_bits = exact_bits(DType.HALF, terms)
    draw = Draw(terms)
    weights = draw_values(draw.stream("w"), "lattice", DType.HALF, (terms, 50), weight_bits)
    values = draw_values(draw.stream("v"), "lattice", DType.HALF, (terms, 50), value_bits)
    exact = (np.abs(weights.astype(np.float64)) * np.abs(values)).sum(axis=0)
    total = np.zeros(50, np.float16)
    for weight, value in zip(np.abs(weights), np.abs(values), strict=True):
        total += weight * value
    np.testing.assert_array_equal(total, exact)


def test_more_products_than_half_has_bits_are_refused():
    with pytest.raises(ValueError, match="half cannot add 1000 products"):
        exact_bits(DType.HALF, 1000)


@BOTH
@pytest.mark.parametrize("kind", ["full", "positive", "wide"])
def test_full_values_have_every_mantissa_bit(kind, dtype):
    values = draw_values(Draw(2).stream("v"), kind, dtype, (4000,), 3)
    mantissa = (1 << (np.finfo(values.dtype).nmant)) - 1
    bits = values.view(dtype.bits).astype(np.uint64)
    assert int(np.bitwise_or.reduce(bits)) & mantissa == mantissa
    assert (values > 0).all() == (kind == "positive")


@BOTH
def test_weights_become_what_their_kind_says(dtype):
    drawn = draw_values(Draw(3).stream("w"), "lattice", dtype, (2, 8, 3), 4)
    stream = Draw(3).stream("changed")
    kinds = {kind: changed_weights(stream, kind, drawn) for kind in ("negative", "one_hot", "one_zero", "huge")}
    assert all(weights.dtype == drawn.dtype for weights in kinds.values())
    np.testing.assert_array_equal(changed_weights(stream, "drawn", drawn), drawn)
    assert (kinds["negative"] < 0).all()
    assert (np.sort(kinds["one_hot"], axis=-1) == [0, 0, 1]).all()
    assert ((kinds["one_zero"] == 0).sum(axis=-1) == 1).all()
    assert np.isfinite(kinds["huge"]).all()
    assert np.abs(kinds["huge"]).min() > 100
    zeros = changed_weights(stream, "zero_points", drawn)
    assert not zeros[:, ::2].any()
    np.testing.assert_array_equal(zeros[:, 1::2], drawn[:, 1::2])


def test_network_operands_round_the_weights_to_the_type():
    weights = np.array([[[0.7, 0.3 - 1e-6, 1e-6]]])
    _, single = network_operands(Draw(1), "v", DType.FLOAT, (1, 1, 4), weights, terms=3)
    np.testing.assert_allclose(single, weights, atol=2.0**-25)
    _, half = network_operands(Draw(1), "v", DType.HALF, (1, 1, 4), weights, terms=3)
    assert half[0, 0, 2] == 0
    np.testing.assert_allclose(half[0, 0, :2], weights[0, 0, :2], rtol=2.0**-11)


def test_half_terms_are_also_added_in_half():
    """1 + 2^-11 + … in half never leaves 1; float32 adds it up."""
    direction = Direction("grad_output", "grad_features", diff1_and_diff2(3e-3))
    grad = np.array([[[1.0] + [2.0**-11] * 64]])
    # The first entry of each point alone counts, in cell 0.
    indices = np.broadcast_to(np.array([0, 1, 1], "<i4"), (1, 65, 3))
    weights = (indices == 0).astype(np.float64)

    def make(dtype):
        operands = (operand.astype(dtype.storage) for operand in (grad, weights))
        direction.assemble({}, dtype, (1, 1, 2, 65), indices, *operands)

    make(DType.FLOAT)
    with pytest.raises(ContentError, match="half sums"):
        make(DType.HALF)


@pytest.mark.parametrize(("bits", "kept"), [(8, 1 + 2.0**-7), (11, 1 + 2.0**-10)])
def test_shortened_values_keep_that_many_bits(bits, kept):
    step = kept - 1
    values = np.array([1, kept, 1 + step / 2, 1 + 3 * step / 2, -kept, 2 - 2.0**-23, np.inf, np.nan], "<f4")
    expected = [1, kept, 1, 1 + 2 * step, -kept, 2, np.inf, np.nan]
    np.testing.assert_array_equal(shortened(values, bits), np.array(expected, "<f4"))


def test_eleven_bits_round_as_half_does():
    values = Draw(1).stream("v").mantissas((1000,), (-3, 3))
    np.testing.assert_array_equal(shortened(values, 11), values.astype("<f2").astype("<f4"))
