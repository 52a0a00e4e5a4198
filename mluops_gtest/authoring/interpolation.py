"""Three cells and three weights for each of many points, and values that sums in any order survive.

B batches, C channels, M cells, N points.
"""

import math
from typing import Final, Literal

import numpy as np

from mluops_gtest.authoring.calls import dtype_of
from mluops_gtest.authoring.factors import draw_factor, lattice_bits
from mluops_gtest.authoring.points import farthest_sample, interpolation, surfaces
from mluops_gtest.authoring.random import Draw, Stream
from mluops_gtest.authoring.sums import assert_conditioned
from mluops_gtest.core.tensor import Array, Criterion, DType

# even: all cells equally often, or, where there are fewer entries than cells, at equal distances from 0 to M − 1.
# random: three distinct cells. iij, iji, jii, iii: one cell twice or thrice in a triple. same: one triple for all
# points of a batch. ends: in each position in turn cell M − 1, then 0. edges: both sides of 32, 64, 128 and 256, where
# a kernel may cut M. one_cell, first, last: all 3·N entries name one cell.
Triples = Literal["even", "random", "iij", "iji", "jii", "iii", "same", "ends", "edges", "one_cell", "first", "last"]
# lattice: so few bits that every sum is exact: for float in float64, for half in half itself; exact: for float in
# float32. The others have random mantissas. full: few exponents; positive: full without signs; wide: many exponents.
# tiny, quarters: see factors.
Values = Literal["lattice", "exact", "full", "positive", "wide", "tiny", "quarters"]
# What the drawn weights become. negative: none is positive; one_hot: one of three is 1, the others 0; one_zero: one of
# three is 0; one_left: two are; zero_points: all three are, at every other point; huge: far above 1.
Weights = Literal["drawn", "negative", "one_hot", "one_zero", "one_left", "zero_points", "huge"]

_REPEATED: Final = {"iij": (0, 0, 1), "iji": (0, 1, 0), "jii": (1, 0, 0), "iii": (0, 0, 0)}
_TILES: Final = (32, 64, 128, 256)
_FLOAT32_BITS: Final = 24

_FULL: Final = (-3, -1)
# Products of two such values stay normal and their sums finite.
_WIDE: Final = {DType.FLOAT: (-12, 12), DType.HALF: (-5, 1)}
_HUGE: Final = {DType.FLOAT: 2.0**100, DType.HALF: 2.0**14}
# Units from the middle of a cloud to its rim: so fine that distances seldom tie, and float64 holds their squares.
_REACH: Final = 1 << 20
# Half kernels may round after every product and every addition; they must stay below 2e-3 where 3e-3 is allowed.
_HALF_ROOM: Final = 1.5


