"""voxelization: sorts points into the cells of a grid; voxels are its first cells, each with its first points."""

import math
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

import mluops_gtest.authoring as mg
from mluops_gtest.authoring import Array, DType, OpCall, Status, c_api, checks, suspects
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction
from mluops_gtest.authoring.narrowing import wrapped

from .._shared.refusals import Refusals, first_status, tensors_of

INPUTS, COUNTS = ("points", "voxel_size", "coors_range"), "num_points_per_voxel"
FLOAT: Final = (DType.FLOAT,)
INTEGERS: Final = {DType.INT32: mg.exact()}

CHECKS = (
    checks.handle("§3.7"),
    checks.descriptors(doc="§3.7"),
    mg.SIZE_NULL,
    checks.arch("released"),
    # §1.4: not supported; the header names no status.
    checks.params("deterministic", doc="§1.4"),
    checks.ranks(doc="§1.1"),
    checks.dims(doc="§1.1"),
    checks.params("ndim", doc="§1.3"),
    checks.strided(doc="§1.4"),
    checks.dtypes(doc="§1.3"),
    # As released: nobody asks how large voxels is, and max_voxels keeps the counts below 2^31.
    checks.large("points", "coors", doc="released"),
    checks.empty("points", doc="§1.1", status=Status.BAD_PARAM),
    checks.workspace("released"),
    # §1.1: max_points or max_voxels is 0. Nothing is written, voxel_num included.
    checks.empty("voxels", doc="§1.1"),
    # The released library has no such check; §3.7 is right.
    checks.pointers(doc="§3.7"),
)

# Which cell a point is in. float64 is enough: rounding decides nothing (see `precondition`).

Rounding = Callable[[Array], Array]


def half_up(spans: Array) -> Array:
    """§3.1's round of lengths is that of C: halves go away from zero."""
    return np.floor(spans + 0.5)


def in_cells(
    points: Array,
    size: Array,
    limits: Array,
    *,
    down: Rounding = np.floor,
    whole: Rounding = half_up,
    more: int = 0,
    axes: Collection[int] = range(3),
) -> tuple[Array, Array]:
    """int64 [N, 3]: the cell (x, y, z) of every point; bool [N]: it is one of the grid's."""
    low = limits[:3].astype(np.float64)
    cells = down((points[:, :3] - low) / size).astype(np.int64)
    grid = whole((limits[3:] - low) / size) + more
    return cells, np.asarray(((cells >= 0) & (cells < grid))[:, list(axes)].all(axis=1))


def precondition(call: OpCall) -> str | None:
    """Points have finite coordinates (§1.2), the space has a volume, and no rounding decides about a cell."""
    points, size, limits = call.arrays(*INPUTS)
    if points.shape[1] < 3:
        return "a point needs three coordinates"
    xyz = points[:, :3]
    if not all(np.isfinite(values).all() for values in (xyz, size, limits)):
        return "a coordinate is NaN or infinite"
    if not ((size > 0).all() and (limits[3:] > limits[:3]).all()):
        return "cells and the space must be longer than 0 on every axis"
    rows = np.flatnonzero(undecided(xyz, size, limits))
    return f"rounding decides about the cell of point {rows[0]}, or about the grid" if rows.size else None


def undecided(points: Array, size: Array, limits: Array) -> Array:
    """bool [N]: an evaluation in float, with a quotient or a reciprocal, may find another cell or leave int32."""
    low = limits[:3].astype(np.float64)
    cells, error = _quotients(points[:, :3], low, size)
    spans, span_error = _quotients(limits[None, 3:], low, size)
    grid = half_up(spans)
    # A point that lies outside for sure, on any axis, may lie wherever it likes on the others.
    outside = ((cells < -error) | (cells > grid + error)).any(axis=1)
    near = (np.abs(cells - np.rint(cells)) < error).any(axis=1) & ~outside
    is_open = (np.abs(spans - np.floor(spans) - 0.5) < span_error).any() or (spans >= 2.0**31).any()
    return np.asarray(near | (np.abs(cells) >= 2.0**31).any(axis=1) | is_open)


