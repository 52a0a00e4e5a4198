"""Σx and Σx² in float64, the same on any number of threads."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from mluops_gtest.model.dtypes import Array

# BLAS, which is under np.vecdot, starts threads of its own for longer rows, and they would fight ours.
_ROW: Final = 1 << 13
_ONES: Final = np.ones(_ROW)

# Σx and Σx²: of the differences the numerators of diff1 and diff2, of the baseline their denominators.
Sums = tuple[float, float]
NO_SUMS: Final = (0.0, 0.0)


def sums(numbers: Array) -> list[Sums]:
    """Σx and Σx² of every row of non-negative numbers; rows are not empty."""
    count, length = numbers.shape
    whole = length - length % _ROW
    pieces = [p for p in (numbers[:, :whole].reshape(count, -1, _ROW), numbers[:, None, whole:]) if p.size]
    plain = np.concatenate([_dots(p, _ONES[: p.shape[2]]) for p in pieces], axis=1).tolist()
    squares = np.concatenate([_dots(p, p) for p in pieces], axis=1).tolist()
    return [(total(x), total(x2)) for x, x2 in zip(plain, squares, strict=True)]


def total(parts: Sequence[float]) -> float:
    """The correctly rounded sum of non-negative numbers; infinite where it leaves float64."""
    try:
        return math.fsum(parts)
    except OverflowError:
        return math.inf


def _einsum_dots(x: Array, y: Array) -> Array:
    dots: Array = np.einsum("...i,...i->...", x, y)
    return dots


# np.vecdot came with numpy 2.0; einsum takes four times as long.
_dots = getattr(np, "vecdot", _einsum_dots)
