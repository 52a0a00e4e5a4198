"""The float32 implementation that the numpy backend runs: leaders first, then the contested rest backwards."""

import numpy as np

from mluops_gtest.authoring import (
    DType,
    OpCall,
    Status,
    TensorArg,
)

# The float32 implementation that the numpy backend runs: leaders first, then the contested rest backwards.


_FLOATS = ("grad_voxel_feats", "feats", "voxel_feats", "grad_feats")
_INTS = ("point2voxel_map", "voxel_points_count", "voxel_num")
_ORDER = ("grad_voxel_feats", "feats", "voxel_feats", *_INTS, "grad_feats")
_ROWS = 256  # voxels per step: the gathered rows stay in cache


def kernel(call: OpCall) -> Status:
    """Checks in the released order, then the gradients, written in place."""
    if call.handle is None:
        return Status.BAD_PARAM
    if call.handle.arch < 370:
        return Status.ARCH_MISMATCH
    tensors: dict[str, TensorArg] = {}
    for name in _ORDER:
        arg = {**call.inputs, **call.outputs}[name]
        if arg is None:
            return Status.BAD_PARAM
        tensors[name] = arg
    if any(arg.desc.is_strided for arg in tensors.values()):
        return Status.NOT_SUPPORTED
    if not _shapes_fit(tensors) or call.param("reduce_type") != 2:
        return Status.BAD_PARAM
    if any(arg.desc.is_large for arg in tensors.values()):
        return Status.NOT_SUPPORTED
    points, channels = tensors["feats"].dims
    if points * 5 + channels * 4 * 5 + 4 > call.handle.nram_bytes:
        return Status.BAD_PARAM
    if points == 0 or channels == 0:
        return Status.SUCCESS
    if any(arg.null and not arg.desc.is_empty for arg in tensors.values()):
        return Status.BAD_PARAM
    if call.workspace is None and call.workspace_size:
        return Status.BAD_PARAM
    _compute(call)
    return Status.SUCCESS


def _shapes_fit(tensors: dict[str, TensorArg]) -> bool:
    dims = {name: arg.dims for name, arg in tensors.items()}
    if any(tensors[name].dtype is not DType.FLOAT or len(dims[name]) != 2 for name in _FLOATS):
        return False
    if any(tensors[name].dtype is not DType.INT32 or len(dims[name]) != 1 for name in _INTS):
        return False
    voxels, channels = dims["grad_voxel_feats"]
    points = dims["feats"][0]
    wanted = {
        "grad_voxel_feats": (voxels, channels),
        "feats": (points, channels),
        "voxel_feats": (voxels, channels),
        "point2voxel_map": (points,),
        "voxel_points_count": (voxels,),
        "voxel_num": (1,),
        "grad_feats": (points, channels),
    }
    return dims == wanted and points >= voxels


def _compute(call: OpCall) -> None:
    """The lowest point of a voxel leads: where it matches, nobody else can win. Only the (voxel, channel) cells
    that the leader misses are contested; written from the last point to the first, the lowest one stays."""
    grad_feats = call.array("grad_feats")
    grad_feats[...] = 0
    voxel_of = call.array("point2voxel_map")
    points = np.flatnonzero((voxel_of >= 0) & (voxel_of < call.array("voxel_num")[0]))
    if not points.size:
        return
    feats, voxel_feats = call.array("feats"), call.array("voxel_feats")
    gradient = call.array("grad_voxel_feats")
    rows, channels = voxel_feats.shape

    backwards = points[::-1]
    leader = np.full(rows, -1, np.int64)
    leader[voxel_of[backwards]] = backwards  # a repeated index keeps its last value
    led = np.flatnonzero(leader >= 0)
    contested = np.zeros((rows, channels), bool)
    for start in range(0, led.size, _ROWS):
        voxels = led[start : start + _ROWS]
        missed = feats[leader[voxels]] != voxel_feats[voxels]
        contested[voxels] = missed
        # All ones where the leader matches: an AND keeps the gradient's bits or leaves +0.
        mask = missed.astype("<u4") - np.uint32(1)
        grad_feats[leader[voxels]] = (gradient[voxels].view("<u4") & mask).view("<f4")

    followers = backwards[leader[voxel_of[backwards]] != backwards]
    owner = np.full((rows, channels), -1, np.int32)
    for start in range(0, followers.size, _ROWS):
        block = followers[start : start + _ROWS]
        voxels = voxel_of[block]
        row, channel = np.nonzero((feats[block] == voxel_feats[voxels]) & contested[voxels])
        owner[voxels[row], channel] = block[row]
    voxel, channel = np.nonzero(owner >= 0)
    grad_feats[owner[voxel, channel], channel] = gradient[voxel, channel]