def _quotients(values: Array, low: Array, size: Array) -> tuple[Array, Array]:
    """(values − low)/size, and how far float may be off; 0 where it is exact."""
    wide, size = values.astype(np.float64), size.astype(np.float64)
    difference = wide - low
    quotient = difference / size
    # Twice the error of p·(1/size) − min·(1/size), which is neither right nor wrong.
    error = np.maximum(2.0**-20 * np.maximum(1, np.abs(quotient)), 2.0**-21 * (np.abs(wide) + np.abs(low)) / size)
    # On a lattice sizes are powers of two, and differences are floats without any rounding.
    rest = difference - wide
    is_exact = (wide - (difference - rest)) + (-low - rest) == 0
    is_exact &= (difference == difference.astype(np.float32)) & (np.frexp(size)[0] == 0.5)
    is_exact &= (difference == 0) | (np.abs(difference) > 2.0**-100)
    return quotient, np.where(is_exact, 0.0, error)


class Met(NamedTuple):
    """Of the points inside the grid, in order: their numbers, the voxel of each, and its place in there."""

    points: Array
    voxels: Array
    places: Array


def numbered(points: Array, voxels: Array) -> Met:
    """The place of a point is how many of its voxel come before."""
    # §3.1's example counts the ninth point as the voxel's second; it is the third.
    order, counts = np.argsort(voxels, kind="stable"), np.bincount(voxels)
    places = np.empty(len(voxels), np.int64)
    places[order] = np.arange(len(voxels)) - np.repeat(np.cumsum(counts) - counts, counts)
    return Met(points, voxels, places)


def in_order(
    cells: Array, inside: Array, *, key: Callable[[Array], Array] = np.asarray, ascending: bool = False
) -> Met:
    """§3.1: voxels are numbered as points meet them, and as many as there are cells; or as their keys ascend."""
    points = np.flatnonzero(inside)
    keys = np.atleast_2d(key(cells[points].T)).T
    _, first, rank = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    voxels = rank.reshape(-1) if ascending else np.argsort(np.argsort(first))[rank.reshape(-1)]
    return numbered(points, voxels)


Place = Callable[[Array, Array, Array], tuple[Array, Array]]
Meet = Callable[[Array, Array], Met]
Outputs = Mapping[str, Array]


def voxelize(call: OpCall, place: Place = in_cells, meet: Meet = in_order) -> dict[str, Array]:
    """All outputs; `place` finds cells, `meet` finds equal ones by sorting, and numbers them."""
    cells, inside = place(*call.arrays(*INPUTS))
    met = meet(cells, inside)
    # §1.3 lets the caller preset nothing: everything is owned, +0 and 0 where nothing lands.
    arrays = {name: np.zeros(arg.dims, arg.dtype.storage) for name, arg in call.outputs.items() if arg is not None}
    most_voxels, most_points, _ = arrays["voxels"].shape
    # §3.1, kernel 3 goes on: later points of voxels that have a number count when no more are made.
    points, voxels, places = (column[met.voxels < most_voxels] for column in met)
    # §3.1, kernel 2 prints max_voxels here; §1.2 is right.
    fits = places < most_points
    arrays["voxels"][voxels[fits], places[fits]] = call.array("points")[points[fits]]
    # §3.1 writes c_x, c_y, c_z; mmcv and the released library write z first.
    arrays["coors"][voxels[places == 0]] = cells[points[places == 0], ::-1]
    arrays[COUNTS][:] = np.minimum(np.bincount(voxels, minlength=most_voxels), most_points)
    arrays["voxel_num"][:] = voxels.max(initial=-1) + 1
    return arrays


def _point_lost(call: OpCall, index: int) -> Mapping[str, Array]:
    """The point lies outside."""
    points, limits = call.array("points").copy(), call.array("coors_range")
    points[index, :3] = limits[:3] - 4 * (limits[3:] - limits[:3])
    return {"points": points}


def theory(call: OpCall) -> mg.Theory:
    """All tensors once; per axis of a point a difference, a quotient, a floor and two comparisons."""
    return mg.Theory(io_bytes=sum(arg.desc.nbytes for arg in tensors_of(call)), ops=15 * call.tensor("points").dims[0])


# Mistakes that kernels make: where points are, which of them share a voxel, and what is written.

