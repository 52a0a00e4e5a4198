"""Recipes: which cells the points name, with which weights; `shape` is [B, C, M, N]."""

import math
from typing import Final

import numpy as np

from mluops_gtest.authoring import Draw, DType, Params, RecipeOutput

from .._shared.interpolation import Shape, draw_triples, interpolation_space
from . import DIRECTION

# What a cell of the cancelling recipe keeps of the 24 bits of its terms is at most a thousandth.
_FACTOR_BITS, _GRADIENT_BITS, _SPREAD = 11, 12, 16


def cancelling(draw: Draw, params: Params, dtype: DType, *, shape: Shape) -> RecipeOutput:
    """The points of the second half take back what those of the first half added, but for a few bits: what is left of
    24 bits is exact in float32 and lost where inputs, products or sums have fewer bits."""
    if dtype is not DType.FLOAT:
        raise ValueError(f"no {dtype.value} holds the 24 bits that cancel")
    batches, channels, cells, points = shape
    if points % 2:
        raise ValueError("the points come in pairs; give an even number")
    triples = draw_triples(draw.stream("indices"), "even", batches, cells, points // 2)
    bits = _FACTOR_BITS - math.ceil(math.log2(DIRECTION.most_met(triples)))
    factors = draw.stream("weights").integers(1 << (bits - 1), 1 << bits, triples.shape)
    # What cancels stands at the other end of N, and elsewhere in its triple.
    indices = np.concatenate([triples, np.roll(triples, 1, axis=-1)], axis=1)
    weights = np.concatenate([factors, -np.roll(factors, 1, axis=-1)], axis=1)
    low, high = 1 << (_GRADIENT_BITS - 1), (1 << _GRADIENT_BITS) - _SPREAD
    base = draw.stream("base").integers(low, high, (batches, channels, 1))
    grad = base + draw.stream("grad_output").integers(0, _SPREAD, (batches, channels, points))
    return DIRECTION.exactly_made(params, dtype, shape, indices, grad, weights)


RECIPES: Final = {**DIRECTION.recipes, "cancelling": cancelling}
SPACE: Final = interpolation_space(DIRECTION)
