"""Σx and Σx² in float64, the same on any number of threads."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from mluops_gtest.model.dtypes import Array

# Short enough that BLAS, which is under np.vecdot, starts no threads of its own (they would fight ours), and that a
# row of ones stays in the first-level cache.
_ROW: Final = 2000
_ONES: Final = np.ones(_ROW)

# Σx and Σx²: of the differences the numerators of diff1 and diff2, of the baseline their denominators.
Sums = tuple[float, float]
NO_SUMS: Final = (0.0, 0.0)


def sums(numbers: Array) -> list[Sums]:
    """Σx and Σx² of every row of non-negative numbers."""
    count, length = numbers.shape
    whole = length - length % _ROW
    if length > whole > 0:
        parts = zip(sums(numbers[:, :whole]), sums(numbers[:, whole:]), strict=True)
        return [(total((x, y)), total((x2, y2))) for (x, x2), (y, y2) in parts]
    rows = numbers.reshape(count, -1, _ROW if whole else length)
    plain, squares = _dots(rows, _ONES[: rows.shape[2]]).tolist(), _dots(rows, rows).tolist()
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