_PLACES: Final[Mapping[str, Place]] = {
    "coordinates are cut off, not rounded down": partial(in_cells, down=np.trunc),
    "the grid is rounded down": partial(in_cells, whole=np.floor),
    "the grid is rounded up": partial(in_cells, whole=np.ceil),
    "halves of the grid go to even numbers": partial(in_cells, whole=np.rint),
    "cells behind the grid are inside": partial(in_cells, more=1),
    **{f"no limit of {'xyz'[a]} counts": partial(in_cells, axes={0, 1, 2} - {a}) for a in range(3)},
    "points outside go to border cells": lambda points, size, limits: in_cells(
        np.clip(points[:, :3], limits[:3], np.nextafter(limits[3:], limits[:3])), size, limits
    ),
    "voxel_size is read as 1/size": lambda points, size, limits: in_cells(points, 1 / size, limits),
    "x and y of points are exchanged": lambda points, *limits: in_cells(points[:, [1, 0, 2]], *limits),
}
# Of cells [3, N] what tells them apart.
_MEETS: Final[Mapping[str, Meet]] = {
    "voxels stand in the order of coordinates": partial(in_order, ascending=True),
    "voxels are sorted by z, y, x": partial(in_order, key=lambda cells: cells[::-1], ascending=True),
    "32 bits tell cells apart": partial(in_order, key=lambda c: wrapped(32)((c[2] * 2000 + c[1]) * 2000 + c[0])),
    **{f"{n} bits of coordinates count": partial(in_order, key=partial(np.bitwise_and, 2**n - 1)) for n in (8, 10, 16)},
    "the first point is lost": lambda cells, inside: in_order(cells, inside & (np.cumsum(inside) > 1)),
    "later points of a cell are its second, as in §3.1's example": lambda *cells: in_order(*cells)._replace(
        places=np.minimum(in_order(*cells).places, 1)
    ),
}


def _moving(change: Callable[[Met, int, int], Array], call: OpCall) -> Outputs:
    """Other voxels, −1 for none, of what is met, by that, max_voxels and max_points."""
    met = in_order(*in_cells(*call.arrays(*INPUTS)))
    voxels = change(met, call.param("max_voxels"), call.param("max_points"))
    return voxelize(call, meet=lambda *_: numbered(met.points[voxels >= 0], voxels[voxels >= 0]))


def _only(is_taken: Callable[[Met, int, int], Array]) -> suspects.Suspect:
    """Some of the points, by the same."""
    return partial(_moving, lambda met, *limits: np.where(is_taken(met, *limits), met.voxels, -1))


def is_used(call: OpCall) -> Array:
    """bool [V]: the voxel is there."""
    return np.arange(call.param("max_voxels")) < voxelize(call)["voxel_num"]


def _points_of_cells(call: OpCall) -> Array:
    """How many points lie in each cell that one is in."""
    return np.bincount(in_order(*in_cells(*call.arrays(*INPUTS))).voxels)


def _written(output: str, change: Callable[[Array, OpCall], Array]) -> suspects.Suspect:
    """Other values of one output, by the right ones and the call."""
    return lambda call: {output: change(voxelize(call)[output], call)}


SUSPECTS: Final[Mapping[str, suspects.Suspect]] = {
    **{words: partial(voxelize, place=place) for words, place in _PLACES.items()},
    **{words: partial(voxelize, meet=meet) for words, meet in _MEETS.items()},
    "nothing counts any more when a cell finds no voxel": _only(lambda met, n, _: np.cumsum(met.voxels >= n) == 0),
    "points of cells without a voxel go to the last voxel": partial(
        _moving, lambda met, n, _: np.minimum(met.voxels, n - 1)
    ),
    "the last points of a voxel are taken": _only(
        lambda met, _, s: met.places >= np.bincount(met.voxels)[met.voxels] - s
    ),
    "max_voxels limits points, too, as §3.1 prints": _only(lambda met, n, _: met.places < n),
    "counts are not limited": _written(
        COUNTS, lambda counts, call: np.append(_points_of_cells(call), 0 * counts)[: len(counts)]
    ),
    "counts are those of the next voxel": _written(COUNTS, lambda counts, _: np.roll(counts, -1)),
    "voxel_num counts all cells": _written("voxel_num", lambda _, call: np.array([len(_points_of_cells(call))])),
    "voxel_num is max_voxels": _written("voxel_num", lambda _, call: np.array([call.param("max_voxels")])),
    "coors stand as x, y, z": _written("coors", lambda coors, _: coors[:, ::-1]),
    "coors count from 1": _written("coors", lambda coors, call: coors + is_used(call)[:, None]),
    "coors of no voxel are −1": _written("coors", lambda coors, call: np.where(is_used(call)[:, None], coors, -1)),
    "only coordinates are copied": _written("voxels", lambda voxels, _: voxels * (np.arange(voxels.shape[2]) < 3)),
    "voxels stand as [S, V, F]": _written("voxels", lambda voxels, _: voxels.swapaxes(0, 1).reshape(voxels.shape)),
}


