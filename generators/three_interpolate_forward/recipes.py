"""Recipes: which cells the points name, with which weights; `shape` is [B, C, M, N]."""

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
from . import CRITERIA

Shape = tuple[int, int, int, int]

# Products that the conditioning test looks at: small cases wholly, others by their first channels.
_TESTED: Final = 1 << 20
# What an output of the cancelling recipe keeps of the 24 bits of its terms is at most a thousandth.
_FACTOR_BITS, _FEATURE_BITS, _SPREAD = 11, 12, 16


def nearest(draw: Draw, params: Params, dtype: DType, *, shape: Shape) -> RecipeOutput:
    """The three nearest cells of every point of a cloud, weighted by their distances."""
    batches, channels, cells, points = shape
    indices, ideal = nearest_triples(draw, batches, cells, points)
    features, weights = network_operands(draw, "features", dtype, (batches, channels, cells), ideal, terms=3)
    return made(params, dtype, features, indices, weights)


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
    """Cells, weights and features of these kinds."""
    batches, channels, cells, points = shape
    indices = draw_triples(draw.stream("indices"), triples, batches, cells, points)
    weight_bits, feature_bits = exact_bits(dtype, terms=3)
    met = 1 if weights == "one_left" else 3
    factors = draw_values(draw.stream("weights"), values, dtype, indices.shape, weight_bits, terms=met)
    features = draw_values(
        draw.stream("features"), values, dtype, (batches, channels, cells), feature_bits, terms=met, sign=-1
    )
    return made(params, dtype, features, indices, changed_weights(draw.stream("changed"), weights, factors))


def listed(
    draw: Draw, params: Params, dtype: DType, *, shape: Shape, indices: tuple[int, ...], weights: tuple[int, ...]
) -> RecipeOutput:
    """The triples and the whole-numbered weights that the declaration lists, the same in every batch."""
    batches, channels, cells, points = shape
    if not len(indices) == len(weights) == 3 * points:
        raise ValueError(f"indices and weights need {3 * points} entries, three for each of {points} points")
    _, feature_bits = exact_bits(dtype, terms=3)
    features = draw_values(draw.stream("features"), "lattice", dtype, (batches, channels, cells), feature_bits)
    triples, factors = (
        np.tile(np.array(entries, storage).reshape(points, 3), (batches, 1, 1))
        for entries, storage in ((indices, "<i4"), (weights, dtype.storage))
    )
    return made(params, dtype, features, triples, factors)


def last_cells(draw: Draw, params: Params, dtype: DType, *, shape: Shape, named: int) -> RecipeOutput:
    """The points name the last cells alone; all other features are 0."""
    batches, channels, cells, points = shape
    weight_bits, feature_bits = exact_bits(dtype, terms=3)
    features = np.zeros((batches, channels, cells), dtype.storage)
    features[..., cells - named :] = draw.stream("features").lattice(
        (batches, channels, named), feature_bits, dtype=dtype.storage.str
    )
    indices = draw_triples(draw.stream("indices"), "even", batches, named, points) + np.int32(cells - named)
    weights = draw.stream("weights").lattice(indices.shape, weight_bits, dtype=dtype.storage.str)
    return made(params, dtype, features, indices, weights)


def cancelling(draw: Draw, params: Params, dtype: DType, *, shape: Shape) -> RecipeOutput:
    """Weights a, −a and 1, and features of all parities that differ little: what is left of 24 bits is exact in float32
    and lost where inputs, products or sums have fewer bits."""
    if dtype is not DType.FLOAT:
        raise ValueError(f"no {dtype.value} holds the 24 bits that cancel")
    batches, channels, cells, points = shape
    if cells < 3:
        raise ValueError("three different cells are needed for each point")
    indices = draw_triples(draw.stream("indices"), "random", batches, cells, points)
    low, high = 1 << (_FEATURE_BITS - 1), (1 << _FEATURE_BITS) - _SPREAD
    base = draw.stream("base").integers(low, high, (batches, channels, 1))
    features = base + draw.stream("features").integers(0, _SPREAD, (batches, channels, cells))
    factor = draw.stream("weights").integers(1 << (_FACTOR_BITS - 1), 1 << _FACTOR_BITS, (batches, points))
    # No order of the three is special.
    order = np.argsort(draw.stream("order").lanes(indices.size).reshape(indices.shape), axis=-1, kind="stable")
    weights = np.take_along_axis(np.stack([factor, -factor, np.ones_like(factor)], axis=-1), order, axis=-1)
    made_of = made(params, dtype, features.astype("<f4"), indices, weights.astype("<f4"))
    # Every product and every sum of the three, in any order, is a whole number that float32 holds.
    if np.abs(terms(**made_of.inputs)).sum(axis=0).max() > 1 << 24:
        raise ValueError("the terms need more than 24 bits")
    return made_of


