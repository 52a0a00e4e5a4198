"""Operators that name three weighted cells per point, in both directions: recipes, checks, what fuzzing draws.

Values survive sums in any order. B batches, C channels, M cells, N points.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np

from mluops_gtest.authoring import (
    Array,
    Check,
    Criterion,
    Draw,
    DType,
    Layout,
    OpCall,
    Params,
    Recipe,
    RecipeOutput,
    Status,
    Stream,
    checks,
    dtype_of,
)
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space
from mluops_gtest.authoring.sum_of_terms import SumOfTerms
from mluops_gtest.authoring.sums import assert_conditioned

from .points import farthest_sample, interpolation, surfaces
from .products import SUBNORMAL, draw_factor, lattice_bits

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
    if kind in ("tiny", "quarters"):
        return draw_factor(stream, kind, dtype, shape, terms=terms, sign=sign)
    storage = dtype.storage.str
    if kind in ("lattice", "exact"):
        return stream.lattice(shape, bits, dtype=storage)
    values = stream.mantissas(shape, _WIDE[dtype] if kind == "wide" else _FULL, dtype=storage)
    return np.abs(values) if kind == "positive" else values


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


def shortened(values: Array, bits: int) -> Array:
    """Values rounded to that many bits of mantissa, the leading one included: 8 is bf16, 11 is tf32."""
    step = np.uint32(1 << (24 - bits))
    patterns = np.ascontiguousarray(values, "<f4").view("<u4")
    # Half a step up, ties to even; a carry out of the mantissa is the next exponent.
    rounded = (patterns + (step // 2 - 1) + (patterns // step & 1)) // step * step
    return np.where(np.isfinite(values), rounded.astype("<u4").view("<f4"), values).astype(values.dtype)


# The recipes of both directions; `shape` is [B, C, M, N].

Shape = tuple[int, int, int, int]
# Products that the conditioning test looks at: small cases wholly, others by their most crowded sums.
_TESTED: Final = 1 << 20
# Contributions per cell, on average: beyond some hundreds a kernel that adds in half leaves the criterion.
_MAX_HALVES: Final = 128

# What stands at one place, so that most of the output stays as it was and is still compared. idle_…: in a cell that no
# point names, where nothing may show; inf_times_zero: an infinite weight on values of 0.
Special = Literal[
    "feature_nan", "feature_inf", "feature_negative_inf", "grad_nan", "grad_inf", "grad_negative_inf",
    "weight_nan", "weight_inf", "weight_negative_inf", "idle_nan", "idle_inf", "zero_times_inf", "zero_times_nan",
    "inf_times_zero", "inf_minus_inf", "overflow", "negative_zero", "subnormal",
]  # fmt: skip
_NOT_FINITE: Final = {"nan": np.nan, "inf": np.inf, "negative_inf": -np.inf}
# By bytes of the type: the square of it overflows, and the products of others with it do not.
_LARGE: Final = {2: 2.0**10, 4: 2.0**100}
_SUBNORMAL: Final = {2: 2.0**-16, 4: 2.0**-130}


@dataclass(frozen=True, slots=True)
class Direction:
    """From `fed`, features of cells, to points; or back from gradients of points to cells, where any number meet."""

    fed: str
    output: str
    criteria: tuple[Criterion, ...]

    @property
    def forward(self) -> bool:
        """To points."""
        return self.output == "output"

    def cells_of(self, call: OpCall) -> int:
        """M of a call."""
        return call.tensor(self.fed if self.forward else self.output).dims[2]

    def terms(self, cells: int, fed: Array, indices: Array, weights: Array) -> SumOfTerms:
        """Σ weight · feature of each point, or Σ weight · gradient of each cell (§1.2)."""
        # Channels are the second axis of features and of sums.
        values, shaped = fed.swapaxes(1, 2), lambda sums: sums.swapaxes(1, 2)
        if self.forward:
            return SumOfTerms(values, source=indices, factor=weights, shaped=shaped)
        return SumOfTerms(values, target=indices, factor=weights, count=cells, shaped=shaped)

    def fed_shape(self, shape: Shape) -> tuple[int, int, int]:
        """That of the features or gradients."""
        batches, channels, cells, points = shape
        return batches, channels, cells if self.forward else points

    def most_met(self, indices: Array) -> int:
        """The most products that a sum has."""
        return 3 if self.forward else int(contributions(indices).max())

    def nearest(self, draw: Draw, params: Params, dtype: DType, *, shape: Shape) -> RecipeOutput:
        """The three nearest cells of every point of a cloud, weighted by their distances."""
        batches, _, cells, points = shape
        indices, ideal = nearest_triples(draw, batches, cells, points)
        operands = network_operands(draw, self.fed, dtype, self.fed_shape(shape), ideal, self.most_met(indices))
        return self.assemble(params, dtype, shape, indices, *operands)

    def drawn(
        self,
        draw: Draw,
        params: Params,
        dtype: DType,
        *,
        shape: Shape,
        triples: Triples = "even",
        weights: Weights = "drawn",
        values: Values = "lattice",
    ) -> RecipeOutput:
        """Cells, weights and features or gradients of these kinds."""
        batches, _, cells, points = shape
        indices = draw_triples(draw.stream("indices"), triples, batches, cells, points)
        met = self.most_met(indices)
        weight_bits, fed_bits = exact_bits(dtype, met, values)
        if self.forward and weights == "one_left":
            met = 1
        factors = draw_values(draw.stream("weights"), values, dtype, indices.shape, weight_bits, terms=met)
        fed = draw_values(draw.stream(self.fed), values, dtype, self.fed_shape(shape), fed_bits, terms=met, sign=-1)
        return self.assemble(
            params, dtype, shape, indices, fed, changed_weights(draw.stream("changed"), weights, factors)
        )

    def listed(
        self,
        draw: Draw,
        params: Params,
        dtype: DType,
        *,
        shape: Shape,
        indices: tuple[int, ...],
        weights: tuple[int, ...],
    ) -> RecipeOutput:
        """The triples and the whole-numbered weights that the declaration lists, the same in every batch."""
        batches, _, _, points = shape
        if not len(indices) == len(weights) == 3 * points:
            raise ValueError(f"indices and weights need {3 * points} entries, three for each of {points} points")
        triples, factors = (
            np.tile(np.array(entries, storage).reshape(points, 3), (batches, 1, 1))
            for entries, storage in ((indices, "<i4"), (weights, dtype.storage))
        )
        _, bits = exact_bits(dtype, self.most_met(triples))
        fed = draw_values(draw.stream(self.fed), "lattice", dtype, self.fed_shape(shape), bits)
        return self.assemble(params, dtype, shape, triples, fed, factors)

    def last_cells(self, draw: Draw, params: Params, dtype: DType, *, shape: Shape, named: int) -> RecipeOutput:
        """The points name the last cells alone; all others are 0."""
        batches, _, cells, points = shape
        indices = draw_triples(draw.stream("indices"), "even", batches, named, points) + np.int32(cells - named)
        weight_bits, fed_bits = exact_bits(dtype, self.most_met(indices))
        weights = draw_values(draw.stream("weights"), "lattice", dtype, indices.shape, weight_bits)
        fed = np.zeros(self.fed_shape(shape), dtype.storage)
        of_named = fed[..., cells - named :] if self.forward else fed
        of_named[...] = draw_values(draw.stream(self.fed), "lattice", dtype, of_named.shape, fed_bits)
        return self.assemble(params, dtype, shape, indices, fed, weights)

    def special(self, draw: Draw, params: Params, dtype: DType, *, shape: Shape, kind: Special) -> RecipeOutput:  # noqa: C901
        """Random triples that leave one cell out; special values in every other channel of one cell or of one point,
        or in one weight."""
        batches, channels, cells, points = shape
        made = self.drawn(draw, params, dtype, shape=(batches, channels, cells - 1, points), triples="random")
        fed, indices, weights = made.inputs.values()
        idle, point = cells // 2, points // 2
        indices += indices >= idle
        first, cell, _ = indices[0, point]
        if self.forward:
            fed = np.insert(fed, idle, 1, axis=2)
            if first == cell or (indices[0] == cell).any(axis=1).all():
                raise ValueError("some points must not name the special cell; give more cells or points")
        every_other, one = (0, slice(None, None, 2), cell if self.forward else point), (0, point, 1)
        match kind.split("_", 1):
            case ["feature" | "grad", value]:
                fed[every_other] = _NOT_FINITE[value]
            case ["weight", value]:
                weights[one] = _NOT_FINITE[value]
            case ["idle", value]:
                fed[..., idle] = _NOT_FINITE[value]
            case ["zero", value]:
                fed[every_other], weights[one] = _NOT_FINITE[value.removeprefix("times_")], 0
            case ["inf", "times_zero"]:
                fed[every_other], weights[one] = 0, np.inf
            case ["inf", "minus_inf"] if self.forward:
                fed[every_other], fed[0, ::2, first], weights[0, point, :2] = np.inf, -np.inf, 1
            case ["inf", "minus_inf"]:
                # Two points meet in a cell.
                indices[0, 0, 1] = cell
                fed[0, ::2, [0, point]], weights[0, 0, 1], weights[one] = np.inf, 1, -1
            case ["overflow"]:
                fed[every_other] = weights[one] = _LARGE[fed.itemsize]
            case ["negative", "zero"]:
                fed[every_other], weights[0, point] = -0.0, -0.0
            case ["subnormal"]:
                fed *= fed.dtype.type(_SUBNORMAL[fed.itemsize])
        return self.inputs(params, shape, indices, fed, weights)

    def assemble(
        self, params: Params, dtype: DType, shape: Shape, indices: Array, fed: Array, weights: Array
    ) -> RecipeOutput:
        """The inputs of a case that right kernels can meet: sums of halves also in half."""
        if dtype is DType.HALF and not self.forward and (met := contributions(indices).mean()) > _MAX_HALVES:
            raise ValueError(f"{met:.0f} contributions meet in a cell; half adds at most {_MAX_HALVES}")
        terms = self.terms(shape[2], fed, indices, weights).columns(_TESTED)
        baseline = terms.sum(axis=0)
        assert_conditioned(terms, baseline, self.criteria)
        if dtype is DType.HALF:
            rounded = baseline.astype(dtype.storage).astype(np.float64)
            assert_conditioned(terms, rounded, self.criteria, arithmetic=DType.HALF, room=_HALF_ROOM)
        return self.inputs(params, shape, indices, fed, weights)

    def exactly_made(
        self, params: Params, dtype: DType, shape: Shape, indices: Array, fed: Array, weights: Array
    ) -> RecipeOutput:
        """The same of float; every product and every sum, in any order, is a whole number that float32 holds."""
        made = self.assemble(params, dtype, shape, indices, fed.astype("<f4"), weights.astype("<f4"))
        if np.abs(self.terms(shape[2], fed, indices, weights).columns(_TESTED)).sum(axis=0).max() > 1 << 24:
            raise ValueError("the terms need more than 24 bits")
        return made

    def inputs(self, params: Params, shape: Shape, indices: Array, fed: Array, weights: Array) -> RecipeOutput:
        """The three inputs; the dims of the gradients of cells follow from none of them."""
        outputs = {} if self.forward else {self.output: shape[:3]}
        return RecipeOutput({self.fed: fed, "indices": indices, "weights": weights}, params, outputs=outputs)

    @property
    def recipes(self) -> dict[str, Recipe]:
        """Those of both directions by name."""
        return {one.__name__: one for one in (self.nearest, self.drawn, self.listed, self.last_cells, self.special)}


def contributions(indices: Array) -> Array:
    """How many entries name each cell, for the cells of all batches that any does."""
    batches = np.arange(len(indices), dtype=np.int64)[:, None, None]
    counts: Array = np.unique((batches << 32) + indices, return_counts=True)[1]
    return counts


def interpolation_checks(read: str, written: str, *, points: str, cells: str) -> tuple[Check, ...]:
    """From `read` to `written`, of which one is `points` [B, C, N] and the other `cells` [B, C, M]."""
    return (
        checks.handle("§3.7"),
        checks.descriptors(doc="§3.7"),
        checks.ranks(doc="§1.4"),
        checks.layouts(doc="§1.1"),
        checks.dtypes(f"{read} = weights", "indices", f"{written} = weights", "weights", doc="§1.4"),
        checks.dims(f"{read}.0 = indices.0", "indices.0 = weights.0", "indices.1 = weights.1", doc="§1.4"),
        checks.dims(
            "indices.2 = weights.2", "weights.2", f"{written}.0 = {read}.0", f"{written}.1 = {read}.1", doc="§1.4"
        ),
        checks.dims(f"{points}.2 = indices.1", doc="§1.4"),
        checks.strided(doc="§1.4"),
        checks.large(read, written, "indices", "weights", doc="released"),
        checks.empty(points, doc="§1.1", status=Status.BAD_PARAM),
        checks.empty("indices", "weights", doc="§3.7", status=Status.BAD_PARAM),
        # §1.1 refuses M = 0 as it refuses B, C and N = 0; the library succeeds without writing.
        checks.empty(cells, doc="released; §1.1 refuses it"),
        checks.pointers(doc="§3.7"),
    )


def never_reached(points: str) -> Mapping[str, str]:
    """`subsumed`: the tensors [B, N, 3] are alike, and as empty as `points`."""
    empty_before = f"[B, N, 3]; with B or N = 0 {points} is empty, too, and is checked first"
    return {
        "weights_large": "weights has the dims of indices, which is checked first",
        **{f"{tensor}_empty": f"{tensor} is {empty_before}" for tensor in ("indices", "weights")},
    }


def interpolation_verdict(call: OpCall, *, points: str, cells: str) -> tuple[Status, bool]:
    """The status, and whether there is anything to compute; `points` is [B, C, N], `cells` [B, C, M]."""
    arguments = {**call.inputs, **call.outputs}
    tensors = [arg for arg in (arguments[name] for name in (points, cells, "indices", "weights")) if arg is not None]
    if call.handle is None or len(tensors) < 4 or any(len(arg.dims) != 3 for arg in tensors):
        return Status.BAD_PARAM, False
    (batches, channels, count), few, dtype = tensors[0].dims, tensors[1].dims[2], tensors[3].dtype
    triples = (batches, count, 3)
    shapes = [(batches, channels, count), (batches, channels, few), triples, triples]
    described = [(dims, Layout.ARRAY) for dims in shapes], [dtype, dtype, DType.INT32, dtype]
    found = [(arg.dims, arg.layout) for arg in tensors], [arg.dtype for arg in tensors]
    if dtype not in (DType.HALF, DType.FLOAT) or found != described:
        return Status.BAD_PARAM, False
    if any(arg.desc.is_strided or arg.desc.is_large for arg in tensors):
        return Status.NOT_SUPPORTED, False
    if tensors[0].desc.is_empty:
        return Status.BAD_PARAM, False
    if few == 0:
        return Status.SUCCESS, False
    return (Status.BAD_PARAM, False) if any(arg.null for arg in tensors) else (Status.SUCCESS, True)


_SHAPE: Final = ("batches", "channels", "cells", "points")


def interpolation_space(direction: Direction) -> Space:
    """What the recipes of a direction draw; a device may take subnormal floats for 0."""
    of_other = ("grad", "subnormal") if direction.forward else ("feature", "idle", "subnormal")
    special = tuple(kind for kind in get_args(Special) if not kind.startswith(of_other))

    def draw(at: Mapping[str, Any]) -> Drawn | None:
        shape = tuple(at[name] for name in _SHAPE)
        what = at["values"]
        if at["dtype"] == "float" and what in SUBNORMAL:
            return None
        match what:
            case _ if what in get_args(Values):
                args, what = {name: at[name] for name in ("triples", "weights", "values")}, "drawn"
            case "last_cells":
                args = {"named": min(at["cells"], 3)}
            case "nearest" | "cancelling":
                args = {}
            case kind:
                what, args = "special", {"kind": kind}
        return Drawn(what, {}, {"shape": shape, **args}, at["dtype"])

    return Space(
        axes={
            "dtype": Choice(("float", "half")),
            "batches": Sizes(1, 5),
            "channels": Sizes(1, 257),
            "cells": Sizes(1, 1025),
            "points": Sizes(1, 2049),
            "triples": Choice(get_args(Triples)),
            "weights": Choice(get_args(Weights)),
            "values": Choice((*get_args(Values), "nearest", "cancelling", "last_cells", *special)),
        },
        draw=draw,
        elements=lambda at: at["batches"] * (at["channels"] * (at["cells"] + at["points"]) + 6 * at["points"]),
    )
