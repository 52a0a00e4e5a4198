"""The kernel that the numpy backend runs: §3.1 in float32, tile by tile, three minima each."""

import numpy as np

from mluops_gtest.authoring import Array, DType, OpCall, Status, TensorArg

# §3.1's split: known points of a tile, and pairs that meet at once: 256 KiB of distances stay in the cache.
TILE, PAIRS = 4096, 1 << 16


def kernel(call: OpCall) -> Status:
    """Check the call, then write the three nearest of every unknown point."""
    status, computes = _verdict(call)
    if computes:
        unknown, known = (call.array(name).astype(np.float32, copy=False) for name in ("unknown", "known"))
        step = PAIRS // min(TILE, known.shape[1])
        for batch in range(len(unknown)):
            # Step 1: one row per axis.
            axes = np.ascontiguousarray(known[batch].T)
            for first in range(0, unknown.shape[1], step):
                rows = slice(first, first + step)
                dist2, idx = _nearest(unknown[batch, rows], axes)
                call.array("dist2")[batch, rows] = dist2
                call.array("idx")[batch, rows] = idx
    return status


def _nearest(points: Array, axes: Array) -> tuple[Array, Array]:
    """Three distances and indices per point: those of each tile are sorted in behind those of the tiles before."""
    dist2 = np.full((len(points), 3), np.inf, np.float32)
    idx = np.zeros((len(points), 3), np.int64)
    for base in range(0, axes.shape[1], TILE):
        values, places = _minima(_distances(points, axes[:, base : base + TILE]))
        values, places = np.hstack([dist2, values]), np.hstack([idx, places + base])
        # Stable: of equal distances the earlier tile's come first.
        order = np.argsort(values, axis=1, kind="stable")[:, :3]
        dist2, idx = np.take_along_axis(values, order, axis=1), np.take_along_axis(places, order, axis=1)
    idx[np.isinf(dist2)] = 0
    return dist2, idx


def _distances(points: Array, axes: Array) -> Array:
    """float32 [rows, tile]; +Inf where the pair has none."""
    with np.errstate(over="ignore", invalid="ignore"):
        total: Array = points[:, 0, None] - axes[0]
        total *= total
        for axis in (1, 2):
            difference = points[:, axis, None] - axes[axis]
            difference *= difference
            total += difference
    # NaN − x and Inf − Inf are NaN, which argmin would take for the least.
    total[np.isnan(total)] = np.inf
    return total


def _minima(distances: Array) -> tuple[Array, Array]:
    """Step 5: take the first least three times, and blank it in the distances each time."""
    rows = np.arange(len(distances))
    values, places = np.empty((len(rows), 3), np.float32), np.empty((len(rows), 3), np.int64)
    for rank in range(3):
        place = distances.argmin(axis=1)
        values[:, rank], places[:, rank] = distances[rows, place], place
        distances[rows, place] = np.inf
    return values, places


def _verdict(call: OpCall) -> tuple[Status, bool]:
    """The status, and whether there is anything to compute."""
    unknown, known = call.inputs["unknown"], call.inputs["known"]
    dist2, idx = call.outputs["dist2"], call.outputs["idx"]
    if call.handle is None or unknown is None or known is None or dist2 is None or idx is None:
        return Status.BAD_PARAM, False
    tensors = (unknown, known, dist2, idx)
    if not _shapes_agree(*tensors) or not _types_agree(*tensors):
        return Status.BAD_PARAM, False
    if any(arg.desc.is_strided or arg.desc.is_large for arg in tensors):
        return Status.NOT_SUPPORTED, False
    if unknown.desc.is_empty:
        return Status.BAD_PARAM, False
    if known.desc.is_empty:
        return Status.SUCCESS, False
    if (call.workspace is None and call.workspace_size > 0) or any(arg.null for arg in tensors):
        return Status.BAD_PARAM, False
    return Status.SUCCESS, True


def _shapes_agree(unknown: TensorArg, known: TensorArg, dist2: TensorArg, idx: TensorArg) -> bool:
    if len(unknown.dims) != 3 or len(known.dims) != 3:
        return False
    batch, queries, _ = unknown.dims
    return (
        unknown.dims[2] == 3
        and (known.dims[0], known.dims[2]) == (batch, 3)
        and dist2.dims == idx.dims == (batch, queries, 3)
    )


def _types_agree(unknown: TensorArg, known: TensorArg, dist2: TensorArg, idx: TensorArg) -> bool:
    return (
        unknown.dtype in (DType.FLOAT, DType.HALF)
        and known.dtype is dist2.dtype is unknown.dtype
        and idx.dtype is DType.INT32
    )
