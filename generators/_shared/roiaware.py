"""Boxes cut into cells: which points lie in which cell, and sums that are rounded once; for both directions.

N boxes, P points, X·Y·Z cells in a box, K entries for a cell, C channels; § is a section of forward's document.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np

import mluops_gtest.authoring as mg
from mluops_gtest.authoring import Array, DType, OpCall, Operator, ParamField, Status, checks, sum_of_terms
from mluops_gtest.authoring.sums import assert_conditioned

from .boxes import BoxTest, blocks, is_on_lattice, local
from .refusals import Refusals, tensors_of

MAX, AVERAGE = 0, 1
GRID: Final = ("out_x", "out_y", "out_z")
CELLS: Final = "boxes_num, out_x, out_y, out_z"
LISTS, OF_CHANNELS = f"[{CELLS}, max_pts_each_voxel]", f"[{CELLS}, channels]"
FLOATS: Final = (DType.FLOAT, DType.HALF)
# §1.5.1 asks for ten times the error of a GPU.
CRITERIA: Final = {DType.FLOAT: mg.diff1_and_diff2(1e-5), DType.HALF: mg.diff1_and_diff2(3e-3)}
# Gives of coordinates in cells and the grid the number of the cell in its box.
Place = Callable[[Array, Array], Array]
# How far the cell of a point may be off: so much of what the local coordinate adds up, and of the number of cells.
_ERROR: Final = {DType.FLOAT: 2e-6, DType.HALF: 2.0**-8}
# More halves, added in half, leave the criterion; sums of 127 are off by up to 1.6e-3 of 3e-3.
_MOST_HALVES: Final = 128
_ROOM: Final = {DType.FLOAT: 4.0, DType.HALF: 1.5}
# Terms that the conditioning test looks at.
_TESTED: Final = 1 << 20


def roiaware_params(direction: str, number: int, *names: str) -> mg.ParamMessage:
    """pool_method and these, none of which is less than 1; K is 128 where nothing is said."""
    others = (
        ParamField(name, n, least=1, default=128 if name == "max_pts_each_voxel" else 0)
        for n, name in enumerate(names, 2)
    )
    fields = (ParamField("pool_method", 1, default=0, allowed=(MAX, AVERAGE)), *others)
    return mg.ParamMessage(
        f"roiaware_pool3d_{direction}_param", number, f"RoiawarePool3d{direction.title()}Param", fields
    )


def limit(name: str, holds: Callable[[OpCall], bool], message: str) -> mg.Check:
    """A check of the library alone."""
    return checks.require(name, holds, message, "released", Status.NOT_SUPPORTED)


def at_most(param: str, most: int) -> mg.Check:
    """The library's limit of a parameter."""
    return limit(f"{param}_limit", lambda call: call.param(param) <= most, f"{param} must be at most {most}")


def kernel_refusals(operator: Operator, call: OpCall, most: int, late: str = "", **lengths: int) -> Refusals:
    """What a kernel answers to tensors that do not have the declared shapes and types, and beyond its limits.

    `lengths` are those of symbols that are no parameter; `late` is asked behind the others, and of the maximum alone.
    """
    tensors = {**call.inputs, **call.outputs}
    sizes = {**{name: int(call.param(name)) for name in call.params or {}}, **lengths}
    method = sizes.pop("pool_method")

    def fits(name: str) -> bool:
        arg, spec = tensors[name], operator.tensor(name)
        dims = tuple(int(sizes.get(axis, axis)) for axis in spec.shape.strip("[]").split(", "))
        return arg is not None and arg.dims == dims and arg.dtype in spec.dtypes

    given, last = tensors_of(call), tensors.get(late)
    asked = [arg for arg in given if arg is not last]
    kinds = {arg.dtype for arg in asked if arg.dtype in FLOATS}
    is_alike = all(fits(name) for name in tensors if name != late) and len(kinds) == 1
    yield call.handle is None or not is_alike or method not in (0, 1) or min(sizes.values()) <= 0, Status.BAD_PARAM
    yield any(arg.desc.is_strided for arg in given), Status.NOT_SUPPORTED
    yield max(sizes["boxes_num"], sizes["channels"]) > 65535 or sizes["max_pts_each_voxel"] > most, Status.NOT_SUPPORTED
    yield any(arg.desc.is_large for arg in asked), Status.NOT_SUPPORTED
    yield sizes["boxes_num"] * sizes.get("pts_num", 0) > 2**31 - 1, Status.NOT_SUPPORTED
    yield (call.workspace is None and call.workspace_size > 0) or any(arg.null for arg in asked), Status.BAD_PARAM
    yield late != "" and method == 0 and (last is None or last.null or not fits(late)), Status.BAD_PARAM
    yield call.handle is not None and call.handle.arch < 370, Status.ARCH_MISMATCH


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
    """int64 [E]: the cell in its box, in the order x, y, z."""
    # §3.2 drops what leaves the grid, the top face with it; code and mmcv clamp.
    i, j, k = np.nan_to_num(np.clip(np.trunc(cells), 0, grid - 1)).astype(np.int64).T
    numbers: Array = (i * int(grid[1]) + j) * int(grid[2]) + k
    return numbers


