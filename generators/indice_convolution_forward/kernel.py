"""An implementation that shares nothing with the reference: float32, gathers per output row, scatters nothing."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Layout, OpCall, Status

from .kernel_checks import refusal

# Gathered values per block of output rows: 4 MiB of float32, whatever K and Ci are.
_BLOCK_VALUES: Final = 1 << 20


def kernel(call: OpCall) -> Status:
    """Answer the status of the call and, where it computes, write features_out."""
    status = refusal(call)
    if status is not None:
        return status
    features = call.array("features").astype(np.float32, copy=False)
    weights = _stacked_weights(call.array("filters"), call.tensor("filters").layout)
    result = call.array("features_out")
    sources = _sources(call.array("indice_pairs"), call.param("indice_num"), len(result), nobody=len(features))
    # Zeros for a source that is missing are harmless only where the weights are finite: 0 · ∞ is NaN.
    gather = _all_offsets_at_once if np.isfinite(weights).all() else _offset_by_offset
    # Rounding a sum beyond the largest half gives an infinity, as the device does.
    with np.errstate(over="ignore", invalid="ignore"):
        gather(features, weights, sources, result)
    return Status.SUCCESS


def _all_offsets_at_once(features: Array, weights: Array, sources: Array, result: Array) -> None:
    """One product per block of output rows; a row of zeros behind the last one stands for nobody."""
    padded = np.concatenate([features, np.zeros((1, features.shape[1]), np.float32)])
    step = max(1, _BLOCK_VALUES // len(weights))
    for start in range(0, len(result), step):
        block = sources[start : start + step]
        result[start : start + step] = padded[block].reshape(len(block), -1) @ weights


def _offset_by_offset(features: Array, weights: Array, sources: Array, result: Array) -> None:
    """Only rows that have a source are multiplied."""
    sums = np.zeros(result.shape, np.float32)
    for column, weight in zip(sources.T, np.split(weights, sources.shape[1]), strict=True):
        met = np.flatnonzero(column < len(features))
        sums[met] += features[column[met]] @ weight
    result[...] = sums


def _stacked_weights(filters: Array, layout: Layout) -> Array:
    """[K·Ci, Co] float32: under each other the matrices that input rows are multiplied with."""
    if layout is Layout.NDHWC:
        stacked = filters.reshape(filters.shape[0], -1).T
    elif layout is Layout.NCDHW:
        stacked = np.moveaxis(filters.reshape(*filters.shape[:2], -1), 2, 0).swapaxes(1, 2).reshape(-1, len(filters))
    else:
        stacked = filters.reshape(-1, filters.shape[4])
    return np.ascontiguousarray(stacked, np.float32)


def _sources(pairs: Array, counts: tuple[int, ...], rows_out: int, nobody: int) -> Array:
    """[Y, K]: the input row that an output row receives from at each offset, `nobody` where there is none."""
    sources = np.full((rows_out, len(counts)), nobody, np.int32)
    for k, count in enumerate(counts):
        sources[pairs[k, 1, :count], k] = pairs[k, 0, :count]
    return sources
