"""The oracle: which points count, where they go, and their exact sums; and the figures for efficiency."""

import numpy as np

from mluops_gtest.authoring import Array, Baseline, OpCall, Theory

from .pooling import pooled


def reference(call: OpCall) -> Baseline:
    """output_features and pos_memo of a valid call."""
    geometry, features = call.array("geom_xyz"), call.array("input_features")
    width, height, depth = (call.param(f"num_voxel_{axis}") for axis in "xyz")
    batches, points, channels = features.shape
    rows = np.flatnonzero(counted(geometry, width, height, depth))
    batch = rows // points
    x, y, _ = geometry.reshape(-1, 3).take(rows, axis=0).T
    # §3.2's listing and not §3.1's copy: (batch, y, x), counted from 0; −1 where the point does not count.
    memo = np.full((batches * points, 3), -1, "<i4")
    memo[rows, 0], memo[rows, 1], memo[rows, 2] = batch, y, x
    cells = (batch * height + y) * width + x
    sums = pooled(features.reshape(batches * points, channels), rows, cells, batches * height * width)
    output = sums.reshape(batches, height, width, channels)
    return Baseline({"output_features": output, "pos_memo": memo.reshape(geometry.shape)})


def counted(geometry: Array, width: int, height: int, depth: int) -> Array:
    """bool [B, N]: the point lies in the grid; all depths of it fold into one cell."""
    # §3.1's `> 0` would drop every point of a grid with one layer; §3.2's listing is right: 0 is inside.
    # A negative coordinate, read without its sign, is at least 2^31 and so outside every axis.
    unsigned = geometry.view("<u4")
    inside: Array = unsigned[..., 0] < np.uint32(width)
    inside &= unsigned[..., 1] < np.uint32(height)
    inside &= unsigned[..., 2] < np.uint32(depth)
    return inside


def theory(call: OpCall) -> Theory:
    """All coordinates, the features and memos of the points that count, all cells; one add per counted feature."""
    geometry, features = call.array("geom_xyz"), call.tensor("input_features")
    inside = counted(geometry, *(call.param(f"num_voxel_{axis}") for axis in "xyz"))
    added = int(np.count_nonzero(inside)) * features.dims[2]
    touched = call.tensor("geom_xyz").desc.nbytes + call.tensor("output_features").desc.nbytes
    memos = 3 * int(np.count_nonzero(inside)) * 4
    return Theory(io_bytes=touched + added * features.dtype.itemsize + memos, ops=added)
