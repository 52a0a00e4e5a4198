"""Boxes cut into cells: which points lie in which cell, and sums that are rounded once; for both directions.

N boxes, P points, X·Y·Z cells in a box, K entries for a cell, C channels; § is a section of forward's document.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np

from mluops_gtest.authoring import Array, DType, OpCall, ParamField, ParamMessage
from mluops_gtest.authoring.sums import assert_conditioned

from .boxes import BoxTest, blocks, is_on_lattice, local

MAX, AVERAGE = 0, 1
GRID: Final = ("out_x", "out_y", "out_z")
FLOATS: Final = (DType.FLOAT, DType.HALF)
CELLS: Final = "boxes_num, out_x, out_y, out_z"
OLDEST_ARCH: Final = 370
# How far the cell of a point may be off: so much of what the local coordinate adds up, and of the number of cells.
_ERROR: Final = {DType.FLOAT: 2e-6, DType.HALF: 2.0**-8}
# Half sums of 127 values are off by up to 1.6e-3 of 3e-3.
_ROOM: Final = {DType.FLOAT: 4.0, DType.HALF: 1.5}
# Terms that the conditioning test looks at.
_TESTED: Final = 1 << 20


def roiaware_params(field: str, number: int, message: str, *names: str) -> ParamMessage:
    """pool_method and these, none of which is less than 1; K is 128 where nothing is said."""
    others = (
        ParamField(name, n, least=1, default=128 if name == "max_pts_each_voxel" else 0)
        for n, name in enumerate(names, 2)
    )
    return ParamMessage(
        field, number, message, (ParamField("pool_method", 1, default=0, allowed=(MAX, AVERAGE)), *others)
    )


# Which cell a point lies in.


def coordinates(points: Array, boxes: Array, grid: Array) -> Array:
    """float64 [E, 3]: where points [E, 3] lie in their boxes [E, 7], in cells."""
    x, y, z = local(points, boxes, bottom=False)
    sizes = boxes[:, 3:6].astype(np.float64)
    # cz is that of the bottom face (§1.2's text): z counts from there.
    from_corner = np.stack([x, y, z], axis=1) + sizes * (0.5, 0.5, 0.0)
    with np.errstate(all="ignore"):
        cells: Array = from_corner / (sizes / grid)
    return cells


def clamp(cells: Array, grid: Array) -> Array:
    """int64 [E]: the cell in its box. §3.2 drops what leaves the grid, the top face with it; code and mmcv clamp."""
    return flat(np.clip(np.trunc(cells), 0, grid - 1), grid)


def flat(cells: Array, grid: Array) -> Array:
    """int64 [E]: cells [E, 3] in the order x, y, z."""
    i, j, k = np.nan_to_num(cells).astype(np.int64).T
    numbers: Array = (i * int(grid[1]) + j) * int(grid[2]) + k
    return numbers


@dataclass(frozen=True, slots=True)
class CellTest(BoxTest):
    """Which points are inside a box, and in which of its cells; −1 is none."""

    # §1.2's text and code; its formula |z − cz| ≤ dz/2 forgets that cz is at the bottom. No side is widened.
    bottom: bool = True
    grid: tuple[int, ...] = (1, 1, 1)
    place: Callable[[Array, Array], Array] = clamp

    def undecided(self, points: Array, boxes: Array, dtype: DType) -> Array:
        """bool: some evaluation in that type may find another answer, or another cell."""
        undecided = BoxTest.undecided(self, points, boxes, dtype)
        inside = self.inside(points, boxes)
        if inside.any():
            own, theirs = (np.broadcast_to(side, (*inside.shape, side.shape[-1]))[inside] for side in (points, boxes))
            undecided[inside] |= self._near_border(own, theirs, dtype)
        return undecided

    def _near_border(self, points: Array, boxes: Array, dtype: DType) -> Array:
        grid = np.array(self.grid, np.float64)
        cells = coordinates(points, boxes, grid)
        sizes = boxes[:, 3:6].astype(np.float64)
        across = np.abs(points[:, :2].astype(np.float64) - boxes[:, :2]).sum(axis=1) + np.abs(sizes[:, :2]).sum(axis=1)
        along = np.abs(points[:, 2].astype(np.float64)) + np.abs(boxes[:, 2]) + np.abs(sizes[:, 2])
        with np.errstate(all="ignore"):
            error = _ERROR[dtype] * (np.stack([across, across, along], axis=1) / (sizes / grid) + grid)
            # On a lattice a cell whose length is a power of two is found without rounding.
            exact = (np.frexp(sizes / grid)[0] == 0.5) & is_on_lattice(points, boxes, dtype)[:, None]
            border = np.clip(np.rint(cells), 1, grid - 1)
            near = (grid > 1) & ~exact & ~(np.abs(cells - border) >= error)
            # 0/0: a point in a box without height.
            near |= ~np.isfinite(cells)
        is_near: Array = near.any(axis=1)
        return is_near


def cell_test(params: Any) -> CellTest:
    """The test of a call with these parameters."""
    return CellTest(grid=tuple(int(params[name]) for name in GRID))


class Entries(NamedTuple):
    """Points in cells, by cell and then by index: the number of the cell among those of all boxes, and of the point."""

    cells: Array
    points: Array

    @property
    def is_first(self) -> Array:
        """bool [E]: the first of its cell."""
        return np.concatenate([[True], self.cells[1:] != self.cells[:-1]])[: len(self.cells)]

    @property
    def starts(self) -> Array:
        """int64 [G]: where cells that have points begin."""
        return np.flatnonzero(self.is_first)

    @property
    def groups(self) -> Array:
        """int64 [E]: which of those cells it is."""
        return np.cumsum(self.is_first) - 1

    @property
    def ranks(self) -> Array:
        """int64 [E]: how many of the cell come before."""
        return np.arange(len(self.cells)) - self.starts[self.groups]

    @property
    def counts(self) -> Array:
        """int64 [G]: how many each of those cells has."""
        return np.diff(self.starts, append=len(self.cells))

    def first(self, most: int) -> "Entries":
        """The first so many of each cell."""
        is_kept = self.ranks < most
        return Entries(self.cells[is_kept], self.points[is_kept])


def find_entries(points: Array, boxes: Array, test: CellTest) -> Entries:
    """All points [P, 3] in the cells of boxes [N, 7]."""
    pairs = [np.empty((0, 2), np.int64)]
    for _, some, block in blocks(points[None], boxes[None]):
        pairs.append(np.argwhere(test.inside(block, boxes)) + np.array((some.start, 0)))
    point, box = np.concatenate(pairs).T
    grid = np.array(test.grid, np.int64)
    cell = test.place(coordinates(points[point], boxes[box], grid), grid)
    numbers = np.where(cell < 0, -1, box * int(grid.prod()) + cell)
    order = np.argsort(numbers, kind="stable")[np.count_nonzero(numbers < 0) :]
    return Entries(numbers[order], point[order])


def table(entries: Entries, shape: tuple[int, ...]) -> Array:
    """pts_idx_of_voxels int32 [N, X, Y, Z, K]: the count, the points, zeros."""
    rows = np.zeros((int(np.prod(shape[:-1])), shape[-1]), "<i4")
    rows[entries.cells[entries.starts], 0] = entries.counts
    rows[entries.cells, 1 + entries.ranks] = entries.points
    return rows.reshape(shape)


def pool_max(features: Array, entries: Entries, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """The largest feature and its point, the first of equals; +0 and −1 where there is none, or −Inf alone."""
    pooled, argmax = np.zeros((int(np.prod(shape[:-1])), shape[-1]), features.dtype), None
    argmax = np.full(pooled.shape, -1, "<i4")
    if len(entries.cells):
        starts = entries.starts
        values = features[entries.points].astype(np.float32)
        best = np.maximum.reduceat(values, starts, axis=0)
        rank = np.where(values == best[entries.groups], entries.ranks[:, None], len(values))
        first = np.minimum(np.minimum.reduceat(rank, starts, axis=0) + starts[:, None], len(values) - 1)
        where = entries.cells[starts]
        # mmcv starts at −1e50, which is −Inf: a maximum of −Inf is none.
        argmax[where] = np.where(best == -np.inf, -1, entries.points[first])
        pooled[where] = np.where(best == -np.inf, 0, best)
    return pooled.reshape(shape), argmax.reshape(shape)


def mean_magnitudes(features: Array, entries: Entries, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """float64 [N, X, Y, Z, C] and [N, X, Y, Z, 1]: Σ|terms| / c and c, 0 in cells without points."""
    magnitudes, counts = np.zeros((int(np.prod(shape[:-1])), shape[-1])), np.zeros((int(np.prod(shape[:-1])), 1))
    if len(entries.cells):
        where, each = entries.cells[entries.starts], entries.counts[:, None]
        values = np.abs(features[entries.points]).astype(np.float64)
        magnitudes[where], counts[where] = np.add.reduceat(values, entries.starts, axis=0) / each, each
    return magnitudes.reshape(shape), counts.reshape(*shape[:-1], 1)


def pool_average(features: Array, entries: Entries, shape: tuple[int, ...]) -> Array:
    """Σ/c, exact and rounded once; +0 in cells without points."""
    pooled = np.zeros((int(np.prod(shape[:-1])), shape[-1]), features.dtype)
    if len(entries.cells):
        starts, counts = entries.starts, entries.counts[:, None]
        values = features[entries.points].astype(np.float64)
        with np.errstate(invalid="ignore"):
            means = np.add.reduceat(values, starts, axis=0) / counts
        # float64 adds halves exactly, and no mean of so few is nearer to the middle of two halves than it tells.
        doubt = 0.0
        if features.dtype.itemsize > 2:
            doubt = np.add.reduceat(np.abs(values), starts, axis=0) / counts * (counts + 4) * 2.0**-53

        def exactly(group: int, channel: int) -> Fraction:
            terms = values[starts[group] : starts[group] + counts[group, 0], channel]
            return sum(map(Fraction, terms.tolist()), Fraction(0)) / int(counts[group, 0])

        pooled[entries.cells[starts]] = rounded_once(means, doubt, exactly, features.dtype)
    return pooled.reshape(shape)


def rounded_once(
    values: Array, doubt: Array | float, exactly: Callable[[int, int], Fraction], storage: np.dtype[Any]
) -> Array:
    """float64 [n, C], each off by at most its doubt, as the exact values are rounded; NaN has one pattern."""
    with np.errstate(all="ignore"):
        rounded = values.astype(storage)
        is_unsure = ((values - doubt).astype(storage) != (values + doubt).astype(storage)) & np.isfinite(values)
    for row, column in np.argwhere(is_unsure).tolist():
        rounded[row, column] = _to_odd(exactly(row, column))
    np.copyto(rounded, storage.type(np.nan), where=np.isnan(rounded))
    return rounded


def _to_odd(value: Fraction) -> float:
    """The float64, or the one beside it whose last bit is set: narrowing that rounds as if once."""
    near = float(value)
    if Fraction(near) != value and np.float64(near).view(np.uint64) & np.uint64(1) == 0:
        near = float(np.nextafter(near, np.inf if Fraction(near) < value else -np.inf))
    return near


def assert_sums_pass(terms: Array, targets: Array, dtype: DType, criteria: Any) -> None:
    """Sums of terms [T, C] by target, in any order, even in half where terms are, stay within the criterion."""
    order = np.argsort(targets, kind="stable")
    sorted_ = Entries(targets[order], order)
    if not len(targets) or not np.isfinite(terms).all():
        return
    crowds = np.argsort(-sorted_.counts, kind="stable")
    # The most crowded sums are those that err most.
    most = int(sorted_.counts.max())
    width = max(1, min(len(crowds), _TESTED // (most * terms.shape[1])))
    place = np.full(len(crowds), -1)
    place[crowds[:width]] = np.arange(width)
    column = place[sorted_.groups]
    padded = np.zeros((most, width, terms.shape[1]))
    padded[sorted_.ranks[column >= 0], column[column >= 0]] = terms[order][column >= 0]
    padded = padded.reshape(most, -1)
    assert_conditioned(padded, padded.sum(axis=0), criteria, arithmetic=dtype, room=_ROOM[dtype])


def shape_of(call: OpCall, last: str) -> tuple[int, ...]:
    """[N, X, Y, Z, last]: the dims that parameters give."""
    return tuple(int(call.param(name)) for name in ("boxes_num", *GRID, last))


# What forward gives.


def is_max(call: OpCall) -> bool:
    """The largest features are asked for; else their mean."""
    return bool(call.param("pool_method") == MAX)


def entries_of(call: OpCall) -> Entries:
    """The points in all cells."""
    return find_entries(call.array("pts"), call.array("rois"), cell_test(call.params))


def outputs(call: OpCall, entries: Entries) -> dict[str, Array]:
    """All outputs of forward where these points lie in cells: each lists the first K − 1, and pools no other."""
    # §3.1 says max_pts_each_voxel points: entry 0 is the count.
    kept = entries.first(int(call.param("max_pts_each_voxel")) - 1)
    return {"pts_idx_of_voxels": table(kept, shape_of(call, "max_pts_each_voxel")), **pool(call, kept)}


def pool(call: OpCall, kept: Entries) -> dict[str, Array]:
    """pooled_features and argmax of these points."""
    features, shape = call.array("pts_feature"), shape_of(call, "channels")
    if is_max(call):
        best, argmax = pool_max(features, kept, shape)
        return {"argmax": argmax, "pooled_features": best}
    # §1.3: argmax only with the maximum; code and incumbent write 0. Either will do.
    return {"argmax": np.zeros(shape, "<i4"), "pooled_features": pool_average(features, kept, shape)}
