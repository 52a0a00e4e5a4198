"""Rows multiplied with matrices and gathered where they are summed, in float32: for kernels, apart from references."""

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from mluops_gtest.core.tensor import Array

# Gathered values per block of rows: 4 MiB of float32, however many offsets and channels there are.
_BLOCK_VALUES: Final = 1 << 20


def gather_sums(
    rows: Array, matrices: Array, pairs: Array, counts: Sequence[int], result: Array, *, to: Literal[0, 1]
) -> None:
    """Write to each row of `result` the sum of the rows that it meets, times their matrices, [K·I, O] in one array.

    `to` is the side of indice_pairs that names rows of `result`.
    """
    partners = _partners(pairs, counts, to, len(result), nobody=len(rows))
    # Zeros for a partner that is missing are harmless only where the matrices are finite: 0 · ∞ is NaN.
    gather = _all_offsets_at_once if np.isfinite(matrices).all() else _offset_by_offset
    # Rounding a sum beyond the largest half gives an infinity, as the device does.
    with np.errstate(over="ignore", invalid="ignore"):
        gather(rows, matrices, partners, result)


def _partners(pairs: Array, counts: Sequence[int], to: int, count: int, nobody: int) -> Array:
    """[count, K]: the row that a row of the result meets at each offset, `nobody` where it meets none."""
    partners = np.full((count, len(counts)), nobody, np.int32)
    for k, used in enumerate(counts):
        partners[pairs[k, to, :used], k] = pairs[k, 1 - to, :used]
    return partners


def _all_offsets_at_once(rows: Array, matrices: Array, partners: Array, result: Array) -> None:
    """One product per block of rows; a row of zeros behind the last one stands for nobody."""
    padded = np.concatenate([rows, np.zeros((1, rows.shape[1]), np.float32)])
    step = max(1, _BLOCK_VALUES // len(matrices))
    for start in range(0, len(result), step):
        block = partners[start : start + step]
        result[start : start + step] = padded[block].reshape(len(block), -1) @ matrices


def _offset_by_offset(rows: Array, matrices: Array, partners: Array, result: Array) -> None:
    """Only rows that have a partner are multiplied."""
    sums = np.zeros(result.shape, np.float32)
    for column, matrix in zip(partners.T, np.split(matrices, partners.shape[1]), strict=True):
        met = np.flatnonzero(column < len(rows))
        sums[met] += rows[column[met]] @ matrix
    result[...] = sums
