"""Σx and Σx² in float64, in one fixed order: the same bits on any machine, on any number of threads, natively or not.

Parts are cut into cells of 128 rows of 256. Part i of a cell belongs to lane i mod 256, and each lane adds its parts
one after the other. Then the upper half of the lanes is added to the lower half, until one is left. Sums of cells are
added exactly and rounded once. Products are rounded before they are added; parts that do not count are zeros.
"""

import math
from collections.abc import Iterable
from typing import Final

import numpy as np

from mluops_gtest.model.dtypes import Array
from mluops_gtest.native.comparing import CELL, LANES, ROWS

# Σx and Σx² of each cell: of the differences the numerators of diff1 and diff2, of the baseline their denominators.
Sums = tuple[list[float], list[float]]
NO_SUMS: Final[Sums] = ([], [])


def sums(numbers: Array, count: int) -> list[Sums]:
    """Σx and Σx² of each of the first `count` rows, which are not negative, as lists with an entry per cell.

    The squares are written into as many rows behind them: to sum all rows at once takes half as many calls.
    """
    np.multiply(numbers[:count], numbers[:count], out=numbers[count : 2 * count])
    found = cell_sums(numbers[: 2 * count])
    return list(zip(found[:count], found[count:], strict=True))


def cell_sums(numbers: Array) -> list[list[float]]:
    """Of every row the sums of its cells."""
    count, length = numbers.shape
    cells = length // CELL
    lanes = np.zeros((count, -(-length // CELL), LANES))
    if cells:
        # A reduction over an axis that is not the last adds row by row.
        np.add.reduce(numbers[:, : cells * CELL].reshape(count, cells, ROWS, LANES), axis=2, out=lanes[:, :cells])
    if length > cells * CELL:
        rest = numbers[:, cells * CELL :]
        whole = rest.shape[1] // LANES * LANES
        if whole:
            np.add.reduce(rest[:, :whole].reshape(count, -1, LANES), axis=1, out=lanes[:, cells])
        lanes[:, cells, : rest.shape[1] - whole] += rest[:, whole:]
    # Lanes first: half of them is one piece of memory then, and added in half the time.
    lanes = lanes.reshape(-1, LANES).T.copy()
    width = LANES
    while width > 1:
        width //= 2
        # Lanes beyond a short array are zeros, which change no sum.
        lanes = lanes[:width] + lanes[width:] if length > width else lanes[:width]
    found: list[list[float]] = lanes[0].reshape(count, -1).tolist()
    return found


def joined(blocks: Iterable[Sums]) -> Sums:
    """The sums of all cells of these blocks."""
    plain: list[float] = []
    squares: list[float] = []
    for of_block in blocks:
        plain += of_block[0]
        squares += of_block[1]
    return plain, squares


def total(parts: Iterable[float]) -> float:
    """The correctly rounded sum of non-negative numbers; infinite where it leaves float64."""
    try:
        return math.fsum(parts)
    except OverflowError:
        return math.inf
