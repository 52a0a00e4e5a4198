"""The kernel that the numpy backend runs: §3.3's split by points, float32 throughout."""

import numpy as np

from mluops_gtest.authoring import (
    Array,
    DType,
    OpCall,
    Status,
    TensorArg,
)

# The kernel that the numpy backend runs: §3.3's split by points, float32 throughout.


# Points that one task takes at a time.
TILE = 4096
OLDEST_ARCH = 370


def kernel(call: OpCall) -> Status:
    """Check the call, then add every tile's sums to the cells and memorise where its points went."""
    status = _status(call)
    if status is Status.SUCCESS:
        _pool(call)
    return status


def _pool(call: OpCall) -> None:
    points, channels = call.param("num_points"), call.param("num_channels")
    total = call.param("batch_size") * points
    geometry = call.array("geom_xyz").reshape(total, 3)
    features = call.array("input_features").reshape(total, channels)
    cells = call.array("output_features").reshape(-1, channels)
    memo = call.array("pos_memo").reshape(total, 3)
    cells[...] = 0
    for first in range(0, total, TILE):
        tile = slice(first, first + TILE)
        x, y, z = geometry[tile].T
        inside = (x >= 0) & (x < call.param("num_voxel_x"))
        inside &= (y >= 0) & (y < call.param("num_voxel_y"))
        inside &= (z >= 0) & (z < call.param("num_voxel_z"))
        batch = np.arange(first, first + len(x)) // points
        # §3.1 step 5 in one go: a factor 0 leaves −1 where the point does not count.
        memo[tile] = (np.stack([batch, y, x], axis=1) + 1) * inside[:, None] - 1
        _add_tile(cells, _cells(call, batch, y, x)[inside], features[tile], np.flatnonzero(inside))


def _cells(call: OpCall, batch: Array, y: Array, x: Array) -> Array:
    """§3.1 step 6.1, where 64 bits cannot overflow."""
    height, width = int(call.param("num_voxel_y")), int(call.param("num_voxel_x"))
    return (batch * height + y.astype(np.int64)) * width + x.astype(np.int64)


def _add_tile(cells: Array, index: Array, features: Array, points: Array) -> None:
    """One addition per cell that the tile touches, in place of an atomic one per point."""
    if len(points) == 0:
        return
    order = np.argsort(index, kind="stable")
    touched, firsts = np.unique(index[order], return_index=True)
    with np.errstate(invalid="ignore", over="ignore"):
        cells[touched] += np.add.reduceat(features[points[order]], firsts, axis=0)


def _status(call: OpCall) -> Status:
    geometry, features = call.inputs["geom_xyz"], call.inputs["input_features"]
    output, memo = call.outputs["output_features"], call.outputs["pos_memo"]
    if call.handle is None or geometry is None or features is None or output is None or memo is None:
        return Status.BAD_PARAM
    tensors = (geometry, features, output, memo)
    if not _shapes_agree(call, *tensors):
        return Status.BAD_PARAM
    if any(arg.desc.is_strided or arg.desc.is_large for arg in tensors):
        return Status.NOT_SUPPORTED
    if any(arg.null for arg in tensors):
        return Status.BAD_PARAM
    return Status.SUCCESS if call.handle.arch >= OLDEST_ARCH else Status.ARCH_MISMATCH


def _shapes_agree(call: OpCall, geometry: TensorArg, features: TensorArg, output: TensorArg, memo: TensorArg) -> bool:
    if geometry.dtype is not DType.INT32 or memo.dtype is not DType.INT32:
        return False
    if features.dtype is not DType.FLOAT or output.dtype is not DType.FLOAT:
        return False
    batches, points, channels = (call.param(name) for name in ("batch_size", "num_points", "num_channels"))
    width, height, depth = (call.param(f"num_voxel_{axis}") for axis in "xyz")
    return (
        geometry.dims == memo.dims == (batches, points, 3)
        and features.dims == (batches, points, channels)
        and output.dims == (batches, height, width, channels)
        and min(batches, points, channels, width, height, depth) > 0
    )