def draw_triples(stream: Stream, kind: Triples, batches: int, cells: int, points: int) -> Array:
    """int32 [B, N, 3]: the cells that each point names, other ones in every batch."""
    shape = (batches, points, 3)
    match kind:
        case "even":
            triples = _even(stream, cells, shape)
        case "same":
            triples = np.broadcast_to(_distinct(stream, cells, (batches, 1, 3)), shape)
        case "ends":
            triples = _distinct(stream, cells, shape)
            point = np.arange(points)
            triples[:, point, point % 3] = np.where(point // 3 % 2, 0, cells - 1)
        case "edges":
            triples = _distinct(stream, cells, shape)
            edges = np.array([tile for tile in _TILES if tile < cells])
            if not edges.size:
                raise ValueError(f"{cells} cells have no edge; give more than {_TILES[0]}")
            edge = edges[np.arange(points) % len(edges)]
            triples[..., 0], triples[..., 1] = edge - 1, edge
        case "one_cell":
            triples = np.broadcast_to(stream.integers(0, cells, (batches, 1, 1)), shape)
        case "first" | "last":
            triples = np.full(shape, 0 if kind == "first" else cells - 1)
        case "random":
            triples = _distinct(stream, cells, shape)
        case repeated:
            triples = _distinct(stream, cells, shape)[..., _REPEATED[repeated]]
    return triples.astype("<i4")


def _even(stream: Stream, cells: int, shape: tuple[int, int, int]) -> Array:
    batches, points, _ = shape
    entries = 3 * points
    order = np.argsort(stream.lanes(batches * entries).reshape(batches, entries), axis=1, kind="stable")
    named = np.arange(entries) % cells if entries >= cells else np.arange(entries) * (cells - 1) // (entries - 1)
    triples: Array = named[order].reshape(shape)
    return triples


def _distinct(stream: Stream, cells: int, shape: tuple[int, int, int]) -> Array:
    """Three different cells in each triple, where there are three."""
    spans = np.array([cells - taken if cells >= 3 else cells for taken in range(3)], np.uint64)
    lanes = stream.lanes(math.prod(shape)).reshape(shape).astype(np.uint64)
    drawn = ((lanes * spans) >> np.uint64(32)).astype(np.int64)
    if cells >= 3:
        # Counted among the cells that are not taken yet.
        first, second, third = np.moveaxis(drawn, -1, 0)
        second += second >= first
        third += third >= np.minimum(first, second)
        third += third >= np.maximum(first, second)
    return drawn


def nearest_triples(draw: Draw, batches: int, cells: int, points: int) -> tuple[Array, Array]:
    """int32 and float64 [B, N, 3]: the cells nearest to each point of a cloud, and weights by inverse distance."""
    # A point that is a cell has one weight of 1, so where the cells are many, the points are others of the same object.
    fresh = 0 if points > cells else cells
    cloud = surfaces(draw, batches, fresh + points, _REACH).astype(np.float64)
    # Elsewhere the cells are what a farthest-point sampling kept of the points, as between two levels of a network.
    return interpolation(cloud[:, fresh:], cloud[:, :cells] if fresh else farthest_sample(cloud, cells))


def draw_values(
    stream: Stream,
    kind: Values,
    dtype: DType,
    shape: tuple[int, ...],
    bits: int,
    *,
    terms: int = 1,
    sign: Literal[1, -1] = 1,
) -> Array:
    """Values of that kind; a lattice has that many bits. `terms` products meet; one factor has sign 1, the other −1."""
    storage = dtype.storage.str
    match kind:
        case "lattice" | "exact":
            return stream.lattice(shape, bits, dtype=storage)
        case "full":
            return stream.mantissas(shape, _FULL, dtype=storage)
        case "positive":
            return np.abs(stream.mantissas(shape, _FULL, dtype=storage))
        case "wide":
            return stream.mantissas(shape, _WIDE[dtype], dtype=storage)
        case "tiny" | "quarters":
            return draw_factor(stream, kind, dtype, shape, terms=terms, sign=sign)


def exact_bits(dtype: DType, terms: int, kind: Values = "lattice") -> tuple[int, int]:
    """The most bits of weights and of values with which all sums of `terms` products are exact."""
    if dtype is DType.FLOAT:
        bits = lattice_bits(dtype, terms, _FLOAT32_BITS) if kind == "exact" else lattice_bits(dtype, terms)
        return bits, bits
    # In half itself, so that it does not matter what a kernel rounds on the way.
    bits = 11 - math.ceil(math.log2(terms))
    if bits < 2:
        raise ValueError(f"half cannot add {terms} products exactly; let fewer of them meet in one sum")
    return bits // 2, bits - bits // 2


def changed_weights(stream: Stream, kind: Weights, weights: Array) -> Array:
    """The drawn weights [B, N, 3] made into that kind."""
    chosen = stream.integers(0, 3, weights.shape[:2])[..., None] == np.arange(3)
    changed = weights.copy()
    match kind:
        case "drawn":
            pass
        case "negative":
            np.copysign(weights, -1, out=changed)
        case "one_hot":
            changed[...] = chosen
        case "one_zero":
            changed[chosen] = 0
        case "one_left":
            changed[~chosen] = 0
        case "zero_points":
            changed[:, ::2] = 0
        case "huge":
            changed *= changed.dtype.type(_HUGE[dtype_of(weights)])
    return changed


def network_operands(
    draw: Draw, name: str, dtype: DType, shape: tuple[int, ...], weights: Array, terms: int
) -> tuple[Array, Array]:
    """Values of that shape and the weights in that type; float64 sums of `terms` products are exact."""
    weight_bits, value_bits = exact_bits(DType.FLOAT, terms)
    kind: Values = "lattice"
    if dtype is DType.HALF:
        # Every bit of the mantissas. No weight is subnormal: 2^-14 is the smallest normal half.
        weight_bits, kind = 14, "full"
    unit = 2.0**-weight_bits
    narrow = weights.astype(dtype.storage).astype(np.float64)
    rounded = (np.rint(narrow / unit) * unit).astype(dtype.storage)
    return draw_values(draw.stream(name), kind, dtype, shape, value_bits), rounded


def refuse_ill_conditioned(terms: Array, dtype: DType, criteria: tuple[Criterion, ...]) -> None:
    """Sums of the terms [T, n] stay far within the criteria in float32; those of half values also in half."""
    baseline = terms.sum(axis=0)
    assert_conditioned(terms, baseline, criteria)
    if dtype is DType.HALF:
        rounded = baseline.astype(dtype.storage).astype(np.float64)
        assert_conditioned(terms, rounded, criteria, arithmetic=DType.HALF, room=_HALF_ROOM)


def shortened(values: Array, bits: int) -> Array:
    """float32 values rounded to that many bits of mantissa, the leading one included: 8 is bf16, 11 is tf32."""
    step = np.uint32(1 << (24 - bits))
    patterns = np.ascontiguousarray(values, "<f4").view("<u4")
    # Half a step up, ties to even; a carry out of the mantissa is the next exponent.
    rounded = (patterns + (step // 2 - 1) + (patterns // step & 1)) // step * step
    return np.where(np.isfinite(values), rounded.astype("<u4").view("<f4"), values)
