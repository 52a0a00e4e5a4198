"""Recipes: which cells the points name, with which weights; `shape` is [B, C, M, N]."""

import math
from typing import Final, Literal, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput

from .._shared.interpolation import (
    Triples,
    Values,
    Weights,
    changed_weights,
    draw_triples,
    draw_values,
    exact_bits,
    interpolation_space,
    nearest_triples,
    network_operands,
    refuse_ill_conditioned,
)
from . import CRITERIA, contributions, products_by_cell

Shape = tuple[int, int, int, int]

# Products that the conditioning test looks at: small cases wholly, others by their first channels.
_TESTED: Final = 1 << 20
# Contributions per cell, on average: beyond some hundreds a kernel that adds in half leaves the criterion.
_MAX_HALVES: Final = 128
# What a cell of the cancelling recipe keeps of the 24 bits of its terms is at most a thousandth.
_FACTOR_BITS, _GRADIENT_BITS, _SPREAD = 11, 12, 16


def nearest(draw: Draw, params: Params, dtype: DType, *, shape: Shape) -> RecipeOutput:
    """The three nearest cells of every point of a cloud, weighted by their distances."""
    batches, channels, cells, points = shape
    indices, ideal = nearest_triples(draw, batches, cells, points)
    grad, weights = network_operands(
        draw, "grad_output", dtype, (batches, channels, points), ideal, terms=_most_met(indices)
    )
    return made(params, dtype, shape, grad, indices, weights)


def drawn(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    shape: Shape,
    triples: Triples = "even",
    weights: Weights = "drawn",
    values: Values = "lattice",
) -> RecipeOutput:
    """Cells, weights and gradients of these kinds."""
    batches, channels, cells, points = shape
    indices = draw_triples(draw.stream("indices"), triples, batches, cells, points)
    met = _most_met(indices)
    weight_bits, gradient_bits = exact_bits(dtype, met, values)
    factors = draw_values(draw.stream("weights"), values, dtype, indices.shape, weight_bits, terms=met)
    grad = draw_values(
        draw.stream("grad_output"), values, dtype, (batches, channels, points), gradient_bits, terms=met, sign=-1
    )
    return made(params, dtype, shape, grad, indices, changed_weights(draw.stream("changed"), weights, factors))


def listed(
    draw: Draw, params: Params, dtype: DType, *, shape: Shape, indices: tuple[int, ...], weights: tuple[int, ...]
) -> RecipeOutput:
    """The triples and the whole-numbered weights that the declaration lists, the same in every batch."""
    batches, channels, _, points = shape
    if not len(indices) == len(weights) == 3 * points:
        raise ValueError(f"indices and weights need {3 * points} entries, three for each of {points} points")
    triples, factors = (
        np.tile(np.array(entries, storage).reshape(points, 3), (batches, 1, 1))
        for entries, storage in ((indices, "<i4"), (weights, dtype.storage))
    )
    _, gradient_bits = exact_bits(dtype, _most_met(triples))
    grad = draw_values(draw.stream("grad_output"), "lattice", dtype, (batches, channels, points), gradient_bits)
    return made(params, dtype, shape, grad, triples, factors)


def last_cells(draw: Draw, params: Params, dtype: DType, *, shape: Shape, named: int) -> RecipeOutput:
    """The points name the last cells alone; all others stay 0."""
    batches, channels, cells, points = shape
    indices = draw_triples(draw.stream("indices"), "even", batches, named, points) + np.int32(cells - named)
    weight_bits, gradient_bits = exact_bits(dtype, _most_met(indices))
    weights = draw_values(draw.stream("weights"), "lattice", dtype, indices.shape, weight_bits)
    grad = draw_values(draw.stream("grad_output"), "lattice", dtype, (batches, channels, points), gradient_bits)
    return made(params, dtype, shape, grad, indices, weights)


