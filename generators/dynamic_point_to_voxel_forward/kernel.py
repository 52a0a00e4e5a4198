"""The float32 implementation that the numpy backend runs: ranks column by column, then a tournament in each voxel."""

from collections.abc import Callable

import numpy as np

from mluops_gtest.authoring import Array, OpCall, Status

from .kernel_checks import early_status


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
