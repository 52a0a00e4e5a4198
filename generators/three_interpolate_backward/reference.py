"""The oracle: all products that meet in a cell, added exactly and rounded once; and the figures for efficiency."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Baseline, OpCall, Theory
from mluops_gtest.authoring.rows import scattered
from mluops_gtest.authoring.sums import exact_sums, largest_magnitude, lattice_exponent, sums_are_exact

# Products or sums in progress: 512 KiB of float64 stay in the cache.
_BLOCK: Final = 1 << 16
# The same where sums are exact whatever cancels: products sorted by cell for each block, so that blocks are larger.
_EXACT_BLOCK: Final = 1 << 21


def reference(call: OpCall) -> Baseline:
    """grad_features, the same bits on every machine."""
    grad, indices, weights = (call.array(name) for name in ("grad_output", "indices", "weights"))
    result = np.empty(call.tensor("grad_features").dims, grad.dtype)
    add = scatter if _float64_is_exact(grad, indices, weights) else _one_by_one
    # A sum beyond the largest number becomes infinite, and infinite inputs may make NaN: answers, not accidents.
    with np.errstate(over="ignore", invalid="ignore"):
        for batch in range(len(grad)):
            add(result[batch], grad[batch], indices[batch], weights[batch])
    # Which NaN an operation gives differs between processors.
    np.copyto(result, result.dtype.type(np.nan), where=np.isnan(result))
    return Baseline({"grad_features": result})


def scatter(result: Array, grad: Array, indices: Array, weights: Array) -> None:
    """Write the sums of one batch, added in float64 in the order of points."""
    channels, cells = result.shape
    step = max(1, min(channels, _BLOCK // max(indices.size, cells)))
    factors = weights.astype(np.float64)
    for first in range(0, channels, step):
        rows = grad[first : first + step].astype(np.float64)
        # A product of two float32 values has at most 48 bits: float64 holds it. Every contribution counts, also those
        # of one triple to one cell. A cell that nobody names is 0, whatever the buffer held: no document asks the
        # caller to clear it, only mmcv needs that.
        result[first : first + step] = scattered(rows, indices, factors, cells)


def _one_by_one(result: Array, grad: Array, indices: Array, weights: Array) -> None:
    result[...] = 0
    met = np.bincount(indices.reshape(-1))
    step = max(1, _EXACT_BLOCK // int(met.max() * np.count_nonzero(met)))
    for first in range(0, len(grad), step):
        cells, products = products_by_cell(grad[first : first + step], indices, weights)
        sums = exact_sums(products.reshape(len(products), -1)).reshape(len(cells), -1)
        result[first : first + step, cells] = sums.T


def products_by_cell(grad: Array, indices: Array, weights: Array) -> tuple[Array, Array]:
    """The cells that a batch names, ascending, and their products as float64 [T, cells, C], padded with zeros."""
    order = np.argsort(indices, axis=None, kind="stable")
    cells, starts, counts = np.unique(indices.reshape(-1)[order], return_index=True, return_counts=True)
    place = np.repeat(np.arange(len(cells)), counts)
    rank = np.arange(len(order)) - np.repeat(starts, counts)
    products = np.zeros((counts.max(), len(cells), len(grad)))
    products[rank, place] = grad.T[order // 3].astype(np.float64) * weights.reshape(-1, 1)[order].astype(np.float64)
    return cells, products


def contributions(indices: Array) -> Array:
    """How many entries name each cell, for the cells of all batches that any does."""
    batches = np.arange(len(indices), dtype=np.int64)[:, None, None]
    counts: Array = np.unique((batches << 32) + indices, return_counts=True)[1]
    return counts


def _float64_is_exact(grad: Array, indices: Array, weights: Array) -> bool:
    exponent = lattice_exponent(grad) + lattice_exponent(weights)
    largest = largest_magnitude(grad) * largest_magnitude(weights)
    return sums_are_exact(exponent, largest, int(contributions(indices).max()))


def theory(call: OpCall) -> Theory:
    """All four tensors once; three products and three additions per gradient."""
    tensors = (*call.inputs, *call.outputs)
    grad = call.tensor("grad_output")
    return Theory(sum(call.tensor(name).desc.nbytes for name in tensors), 6 * grad.desc.count)