def made(params: Params, dtype: DType, features: Array, indices: Array, weights: Array) -> RecipeOutput:
    """The inputs of a case that right kernels can meet."""
    tested = max(1, _TESTED // max(1, indices.size))
    refuse_ill_conditioned(terms(features[:, :tested], indices, weights), dtype, CRITERIA)
    return RecipeOutput({"features": features, "indices": indices, "weights": weights}, params)


def terms(features: Array, indices: Array, weights: Array) -> Array:
    """float64 [3, B·C·N]: the products that each output adds."""
    chosen = np.stack([batch.astype(np.float64)[:, cells.T] for batch, cells in zip(features, indices, strict=True)])
    products: Array = chosen * weights.transpose(0, 2, 1)[:, None].astype(np.float64)
    return np.moveaxis(products, 2, 0).reshape(3, -1)


# The recipe of special values: where NaN, infinities, zeros and subnormal numbers stand.


# idle_…: in a cell that no point names, where nothing may show.
Kind = Literal[
    "feature_nan",
    "feature_inf",
    "feature_negative_inf",
    "weight_nan",
    "weight_inf",
    "weight_negative_inf",
    "idle_nan",
    "idle_inf",
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
    """Random triples; special values in every other channel of one cell, or in one weight, so that most outputs stay
    as they were and are still compared."""
    batches, channels, cells, points = shape
    made = drawn(draw, params, dtype, shape=(batches, channels, cells - 1, points), triples="random")
    idle = cells // 2
    indices = made.inputs["indices"]
    indices += indices >= idle
    features = np.insert(made.inputs["features"], idle, 1, axis=2)
    weights = made.inputs["weights"]
    point = points // 2
    first, cell, _ = indices[0, point]
    if first == cell or (indices[0] == cell).any(axis=1).all():
        raise ValueError("some points must not name the special cell; give more cells or points")
    match kind:
        case "feature_nan" | "feature_inf" | "feature_negative_inf":
            features[0, ::2, cell] = _VALUES[kind.removeprefix("feature_")]
        case "weight_nan" | "weight_inf" | "weight_negative_inf":
            weights[0, point, 1] = _VALUES[kind.removeprefix("weight_")]
        case "idle_nan" | "idle_inf":
            features[..., idle] = _VALUES[kind.removeprefix("idle_")]
        case "zero_times_inf" | "zero_times_nan":
            features[0, ::2, cell], weights[0, point, 1] = _VALUES[kind.removeprefix("zero_times_")], 0
        case "inf_minus_inf":
            features[0, ::2, cell], features[0, ::2, first], weights[0, point, :2] = np.inf, -np.inf, 1
        case "overflow":
            features[0, ::2, cell] = weights[0, point, 1] = _LARGE[features.itemsize]
        case "negative_zero":
            features[0, ::2, cell], weights[0, point] = -0.0, -0.0
        case "subnormal":
            features *= features.dtype.type(_SUBNORMAL[features.itemsize])
    return RecipeOutput({"features": features, "indices": indices, "weights": weights}, params)


# What fuzzing draws.


# A device may take subnormal operands for 0.
SPACE = interpolation_space(special=tuple(kind for kind in get_args(Kind) if kind != "subnormal"))


RECIPES = {recipe.__name__: recipe for recipe in (nearest, drawn, listed, last_cells, cancelling, special)}
