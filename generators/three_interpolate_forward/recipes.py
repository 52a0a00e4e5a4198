"""Recipes: which cells the points name, with which weights; `shape` is [B, C, M, N]."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import Draw, DType, Params, RecipeOutput

from .._shared.interpolation import Shape, draw_triples, interpolation_space
from . import DIRECTION

# What an output of the cancelling recipe keeps of the 24 bits of its terms is at most a thousandth.
_FACTOR_BITS, _FEATURE_BITS, _SPREAD = 11, 12, 16


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
    return DIRECTION.exactly_made(params, dtype, shape, indices, features, weights)


RECIPES: Final = {**DIRECTION.recipes, "cancelling": cancelling}
SPACE: Final = interpolation_space(DIRECTION)
