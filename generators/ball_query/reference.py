"""The oracle: every centre against every point in float64; and the figures for efficiency."""

from collections.abc import Callable, Iterator

import numpy as np

from mluops_gtest.authoring import Array, Baseline, OpCall, Theory

from .._shared.points import squared_distances

# Distances held at a time: 512 KiB of float64 stay in the cache.
_PAIRS = 1 << 16


def reference(call: OpCall) -> Baseline:
    """The first nsample points in the shell of every centre; 0 where there is none, as the caller leaves it (§1.2)."""
    batches, centres, _ = call.tensor("new_xyz").dims
    idx = np.zeros((batches, centres, call.param("nsample")), "<i4")
    for batch, rows, inside in shells(call):
        idx[batch, rows] = first_inside(inside, call.param("nsample"))
    return Baseline({"idx": idx})


def empty_rows(call: OpCall) -> Array:
    """bool [B, M]: no point is in the shell, so the row keeps what the caller put there."""
    empty = np.empty(call.tensor("new_xyz").dims[:2], bool)
    for batch, rows, inside in shells(call):
        empty[batch, rows] = ~inside.any(axis=1)
    return empty


def squared_radii(call: OpCall) -> tuple[np.float32, np.float32]:
    """The bounds of the shell as the device has them: float products of floats."""
    # §1.3's inner and outer diameter are radii. A square that overflows is infinite: every finite distance is below.
    with np.errstate(over="ignore", under="ignore"):
        low, high = (np.square(np.float32(call.param(name))) for name in ("min_radius", "max_radius"))
    return low, high


def blocks(call: OpCall) -> Iterator[tuple[int, slice, slice]]:
    """Batches, centres and points in blocks of bounded size: all points of some centres before the next centres."""
    batches, centres, _ = call.tensor("new_xyz").dims
    points = call.tensor("xyz").dims[1]
    height = max(1, _PAIRS // points)
    for batch in range(batches):
        for row in range(0, centres, height):
            for point in range(0, points, _PAIRS):
                yield batch, slice(row, min(row + height, centres)), slice(point, min(point + _PAIRS, points))


def in_shell(distance: Array, low: np.float32, high: np.float32) -> Array:
    """bool: the squared distance is one of the shell between these squared radii."""
    # §3.1 step 6: a coincident point always counts, also where the shell excludes it (the prose forgets it);
    # min_radius itself is inside, max_radius is not; min_radius may be the larger one, then nothing else counts.
    # NaN fails all three, Inf is never below the upper bound.
    inside: Array = (distance == 0) | ((distance >= low) & (distance < high))
    return inside


def shells(
    call: OpCall, holds: Callable[[Array, np.float32, np.float32], Array] = in_shell
) -> Iterator[tuple[int, slice, Array]]:
    """Some centres of a batch at a time, with bool [m, N]: the point lies in the centre's shell."""
    new_xyz, xyz = call.array("new_xyz"), call.array("xyz")
    low, high = squared_radii(call)
    inside = np.empty((0, 0), bool)
    for batch, rows, columns in blocks(call):
        if columns.start == 0:
            inside = np.empty((rows.stop - rows.start, xyz.shape[1]), bool)
        # Exact on lattices. Elsewhere float64 errs by some 2^-50, and legal data keep much farther from both bounds
        # (precondition.py): this is the answer of exact arithmetic.
        distance = squared_distances(new_xyz[batch, rows], xyz[batch, columns])
        inside[:, columns] = holds(distance, low, high)
        if columns.stop == xyz.shape[1]:
            yield batch, rows, inside


def first_inside(inside: Array, nsample: int) -> Array:
    """int32 [m, nsample]: the columns that are inside, ascending; the first of them again behind the last (§3.1)."""
    rows, width = inside.shape
    # By index within the batch, not by distance: the hits of a row stand side by side.
    hits = np.flatnonzero(inside)
    bounds = np.searchsorted(hits, np.arange(rows + 1) * width)
    found = bounds[:-1] < bounds[1:]
    first, behind = bounds[:-1][found, None], bounds[1:][found, None]
    place = first + np.arange(nsample)
    idx = np.zeros((rows, nsample), "<i4")
    idx[found] = hits[np.where(place < behind, place, first)] % width
    return idx


def theory(call: OpCall) -> Theory:
    """Eight operations for each distance and two comparisons; all three tensors are touched."""
    batches, centres, _ = call.tensor("new_xyz").dims
    points = call.tensor("xyz").dims[1]
    touched = sum(call.tensor(name).desc.nbytes for name in ("new_xyz", "xyz", "idx"))
    return Theory(io_bytes=touched, ops=10 * batches * centres * points)
