"""An implementation that shares nothing with the reference: float32, gathers per input row, scatters nothing."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Layout, OpCall, Status

from .kernel_checks import refusal

# Gathered values per block of input rows: 4 MiB of float32, whatever K and Co are.
_BLOCK_VALUES: Final = 1 << 20


def kernel(call: OpCall) -> Status:
    """Answer the status of the call and, where it computes, write input_grad."""
    status = refusal(call)
    if status is not None:
        return status
    grad = call.array("output_grad").astype(np.float32, copy=False)
    weights = _stacked_weights(call.array("filters"), call.tensor("filters").layout)
    partners = _partners(call.array("indice_pairs"), call.param("indice_num"), len(grad))
    # Zeros for a partner that is missing are harmless only where the weights are finite: 0 · ∞ is NaN.
    gather = _all_offsets_at_once if np.isfinite(weights).all() else _offset_by_offset
    # Rounding a sum beyond the largest half gives an infinity, as the device does.
    with np.errstate(over="ignore", invalid="ignore"):
        gather(grad, weights, partners, call.array("input_grad"))
    return Status.SUCCESS


def _all_offsets_at_once(grad: Array, weights: Array, partners: Array, result: Array) -> None:
    """One product per block of input rows; a row of zeros behind the last one stands for nobody."""
    padded = np.concatenate([grad, np.zeros((1, grad.shape[1]), np.float32)])
    step = max(1, _BLOCK_VALUES // len(weights))
    for start in range(0, len(result), step):
        block = partners[start : start + step]
        result[start : start + step] = padded[block].reshape(len(block), -1) @ weights


def _offset_by_offset(grad: Array, weights: Array, partners: Array, result: Array) -> None:
    """Only rows that have a partner are multiplied."""
    sums = np.zeros(result.shape, np.float32)
    for column, weight in zip(partners.T, np.split(weights, partners.shape[1]), strict=True):
        met = np.flatnonzero(column < len(grad))
        sums[met] += grad[column[met]] @ weight
    result[...] = sums


def _stacked_weights(filters: Array, layout: Layout) -> Array:
    """[K·Co, Ci] float32: under each other the matrices that output rows are multiplied with."""
    dims = filters.shape
    match layout:
        case Layout.NHWC | Layout.NDHWC:
            by_offset = filters.reshape(dims[0], -1, dims[-1]).swapaxes(0, 1)
        case Layout.NCHW | Layout.NCDHW:
            by_offset = np.moveaxis(filters.reshape(dims[0], dims[1], -1), 2, 0)
        case _:
            by_offset = filters.reshape(-1, dims[-2], dims[-1]).swapaxes(1, 2)
    return by_offset.reshape(-1, by_offset.shape[2]).astype(np.float32)


def _partners(pairs: Array, counts: tuple[int, ...], nobody: int) -> Array:
    """[L, K]: the output row that an input row meets at each offset, `nobody` where it meets none."""
    partners = np.full((pairs.shape[2], len(counts)), nobody, np.int32)
    for k, count in enumerate(counts):
        partners[pairs[k, 0, :count], k] = pairs[k, 1, :count]
    return partners
