"""How inputs are drawn. What a case writes under `data` are the keyword arguments."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput

# So few bits that the sum of 2^15 rows is exact even in float32.
_BITS = 8


def scattered(draw: Draw, params: Params, dtype: DType, *, rows: int, channels: int) -> RecipeOutput:
    """Rows that belong to any segment."""
    complete = _complete(params)
    segments = draw.stream("segments").integers(0, complete["num_segments"], rows)
    return _output(_lattice(draw, dtype, rows, channels), segments, complete)


def listed(draw: Draw, params: Params, dtype: DType, *, segments: tuple[int, ...], channels: int) -> RecipeOutput:
    """Rows that belong to these segments."""
    complete = _complete(params)
    return _output(_lattice(draw, dtype, len(segments), channels), np.array(segments, np.int64), complete)


def cancelling(draw: Draw, params: Params, dtype: DType, *, terms: int, channels: int) -> RecipeOutput:
    """In each segment a big value, `terms` small ones of full precision, then the big one with a minus sign."""
    complete = _complete(params)
    shape = (terms, complete["num_segments"], channels)
    small = draw.stream("values").mantissas(shape, exponents=(-3, 0), dtype=dtype.storage.str)
    # A sum in half loses the small values; one in float32 keeps them within the criteria of §4.
    big = np.full((1, *shape[1:]), 16 if dtype is DType.FLOAT else 256, dtype.storage)
    values = np.concatenate([big, small, -big]).reshape(-1, channels)
    return _output(values, np.tile(np.arange(shape[1]), terms + 2), complete)


def _complete(params: Params) -> dict[str, Any]:
    """Every parameter, also where the case does not declare it."""
    return {"num_segments": 4, **params}


def _lattice(draw: Draw, dtype: DType, rows: int, channels: int) -> Array:
    return draw.stream("values").lattice((rows, channels), _BITS, dtype=dtype.storage.str)


def _output(values: Array, segments: Array, params: Params) -> RecipeOutput:
    return RecipeOutput({"values": values, "segments": segments.astype("<i4")}, params)


RECIPES: Mapping[str, Any] = {"scattered": scattered, "listed": listed, "cancelling": cancelling}
