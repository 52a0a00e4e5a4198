"""The float32 implementation that the numpy backend runs: ranks column by column, then a tournament in each voxel."""

from collections.abc import Callable

import numpy as np

from mluops_gtest.authoring import (
    Array,
    DType,
    OpCall,
    Status,
    TensorArg,
)

# What the kernel answers before it computes: written from the document, not from the list of checks.


_FLOATS = ("feats", "voxel_feats")
_TABLES = ("feats", "coors", "voxel_feats", "voxel_coors")
_ORDER = (*_TABLES, "point2voxel_map", "voxel_points_count", "voxel_num")


def early_status(call: OpCall) -> Status | None:
    """The status of a call that is refused or has nothing to do; None where it must be computed."""
    if call.handle is None:
        return Status.BAD_PARAM
    if call.handle.arch < 370:
        return Status.ARCH_MISMATCH
    given = {**call.inputs, **call.outputs}
    tensors = {name: arg for name in _ORDER if (arg := given[name]) is not None}
    if len(tensors) < len(_ORDER):
        return Status.BAD_PARAM
    if any(len(arg.dims) != (2 if name in _TABLES else 1) for name, arg in tensors.items()):
        return Status.BAD_PARAM
    if any(arg.desc.is_strided for arg in tensors.values()):
        return Status.NOT_SUPPORTED
    if any(arg.dtype is not (DType.FLOAT if name in _FLOATS else DType.INT32) for name, arg in tensors.items()):
        return Status.BAD_PARAM
    if call.param("reduce_type") not in (1, 2) or not _shapes_fit(tensors):
        return Status.BAD_PARAM
    if max(tensors["feats"].desc.count, tensors["coors"].desc.count) >= 1 << 31:
        return Status.NOT_SUPPORTED
    if 0 in tensors["feats"].dims:
        return Status.SUCCESS
    if call.workspace_size and call.workspace is None:
        return Status.BAD_PARAM
    return Status.BAD_PARAM if any(arg.null for arg in tensors.values()) else None


def _shapes_fit(tensors: dict[str, TensorArg]) -> bool:
    points, channels = tensors["feats"].dims
    rows = tensors["voxel_feats"].dims[0]
    wanted = {
        "feats": (points, channels),
        "coors": (points, 3),
        "voxel_feats": (rows, channels),
        "voxel_coors": (rows, 3),
        "point2voxel_map": (points,),
        "voxel_points_count": (rows,),
        "voxel_num": (1,),
    }
    return rows <= points and all(arg.dims == wanted[name] for name, arg in tensors.items())


# The float32 implementation that the numpy backend runs: ranks column by column, then a tournament in each voxel.


def kernel(call: OpCall) -> Status:
    """Check the call, then follow the four steps of §1.2; coors itself is left as it is."""
    early = early_status(call)
    if early is None:
        _compute(call)
    return Status.SUCCESS if early is None else early


def _compute(call: OpCall) -> None:
    coors = call.array("coors")
    coors = np.where(coors.min(axis=1, keepdims=True) < 0, np.int32(-1), coors)
    rows, voxel_of, counts = _unique(coors)
    if rows[0, 0] < 0:
        rows, counts = rows[1:], counts[1:]
        voxel_of -= 1
    voxels = len(rows)
    call.array("voxel_num")[...] = voxels
    call.array("point2voxel_map")[...] = voxel_of
    call.array("voxel_coors")[:voxels] = rows
    call.array("voxel_points_count")[:voxels] = counts
    voxel_feats = call.array("voxel_feats")
    with np.errstate(invalid="ignore", over="ignore"):
        if call.param("reduce_type") == 2:
            winners = _tournament(call.array("feats"), voxel_of, np.fmax)
            # A maximum begins at −Inf: that is what a voxel without any number keeps.
            np.fmax(winners, np.float32(-np.inf), out=voxel_feats[:voxels])
        else:
            sums = _tournament(call.array("feats"), voxel_of, np.add)
            np.divide(sums, counts[:, None].astype(np.float32), out=voxel_feats[:voxels])


def _unique(coors: Array) -> tuple[Array, Array, Array]:
    """The distinct rows in ascending order, the position of every row among them, and how often each occurs."""
    rank = np.zeros(len(coors), np.int64)
    for column in coors.T:
        # Rows that are equal so far share a rank, which the next column refines: both factors are at most N.
        levels, place = np.unique(column, return_inverse=True)
        _, rank = np.unique(rank * len(levels) + place, return_inverse=True)
    counts = np.bincount(rank)
    rows = np.empty((len(counts), 3), np.int32)
    rows[rank] = coors
    return rows, rank, counts


def _tournament(feats: Array, voxel_of: Array, meet: Callable[[Array, Array], Array]) -> Array:
    """Neighbours in a voxel meet in pairs, round after round, until every voxel has one row left."""
    points = np.argsort(voxel_of, kind="stable")[np.count_nonzero(voxel_of < 0) :]
    rows, voxels = feats[points], voxel_of[points]
    while (together := voxels[1:] == voxels[:-1]).any():
        places = np.arange(len(voxels))
        firsts = np.append(True, ~together)
        odd = (places - np.maximum.accumulate(np.where(firsts, places, 0))) % 2 == 1
        second = np.flatnonzero(odd)
        rows[second - 1] = meet(rows[second - 1], rows[second])
        rows, voxels = rows[~odd], voxels[~odd]
    return rows