@dataclass(frozen=True, slots=True)
class CellTest(BoxTest):
    """Which points are inside a box, and whether rounding decides that or the cell."""

    # §1.2's text and code; its formula |z − cz| ≤ dz/2 forgets that cz is at the bottom. No side is widened.
    bottom: bool = True
    grid: tuple[int, ...] = (1, 1, 1)

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


TEST: Final = CellTest()


def cell_test(params: Mapping[str, Any]) -> CellTest:
    """The test of a call with these parameters."""
    return CellTest(grid=tuple(int(params[name]) for name in GRID))


class Entries(NamedTuple):
    """Points in cells, by cell and then by index: the number of the cell among those of all boxes, and of the point."""

    cells: Array
    points: Array

    @classmethod
    def of(cls, cells: Array, points: Array) -> "Entries":
        """By cell, and then in this order; −1 is no cell."""
        order = np.argsort(cells, kind="stable")[np.count_nonzero(cells < 0) :]
        return cls(cells[order], points[order])

    @property
    def ranks(self) -> Array:
        """int64 [E]: how many of the cell come before."""
        return np.arange(len(self.cells)) - np.searchsorted(self.cells, self.cells)

    @property
    def counts(self) -> Array:
        """int64 [E]: how many the cell has."""
        return np.searchsorted(self.cells, self.cells, "right") - np.searchsorted(self.cells, self.cells)

    def first(self, most: int) -> "Entries":
        """The first so many of each cell."""
        is_early = self.ranks < most
        return Entries(self.cells[is_early], self.points[is_early])


class Terms(NamedTuple):
    """What is added: the place in an output of that shape, the value and what it is divided by, [T] each."""

    places: Array
    values: Array
    divisors: Array
    shape: tuple[int, ...]

    @classmethod
    def of_rows(cls, rows: Array, values: Array, divisors: Array, shape: tuple[int, ...]) -> "Terms":
        """Values [R, C] that are added to these rows of the output, divided by the row's divisor."""
        places = rows.astype(np.int64)[:, None] * shape[-1] + np.arange(shape[-1])
        return cls(places.ravel(), values.astype(np.float64).ravel(), np.repeat(divisors, shape[-1]), shape)

    @property
    def quotients(self) -> Array:
        """float64 [T]."""
        return self.values / self.divisors

    @property
    def magnitudes(self) -> Array:
        """float64, of the output's shape: Σ|quotients|, of those that are finite."""
        return self._added(np.abs(np.where(np.isfinite(self.values), self.quotients, 0)))

    @property
    def met(self) -> Array:
        """int64, of the output's shape: how many terms each sum has."""
        return self._added(None)

    def _added(self, values: Array | None) -> Array:
        return np.bincount(self.places, values, math.prod(self.shape)).reshape(self.shape)

    def sums(self, storage: np.dtype[Any]) -> Array:
        """The exact sums of the exact quotients, rounded once; +0 where there is no term, and one pattern of NaN."""
        with np.errstate(all="ignore"):
            found = self._added(self.quotients)
            doubt = np.zeros(self.shape)
            # float64 adds halves exactly.
            if storage.itemsize > 2 or (self.divisors > 1).any():
                doubt = self.magnitudes * (self.met + 4) * 2.0**-53
            rounded = found.astype(storage)
            is_unsure = ((found - doubt).astype(storage) != (found + doubt).astype(storage)) & np.isfinite(found)
        if is_unsure.any():
            order = np.argsort(self.places, kind="stable")
            places = self.places[order]
            for place in np.flatnonzero(is_unsure).tolist():
                own = order[slice(*np.searchsorted(places, (place, place + 1)))].tolist()
                exact = sum((Fraction(self.values[one]) / int(self.divisors[one]) for one in own), Fraction(0))
                rounded.reshape(-1)[place] = _to_odd(exact)
        np.copyto(rounded, storage.type(np.nan), where=np.isnan(rounded))
        return rounded

    def assert_sums_pass(self, dtype: DType) -> None:
        """In any order, even in half where terms are, sums stay within the criterion."""
        if dtype is DType.HALF and self.met.max() > _MOST_HALVES:
            raise ValueError(f"a sum of more than {_MOST_HALVES} halves may be wrong by more than the criterion")
        if len(self.places) and np.isfinite(self.values).all():
            of = sum_of_terms.SumOfTerms(
                self.quotients[None, :, None], target=self.places[None, :, None], count=math.prod(self.shape)
            )
            columns = of.columns(_TESTED)
            assert_conditioned(columns, columns.sum(axis=0), CRITERIA[dtype], arithmetic=dtype, room=_ROOM[dtype])


