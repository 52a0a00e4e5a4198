"""The kernel that the numpy backend runs: §3.1's tiles of points, float32 throughout."""

import numpy as np

from mluops_gtest.authoring import Array, DType, OpCall, Status, TensorArg

# Centres that are handled together, and distances held at a time: what fits into a second-level cache.
CENTRES = 1024
PAIRS = 1 << 18


def kernel(call: OpCall) -> Status:
    """Check the call, then fill the row of every centre tile by tile."""
    status, computes = _verdict(call)
    if computes:
        _query(call)
    return status


def _query(call: OpCall) -> None:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        shell = [np.square(np.float32(call.param(name))) for name in ("min_radius", "max_radius")]
        for centres, points, rows in zip(call.array("new_xyz"), call.array("xyz"), call.array("idx"), strict=True):
            cloud = np.ascontiguousarray(points.T, np.float32)
            for first in range(0, len(centres), CENTRES):
                block = slice(first, first + CENTRES)
                _fill(rows[block], centres[block].astype(np.float32), cloud, *shell)


def _fill(rows: Array, centres: Array, cloud: Array, low: np.float32, high: np.float32) -> None:
    """§3.1 step 9: the first hit fills its row, every later one overwrites the next entry until the row is full."""
    found = np.zeros(len(rows), np.int64)
    waiting = np.arange(len(rows))
    tile = PAIRS // len(rows)
    for base in range(0, cloud.shape[1], tile):
        x, y, z = cloud[:, base : base + tile, None]
        distance = (x - centres[waiting, 0]) ** 2
        distance += (y - centres[waiting, 1]) ** 2
        distance += (z - centres[waiting, 2]) ** 2
        inside = ((distance >= low) & (distance < high)) | (distance == 0)
        point, column = np.nonzero(inside)
        if len(point) == 0:
            continue
        # Centres in the columns: a stable sort keeps the points of each in ascending order.
        order = np.argsort(column, kind="stable")
        row, hit = waiting[column[order]], base + point[order]
        hits = np.bincount(row, minlength=len(rows))
        fresh = (found == 0) & (hits > 0)
        entry = found[row] + np.arange(len(row)) - (np.cumsum(hits) - hits)[row]
        leads = fresh[row] & (entry == 0)
        rows[row[leads]] = hit[leads, None]
        fits = entry < rows.shape[1]
        rows[row[fits], entry[fits]] = hit[fits]
        found += hits
        waiting = np.flatnonzero(found < rows.shape[1])
        if len(waiting) == 0:
            return


def _verdict(call: OpCall) -> tuple[Status, bool]:
    """The status, and whether there is anything to compute."""
    nsample = call.param("nsample")
    if not (call.param("min_radius") >= 0 and call.param("max_radius") >= 0 and nsample >= 0):
        return Status.BAD_PARAM, False
    new_xyz, xyz, idx = call.inputs["new_xyz"], call.inputs["xyz"], call.outputs["idx"]
    if call.handle is None or new_xyz is None or xyz is None or idx is None:
        return Status.BAD_PARAM, False
    if not _shapes_agree(new_xyz.dims, xyz.dims, idx.dims, nsample):
        return Status.BAD_PARAM, False
    tensors = (new_xyz, xyz, idx)
    if any(arg.desc.is_strided for arg in tensors):
        return Status.NOT_SUPPORTED, False
    if not _types_agree(*tensors):
        return Status.BAD_PARAM, False
    if any(arg.desc.is_large for arg in tensors) or (call.handle.arch <= 370 and xyz.desc.count > 536895360):
        return Status.NOT_SUPPORTED, False
    if new_xyz.desc.is_empty:
        return Status.BAD_PARAM, False
    if xyz.dims[1] == 0 or nsample == 0:
        return Status.SUCCESS, False
    if any(arg.null for arg in tensors):
        return Status.BAD_PARAM, False
    return Status.SUCCESS, True


def _shapes_agree(new_xyz: tuple[int, ...], xyz: tuple[int, ...], idx: tuple[int, ...], nsample: int) -> bool:
    if len(new_xyz) != 3 or len(xyz) != 3:
        return False
    return new_xyz[2] == xyz[2] == 3 and xyz[0] == new_xyz[0] and idx == (*new_xyz[:2], nsample)


def _types_agree(new_xyz: TensorArg, xyz: TensorArg, idx: TensorArg) -> bool:
    return new_xyz.dtype in (DType.HALF, DType.FLOAT) and xyz.dtype is new_xyz.dtype and idx.dtype is DType.INT32