def cancelling(draw: Draw, params: Params, dtype: DType, *, shape: Shape) -> RecipeOutput:
    """The points of the second half take back what those of the first half added, but for a few bits: what is left of
    24 bits is exact in float32 and lost where inputs, products or sums have fewer bits."""
    if dtype is not DType.FLOAT:
        raise ValueError(f"no {dtype.value} holds the 24 bits that cancel")
    batches, channels, cells, points = shape
    if points % 2:
        raise ValueError("the points come in pairs; give an even number")
    triples = draw_triples(draw.stream("indices"), "even", batches, cells, points // 2)
    bits = _FACTOR_BITS - math.ceil(math.log2(_most_met(triples)))
    factors = draw.stream("weights").integers(1 << (bits - 1), 1 << bits, triples.shape)
    # What cancels stands at the other end of N, and elsewhere in its triple.
    indices = np.concatenate([triples, np.roll(triples, 1, axis=-1)], axis=1)
    weights = np.concatenate([factors, -np.roll(factors, 1, axis=-1)], axis=1)
    low, high = 1 << (_GRADIENT_BITS - 1), (1 << _GRADIENT_BITS) - _SPREAD
    base = draw.stream("base").integers(low, high, (batches, channels, 1))
    grad = base + draw.stream("grad_output").integers(0, _SPREAD, (batches, channels, points))
    made_of = made(params, dtype, shape, grad.astype("<f4"), indices, weights.astype("<f4"))
    # Every product and every sum of a cell, in any order, is a whole number that float32 holds.
    if np.abs(terms(**made_of.inputs)).sum(axis=0).max() > 1 << 24:
        raise ValueError("the terms need more than 24 bits")
    return made_of


def made(params: Params, dtype: DType, shape: Shape, grad: Array, indices: Array, weights: Array) -> RecipeOutput:
    """The inputs of a case that right kernels can meet."""
    batches, channels, cells, _ = shape
    met = contributions(indices)
    if dtype is DType.HALF and met.mean() > _MAX_HALVES:
        raise ValueError(f"{met.mean():.0f} contributions meet in a cell; half adds at most {_MAX_HALVES}")
    tested = max(1, _TESTED // (len(met) * int(met.max())))
    refuse_ill_conditioned(terms(grad[:, :tested], indices, weights), dtype, CRITERIA)
    return RecipeOutput(
        {"grad_output": grad, "indices": indices, "weights": weights},
        params,
        outputs={"grad_features": (batches, channels, cells)},
    )


def terms(grad_output: Array, indices: Array, weights: Array) -> Array:
    """float64 [T, n]: the products that meet in each cell that is named, padded with zeros."""
    most = _most_met(indices)
    columns = []
    for batch in zip(grad_output, indices, weights, strict=True):
        _, products = products_by_cell(*batch)
        padded = np.zeros((most, math.prod(products.shape[1:])))
        padded[: len(products)] = products.reshape(len(products), -1)
        columns.append(padded)
    return np.concatenate(columns, axis=1)


def _most_met(indices: Array) -> int:
    return int(contributions(indices).max())


# The recipe of special values: where NaN, infinities, zeros and subnormal numbers stand.


Kind = Literal[
    "grad_nan",
    "grad_inf",
    "grad_negative_inf",
    "weight_nan",
    "weight_inf",
    "weight_negative_inf",
    "zero_times_inf",
    "zero_times_nan",
    "inf_minus_inf",
    "overflow",
    "negative_zero",
    "subnormal",
]
_VALUES: Final = {"nan": np.nan, "inf": np.inf, "negative_inf": -np.inf}
# By bytes of the type: the square of it overflows, and the products of others with it do not.
_LARGE: Final = {2: 2.0**10, 4: 2.0**100}
_SUBNORMAL: Final = {2: 2.0**-16, 4: 2.0**-130}


def special(draw: Draw, params: Params, dtype: DType, *, shape: Shape, kind: Kind) -> RecipeOutput:
    """Random triples that leave one cell out; special values in every other channel of one point, or in one weight, so
    that most cells stay as they were and are still compared."""
    batches, channels, cells, points = shape
    made = drawn(draw, params, dtype, shape=(batches, channels, cells - 1, points), triples="random")
    grad, indices, weights = (made.inputs[name] for name in ("grad_output", "indices", "weights"))
    indices += indices >= cells // 2
    point = points // 2
    match kind:
        case "grad_nan" | "grad_inf" | "grad_negative_inf":
            grad[0, ::2, point] = _VALUES[kind.removeprefix("grad_")]
        case "weight_nan" | "weight_inf" | "weight_negative_inf":
            weights[0, point, 1] = _VALUES[kind.removeprefix("weight_")]
        case "zero_times_inf" | "zero_times_nan":
            grad[0, ::2, point], weights[0, point, 1] = _VALUES[kind.removeprefix("zero_times_")], 0
        case "inf_minus_inf":
            # Two points meet in a cell.
            indices[0, 0, 1] = indices[0, point, 1]
            grad[0, ::2, [0, point]], weights[0, 0, 1], weights[0, point, 1] = np.inf, 1, -1
        case "overflow":
            grad[0, ::2, point] = weights[0, point, 1] = _LARGE[grad.itemsize]
        case "negative_zero":
            grad[0, ::2, point], weights[0, point] = -0.0, -0.0
        case "subnormal":
            grad *= grad.dtype.type(_SUBNORMAL[grad.itemsize])
    return RecipeOutput(made.inputs, params, outputs={"grad_features": (batches, channels, cells)})


# What fuzzing draws.


# A device may take subnormal operands for 0.
SPACE = interpolation_space(special=tuple(kind for kind in get_args(Kind) if kind != "subnormal"))


RECIPES = {recipe.__name__: recipe for recipe in (nearest, drawn, listed, last_cells, cancelling, special)}