def _to_odd(value: Fraction) -> float:
    """The float64, or the one beside it whose last bit is set: narrowing that rounds as if once."""
    near = float(value)
    if Fraction(near) != value and np.float64(near).view(np.uint64) & np.uint64(1) == 0:
        near = float(np.nextafter(near, np.inf if Fraction(near) < value else -np.inf))
    return near


def is_max(call: OpCall) -> bool:
    """The largest features are asked for; else their mean."""
    return bool(call.param("pool_method") == MAX)


def shape_of(call: OpCall, last: str) -> tuple[int, ...]:
    """[N, X, Y, Z, last]: the dims that parameters give."""
    return tuple(int(call.param(name)) for name in ("boxes_num", *GRID, last))


def find_entries(call: OpCall, test: BoxTest = TEST, place: Place = clamp) -> Entries:
    """The points in all cells; `place` numbers the cells of a box, −1 is none."""
    points, boxes, grid = call.array("pts"), call.array("rois"), np.array([call.param(name) for name in GRID])
    pairs = [np.empty((0, 2), np.int64)]
    for _, some, block, theirs in blocks(points[None], boxes[None]):
        pairs.append(np.argwhere(test.inside(block, theirs)[0]) + np.array((some.start, 0)))
    point, box = np.concatenate(pairs).T
    cell = place(coordinates(points[point], boxes[box], grid), grid)
    return Entries.of(np.where(cell < 0, -1, box * int(grid.prod()) + cell), point)


def find_listed(call: OpCall, entries: Entries | None = None) -> Entries:
    """The points that cells list, of these or of those that lie there; no other is pooled."""
    # §3.1 says max_pts_each_voxel of each: entry 0 is the count.
    own = find_entries(call) if entries is None else entries
    return own.first(int(call.param("max_pts_each_voxel")) - 1)


def outputs(call: OpCall, entries: Entries | None = None) -> dict[str, Array]:
    """All outputs of forward where these points lie in cells."""
    own, shape = find_listed(call, entries), shape_of(call, "max_pts_each_voxel")
    # The count, the points, zeros.
    rows = np.zeros((math.prod(shape[:-1]), shape[-1]), "<i4")
    rows[own.cells, 0] = own.counts
    rows[own.cells, 1 + own.ranks] = own.points
    return {"pts_idx_of_voxels": rows.reshape(shape), **pool(call, own)}


def pool(call: OpCall, own: Entries) -> dict[str, Array]:
    """pooled_features and argmax of these points."""
    features, shape = call.array("pts_feature"), shape_of(call, "channels")
    argmax = np.zeros((math.prod(shape[:-1]), shape[-1]), "<i4")
    if not is_max(call):
        # §1.3: argmax only with the maximum; code and incumbent write 0. Either will do.
        return {"argmax": argmax.reshape(shape), "pooled_features": mean_terms(call, own).sums(features.dtype)}
    argmax[...] = -1
    values, best = features[own.points], np.full(argmax.shape, -np.inf, features.dtype)
    np.maximum.at(best, own.cells, values)
    # mmcv starts at −1e50, which is −Inf: a maximum of −Inf is none.
    entry, channel = np.nonzero((values == best[own.cells]) & (values > -np.inf))
    pooled = np.zeros(argmax.shape, features.dtype)
    # Where −0 equals +0, either will do.
    pooled[own.cells[entry], channel] = values[entry, channel]
    # Of equals the first is written last.
    argmax[own.cells[entry[::-1]], channel[::-1]] = own.points[entry[::-1]]
    return {"argmax": argmax.reshape(shape), "pooled_features": pooled.reshape(shape)}


def mean_terms(call: OpCall, own: Entries) -> Terms:
    """The features of these points, by cell, and how many the cell has."""
    return Terms.of_rows(own.cells, call.array("pts_feature")[own.points], own.counts, shape_of(call, "channels"))
