"""The kernel that the numpy backend runs: §3.1's transposed tiles, contributions sorted by cell, float32 throughout."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, DType, Layout, OpCall, Status, TensorArg

# Channels that are on the chip at a time.
CHANNELS: Final = 64


def kernel(call: OpCall) -> Status:
    """Check the call, then add up the contributions to every cell."""
    status, computes = _verdict(call)
    if computes:
        for batch in range(call.tensor("grad_output").dims[0]):
            _accumulate(call, batch)
    return status


def _accumulate(call: OpCall, batch: int) -> None:
    grad, result = call.array("grad_output")[batch], call.array("grad_features")[batch]
    entries = call.array("indices")[batch].reshape(-1)
    by_cell = np.argsort(entries, kind="stable")
    starts = np.flatnonzero(np.diff(entries[by_cell], prepend=-1))
    cells, points = entries[by_cell[starts]], by_cell // 3
    weights = call.array("weights")[batch].reshape(-1)[by_cell, None].astype(np.float32)
    for first in range(0, len(grad), CHANNELS):
        channels = slice(first, first + CHANNELS)
        # §3.1 step 6: points are rows, so that a contribution is one run of memory.
        tile: Array = np.ascontiguousarray(grad[channels].T, dtype=np.float32)
        # Infinite gradients and weights give what IEEE says; a sum beyond the largest half becomes infinite.
        with np.errstate(over="ignore", invalid="ignore"):
            result[channels] = 0
            result[channels, cells] = np.add.reduceat(tile[points] * weights, starts, axis=0).T


def _verdict(call: OpCall) -> tuple[Status, bool]:
    """The status, and whether there is anything to compute."""
    grad, indices, weights = (call.inputs[name] for name in ("grad_output", "indices", "weights"))
    result = call.outputs["grad_features"]
    if call.handle is None or grad is None or indices is None or weights is None or result is None:
        return Status.BAD_PARAM, False
    tensors = (grad, indices, weights, result)
    if not _types_agree(*tensors) or not _shapes_agree(*tensors):
        return Status.BAD_PARAM, False
    if any(arg.desc.is_strided or arg.desc.is_large for arg in tensors):
        return Status.NOT_SUPPORTED, False
    if 0 in grad.dims:
        return Status.BAD_PARAM, False
    if result.dims[2] == 0:
        return Status.SUCCESS, False
    if any(arg.null for arg in tensors):
        return Status.BAD_PARAM, False
    return Status.SUCCESS, True


def _types_agree(grad: TensorArg, indices: TensorArg, weights: TensorArg, result: TensorArg) -> bool:
    layouts = {arg.layout for arg in (grad, indices, weights, result)}
    return (
        layouts == {Layout.ARRAY}
        and indices.dtype is DType.INT32
        and grad.dtype is weights.dtype is result.dtype
        and weights.dtype in (DType.HALF, DType.FLOAT)
    )


def _shapes_agree(grad: TensorArg, indices: TensorArg, weights: TensorArg, result: TensorArg) -> bool:
    if len(grad.dims) != 3 or len(result.dims) != 3:
        return False
    batches, channels, points = grad.dims
    return indices.dims == weights.dims == (batches, points, 3) and result.dims[:2] == (batches, channels)