# One element as §3.1 defines it.
def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The voxels are the first cells that points are in, and their points the first of each."""
    points = call.array("points")
    size, limits = ([fraction(value) for value in call.array(name)] for name in ("voxel_size", "coors_range"))
    # Halves away from zero.
    grid = [math.floor((limits[3 + a] - limits[a]) / size[a] + Fraction(1, 2)) for a in range(3)]
    members: dict[tuple[int, ...], list[int]] = {}
    for number, point in enumerate(points):
        cell = tuple(math.floor((fraction(point[a]) - limits[a]) / size[a]) for a in range(3))
        if all(0 <= cell[a] < grid[a] for a in range(3)):
            members.setdefault(cell, []).append(number)
    found = [(cell, mine[: call.param("max_points")]) for cell, mine in members.items()][: call.param("max_voxels")]
    # Behind them all voxels are empty.
    found += [((0, 0, 0), [])] * (call.param("max_voxels") - len(found))

    def voxels(voxel: int, place: int, feature: int) -> Fraction | float:
        mine = found[voxel][1]
        return fraction(points[mine[place], feature]) if place < len(mine) else Fraction(0)

    return {
        "voxels": voxels,
        "coors": lambda voxel, axis: found[voxel][0][2 - axis],
        COUNTS: lambda voxel: len(found[voxel][1]),
        "voxel_num": lambda _: sum(bool(mine) for _, mine in found),
    }


# The kernel that the numpy backend runs: cells in a dictionary, points sorted by cell, quotients in float32.


def kernel(call: OpCall) -> Status:
    """Check the call, then give every point its place."""
    if (early := first_status(_refusals(call))) is not None:
        return early
    points, size, limits = call.arrays(*INPUTS)
    cells = np.floor((points[:, :3] - limits[:3]) / size)
    grid = np.floor(((limits[3:] - limits[:3]) / size).astype(np.float64) + 0.5)
    numbers = np.flatnonzero(((cells >= 0) & (cells < grid)).all(axis=1))
    voxels, coors, counts, voxel_num = call.arrays(*call.outputs)
    voxels[...], coors[...], counts[...] = 0, 0, 0
    known: dict[tuple[int, ...], int] = {}
    found = map(tuple, cells[numbers].astype(np.int64).tolist())
    owners = np.array([known.setdefault(cell, len(known)) for cell in found], np.int64)
    voxel_num[...] = most = min(len(known), len(voxels))
    coors[:most] = np.array(list(known), np.int64).reshape(-1, 3)[:most, ::-1]
    counts[:most] = np.minimum(np.bincount(owners, minlength=most)[:most], voxels.shape[1])
    order = np.argsort(owners, kind="stable")
    owners = owners[order]
    places = np.arange(len(owners)) - np.searchsorted(owners, owners)
    has_room = (owners < most) & (places < voxels.shape[1])
    voxels[owners[has_room], places[has_room]] = points[numbers[order[has_room]]]
    return Status.SUCCESS


def _refusals(call: OpCall) -> Refusals:
    args = tensors_of(call)
    yield call.handle is None or len(args) < 7, Status.BAD_PARAM
    yield call.handle is not None and call.handle.arch < 370, Status.ARCH_MISMATCH
    most, places, points = call.param("max_voxels"), call.param("max_points"), args[0].desc
    yield not call.param("deterministic") or call.param("ndim") != 3 or len(points.dims) != 2, Status.BAD_PARAM
    dims = [(3,), (6,), (most, places, *points.dims[1:]), (most, 3), (most,), (1,)]
    yield [arg.dims for arg in args[1:]] != dims, Status.BAD_PARAM
    yield any(arg.desc.is_strided for arg in args), Status.NOT_SUPPORTED
    yield [arg.dtype for arg in args] != [DType.FLOAT] * 4 + [DType.INT32] * 3, Status.BAD_PARAM
    yield max(points.count, 3 * most) >= 1 << 31, Status.NOT_SUPPORTED
    yield points.count == 0 or (call.workspace is None and call.workspace_size > 0), Status.BAD_PARAM
    yield 0 in (most, places), Status.SUCCESS
    yield any(arg.null for arg in args), Status.BAD_PARAM


# With torch: distinct rows, and products with reciprocals, as the device has them (§3.1).
def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write all outputs."""
    import torch

    points, size, limits = (inputs[name] for name in INPUTS)
    for output in outputs.values():
        output.zero_()
    cells = torch.floor((points[:, :3] - limits[:3]) * (1 / size))
    grid = torch.floor((limits[3:] - limits[:3]) / size + 0.5)
    numbers = ((cells >= 0) & (cells < grid)).all(dim=1).nonzero().squeeze(1)
    if not len(numbers):
        return
    rows, row_of = torch.unique(cells[numbers], dim=0, return_inverse=True)
    every = torch.arange(len(numbers), device=row_of.device)
    order = torch.argsort(
        torch.zeros_like(every[: len(rows)]).scatter_reduce_(0, row_of, every, "amin", include_self=False)
    )
    voxels = torch.argsort(order)[row_of]
    # Sorted by voxel, a point's place is its distance from where the voxel begins.
    counts, by_voxel = torch.bincount(voxels), torch.argsort(voxels, stable=True)
    places = torch.empty_like(every)
    places[by_voxel] = every - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    most_voxels, most_points = call.param("max_voxels"), call.param("max_points")
    fits, found = (voxels < most_voxels) & (places < most_points), min(len(order), most_voxels)
    # Integers of the same size: NaN payloads pass unchanged.
    outputs["voxels"].view(torch.int32)[voxels[fits], places[fits]] = points.view(torch.int32)[numbers[fits]]
    outputs["coors"][:found] = rows[order[:found]].flip(1).to(torch.int32)
    outputs[COUNTS][:found] = counts[:found].clamp(max=most_points).to(torch.int32)
    outputs["voxel_num"].fill_(found)


