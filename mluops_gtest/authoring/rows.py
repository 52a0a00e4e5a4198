"""Rows that lie anywhere, in float64: gathered and added, with the native core and without it to the same bits."""

from typing import Final

import numpy as np

from mluops_gtest.base.native.arrays import (
    native_add_rows,
    native_add_wide_rows,
    native_blend,
    native_distances,
    native_gather_rows,
    native_give,
    native_scatter,
)
from mluops_gtest.core.tensor import Array

__all__ = [
    "add_rows",
    "blended",
    "native_add_rows",
    "native_distances",
    "native_give",
    "scattered",
    "wide_rows",
]

# As many terms per point the native core blends and scatters.
_NATIVE_TERMS: Final = 3


def wide_rows(rows: Array, sources: Array, out: Array | None = None) -> Array:
    """float64 [n, W], contiguous, in `out` where there is one: the float32 rows that `sources` names."""
    wide = np.empty((len(sources), rows.shape[1]), np.float64) if out is None else out
    if not native_gather_rows(rows, sources, wide):
        wide[...] = rows[sources]
    return wide


def add_rows(sums: Array, targets: Array, rows: Array) -> None:
    """sums[targets[n]] += rows[n], one after the other; all float64 and contiguous."""
    if native_add_wide_rows(sums, targets, rows):
        return
    # An indexed += adds only once to a row that occurs twice.
    if (targets[1:] > targets[:-1]).all():
        sums[targets] += rows
    else:
        np.add.at(sums, targets, rows)


def blended(rows: Array, cells: Array, weights: Array) -> Array:
    """float64 [R, N]: the sum over t of rows[r, cells[t, n]] · weights[t, n], in order.

    float64 [R, M], int32 [T, N] and float64 [T, N].
    """
    sums = np.empty((len(rows), cells.shape[1]), np.float64)
    if len(cells) == _NATIVE_TERMS and native_blend(rows, cells, weights, sums):
        return sums
    # All cells exist, and "clip" spares the check of each.
    np.multiply(rows.take(cells[0], axis=1, mode="clip"), weights[0], out=sums)
    for of, weight in zip(cells[1:], weights[1:], strict=True):
        sums += rows.take(of, axis=1, mode="clip") * weight
    return sums


def scattered(rows: Array, cells: Array, weights: Array, count: int) -> Array:
    """float64 [R, count]: cell cells[n, t] of row r sums rows[r, n] · weights[n, t], one product after the other.

    float64 [R, N], int32 [N, T] and float64 [N, T].
    """
    sums = np.zeros((len(rows), count), np.float64)
    if cells.shape[1] == _NATIVE_TERMS and native_scatter(rows, cells, weights, sums):
        return sums
    places = np.arange(len(rows))[:, None] * count + cells.reshape(-1)
    products = rows[:, :, None] * weights
    return np.bincount(places.reshape(-1), products.reshape(-1), sums.size).reshape(sums.shape)
