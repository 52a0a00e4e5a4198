"""The kernel that the numpy backend runs: §3.1's split into tiles of points and channels, float32 throughout."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import DType, Layout, OpCall, Status, TensorArg

# Points and channels that are on the chip at a time.
POINTS: Final = 4096
CHANNELS: Final = 64


def kernel(call: OpCall) -> Status:
    """Check the call, then interpolate tile by tile."""
    status, computes = _verdict(call)
    if computes:
        for batch in range(call.tensor("output").dims[0]):
            _interpolate(call, batch)
    return status


def _interpolate(call: OpCall, batch: int) -> None:
    features, output = call.array("features")[batch], call.array("output")[batch]
    indices, weights = call.array("indices")[batch], call.array("weights")[batch].astype(np.float32, copy=False)
    for point in range(0, len(indices), POINTS):
        points = slice(point, point + POINTS)
        for channel in range(0, len(features), CHANNELS):
            channels = slice(channel, channel + CHANNELS)
            tile = features[channels].astype(np.float32, copy=False)
            # Infinite features and weights give what IEEE says; a sum beyond the largest half becomes infinite.
            with np.errstate(over="ignore", invalid="ignore"):
                # §3.1 steps 6 to 9: choose a column per point, scale it, add it; three times.
                total = tile[:, indices[points, 0]] * weights[points, 0]
                for neighbour in (1, 2):
                    total += tile[:, indices[points, neighbour]] * weights[points, neighbour]
                output[channels, points] = total


def _verdict(call: OpCall) -> tuple[Status, bool]:
    """The status, and whether there is anything to compute."""
    features, indices, weights = (call.inputs[name] for name in ("features", "indices", "weights"))
    output = call.outputs["output"]
    if call.handle is None or features is None or indices is None or weights is None or output is None:
        return Status.BAD_PARAM, False
    tensors = (features, indices, weights, output)
    if not _types_agree(*tensors) or not _shapes_agree(*tensors):
        return Status.BAD_PARAM, False
    if any(arg.desc.is_strided or arg.desc.is_large for arg in tensors):
        return Status.NOT_SUPPORTED, False
    if 0 in output.dims:
        return Status.BAD_PARAM, False
    if features.dims[2] == 0:
        return Status.SUCCESS, False
    if any(arg.null for arg in tensors):
        return Status.BAD_PARAM, False
    return Status.SUCCESS, True


def _types_agree(features: TensorArg, indices: TensorArg, weights: TensorArg, output: TensorArg) -> bool:
    layouts = {arg.layout for arg in (features, indices, weights, output)}
    return (
        layouts == {Layout.ARRAY}
        and indices.dtype is DType.INT32
        and features.dtype is weights.dtype is output.dtype
        and weights.dtype in (DType.HALF, DType.FLOAT)
    )


def _shapes_agree(features: TensorArg, indices: TensorArg, weights: TensorArg, output: TensorArg) -> bool:
    if len(features.dims) != 3 or len(indices.dims) != 3:
        return False
    batches, channels, _ = features.dims
    points = indices.dims[1]
    return indices.dims == weights.dims == (batches, points, 3) and output.dims == (batches, channels, points)