_PARAMS: Final = (
    mg.ParamField("max_points", 1, default=35),
    mg.ParamField("max_voxels", 2, default=20000),
    mg.ParamField("ndim", 3, default=3, allowed=(3,)),
    mg.ParamField("deterministic", 4, type="bool", default=True, allowed=(True,)),
)

OPERATOR = mg.Operator(
    name="voxelization",
    op_type=("VOXELIZATION", 2203),
    summary="Sorts points into the cells of a grid: the first cells in order of appearance, the first points of each.",
    inputs=(
        mg.TensorSpec("points", "[N, F]: x, y, z, features", FLOAT),
        mg.TensorSpec("voxel_size", "[3]: x, y, z", FLOAT),
        mg.TensorSpec("coors_range", "[6]: x, y, z from, x, y, z to", FLOAT),
    ),
    # §1.5.1: diff3 = 0.
    outputs=(
        mg.OutputSpec("voxels", "[max_voxels, max_points, F]", {DType.FLOAT: mg.exact()}),
        mg.OutputSpec("coors", "[max_voxels, 3]: z, y, x", INTEGERS),
        mg.OutputSpec(COUNTS, "[max_voxels]", INTEGERS),
        mg.OutputSpec("voxel_num", "[1]", INTEGERS),
    ),
    params=mg.ParamMessage("voxelization_param", 6564, "VoxelizationParam", _PARAMS),
    axes={
        "points": mg.axis("N", of="points", lost=_point_lost),
        "features": mg.axis("F", of="points"),
        "voxels": mg.axis("max_voxels", of="coors"),
        "points_of_voxels": mg.axis("max_points", of="voxels"),
    },
    checks=CHECKS,
    subsumed={"voxel_num_strided": "its one axis has one place, where no stride matters"},
    # The operator's own up to the early return, where the size stays as it was.
    queries={"mluOpGetVoxelizationWorkspaceSize": mg.QueryChecks()},
    reference=lambda call: mg.Baseline(voxelize(call)),
    bound=mg.Bound.copied("voxels"),
    precondition=precondition,
    theory=theory,
    kernel=kernel,
    suspects=SUSPECTS,
    # §3.4: points transposed, cells, and three numbers a point.
    workspace_size=lambda call: 4 * (call.tensor("points").desc.count + 6 * call.tensor("points").dims[0]),
    c_api=c_api.c_function("mluOpVoxelization", query="mluOpGetVoxelizationWorkspaceSize"),
    exact=elements,
    torch_kernel=torch_kernel,
)
