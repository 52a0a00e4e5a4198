"""voxelization: sorts points into the cells of a grid; voxels are its first cells, each with its first points."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from mluops_gtest.authoring import (
    SIZE_NULL,
    Array,
    Baseline,
    Bound,
    DType,
    OpCall,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    QueryChecks,
    Status,
    TensorSpec,
    Theory,
    axis,
    c_api,
    checks,
    exact,
)
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction
from mluops_gtest.authoring.suspects import Suspect

FLOAT: Final = (DType.FLOAT,)
INTEGERS: Final = {DType.INT32: exact()}

# What is checked, in normative order.

CHECKS = (
    checks.handle("§3.7"),
    checks.descriptors(doc="§3.7"),
    SIZE_NULL,
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
    points: Array, size: Array, limits: Array, *, down: Rounding = np.floor, whole: Rounding = half_up, more: int = 0
) -> tuple[Array, Array]:
    """int64 [N, 3]: the cell (x, y, z) of every point; bool [N]: it is one of the grid's."""
    low = limits[:3].astype(np.float64)
    cells = down((points[:, :3] - low) / size).astype(np.int64)
    grid = whole((limits[3:] - low) / size) + more
    return cells, np.asarray(((cells >= 0) & (cells < grid)).all(axis=1))


# What the document takes for granted.


def precondition(call: OpCall) -> str | None:
    """Points have finite coordinates (§1.2), the space has a volume, and no rounding decides about a cell."""
    points, size, limits = call.arrays("points", "voxel_size", "coors_range")
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


# The oracle: equal cells are found by sorting.


class Met(NamedTuple):
    """Of the points inside the grid, in order: their numbers, the voxel of each, and its place in there."""

    points: Array
    voxels: Array
    places: Array


def in_order(cells: Array, inside: Array) -> Met:
    """§3.1: voxels are numbered as points meet them, and as many as there are cells."""
    points = np.flatnonzero(inside)
    met = cells[points]
    # Rows that are equal so far share a rank, which the next column refines; a key of all cells may have any length.
    rank = np.zeros(len(points), np.int64)
    for column in met.T:
        levels, place = np.unique(column, return_inverse=True)
        rank = np.unique(rank * len(levels) + place, return_inverse=True)[1]
    _, first = np.unique(rank, return_index=True)
    voxels = np.argsort(np.argsort(first))[rank]
    return Met(points, voxels, places_of(voxels))


def places_of(voxels: Array) -> Array:
    """How many points of its voxel come before each."""
    # §3.1's example counts the ninth point as the voxel's second; it is the third.
    order = np.argsort(voxels, kind="stable")
    counts = np.bincount(voxels)
    places = np.empty(len(voxels), np.int64)
    places[order] = np.arange(len(voxels)) - np.repeat(np.cumsum(counts) - counts, counts)
    return places


def write(call: OpCall, cells: Array, met: Met) -> dict[str, Array]:
    """All outputs."""
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
    arrays["num_points_per_voxel"][:] = np.minimum(np.bincount(voxels, minlength=most_voxels), most_points)
    arrays["voxel_num"][:] = voxels.max(initial=-1) + 1
    return arrays


Place = Callable[[Array, Array, Array], tuple[Array, Array]]


def voxelize(call: OpCall, place: Place = in_cells, meet: Callable[[Array, Array], Met] = in_order) -> dict[str, Array]:
    """All outputs; `place` finds cells, `meet` numbers them."""
    cells, inside = place(*call.arrays("points", "voxel_size", "coors_range"))
    return write(call, cells, meet(cells, inside))


def _point_lost(call: OpCall, index: int) -> Mapping[str, Array]:
    """The point lies outside."""
    points, limits = call.array("points").copy(), call.array("coors_range")
    points[index, :3] = limits[:3] - 4 * (limits[3:] - limits[:3])
    return {"points": points}


def reference(call: OpCall) -> Baseline:
    """voxels, coors, num_points_per_voxel and voxel_num."""
    return Baseline(voxelize(call))


def theory(call: OpCall) -> Theory:
    """All tensors once; per axis of a point a difference, a quotient, a floor and two comparisons."""
    tensors = [arg for arg in (*call.inputs.values(), *call.outputs.values()) if arg is not None]
    return Theory(io_bytes=sum(arg.desc.nbytes for arg in tensors), ops=15 * call.tensor("points").dims[0])


# Mistakes that kernels make about cells, about the order of voxels, and at their limits.


def by_coordinates(cells: Array, inside: Array) -> Met:
    """Voxels are numbered as their cells ascend, the first column first."""
    points = np.flatnonzero(inside)
    voxels = np.unique(cells[points], axis=0, return_inverse=True)[1].reshape(-1)
    return Met(points, voxels, places_of(voxels))


def at_limits(change: Callable[[Met, int, int], Met]) -> Suspect:
    """`change` gets what is met, max_voxels and max_points."""

    def outputs(call: OpCall) -> Mapping[str, Array]:
        limits = call.param("max_voxels"), call.param("max_points")
        return voxelize(call, meet=lambda *cells: change(in_order(*cells), *limits))

    return outputs


def _until_full(met: Met, most_voxels: int, _: int) -> Met:
    return Met(*(column[: int(np.argmax(np.append(met.voxels, most_voxels) >= most_voxels))] for column in met))


def _revived(met: Met, most_voxels: int, _: int) -> Met:
    voxels = np.minimum(met.voxels, most_voxels - 1)
    return Met(met.points, voxels, places_of(voxels))


def _last_points(met: Met, _: int, most_points: int) -> Met:
    counts = np.bincount(met.voxels)[met.voxels] if len(met.voxels) else met.voxels
    places = met.places - np.maximum(counts - most_points, 0)
    return Met(met.points, met.voxels, np.where(places < 0, places + np.iinfo(np.int32).max, places))


SUSPECTS: Final[Mapping[str, Suspect]] = {
    "coors stand as x, y, z": lambda call: {"coors": voxelize(call)["coors"][:, ::-1]},
    "coordinates are cut off, not rounded down": lambda call: voxelize(call, partial(in_cells, down=np.trunc)),
    "the grid is rounded down": lambda call: voxelize(call, partial(in_cells, whole=np.floor)),
    "the grid is rounded up": lambda call: voxelize(call, partial(in_cells, whole=np.ceil)),
    "cells behind the grid are inside": lambda call: voxelize(call, partial(in_cells, more=1)),
    "voxels stand in the order of their coordinates": lambda call: voxelize(call, meet=by_coordinates),
    "nothing counts any more when a cell finds no voxel": at_limits(_until_full),
    "points of cells without a voxel go to the last voxel": at_limits(_revived),
    "the last points of a voxel are taken": at_limits(_last_points),
}


# One element as §3.1 defines it.


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The voxels are the first cells that points are in, and their points the first of each."""
    points = call.array("points")
    size, limits = ([fraction(value) for value in call.array(name)] for name in ("voxel_size", "coors_range"))
    space = list(zip(size, limits[:3], limits[3:], strict=True))
    # Halves away from zero.
    grid = [math.floor((high - low) / length + Fraction(1, 2)) for length, low, high in space]
    members: dict[tuple[int, ...], list[int]] = {}
    for number, point in enumerate(points):
        cell = tuple(
            math.floor((fraction(p) - low) / length) for p, (length, low, _) in zip(point, space, strict=False)
        )
        if all(0 <= c < cells for c, cells in zip(cell, grid, strict=True)):
            members.setdefault(cell, []).append(number)
    found = [(cell, mine[: call.param("max_points")]) for cell, mine in members.items()][: call.param("max_voxels")]

    def voxels(voxel: int, place: int, feature: int) -> Fraction | float:
        mine = found[voxel][1] if voxel < len(found) else []
        return fraction(points[mine[place], feature]) if place < len(mine) else Fraction(0)

    return {
        "voxels": voxels,
        "coors": lambda voxel, axis: found[voxel][0][2 - axis] if voxel < len(found) else 0,
        "num_points_per_voxel": lambda voxel: len(found[voxel][1]) if voxel < len(found) else 0,
        "voxel_num": lambda _: len(found),
    }


# The kernel that the numpy backend runs: one point after the other, cells in a dictionary, quotients in float32.

_RANKS: Final = (2, 1, 1, 3, 2, 1, 1)


def kernel(call: OpCall) -> Status:
    """Check the call, then give every point its place."""
    early = _early_status(call)
    if early is not None:
        return early
    points, size, limits = call.arrays("points", "voxel_size", "coors_range")
    cells = np.floor((points[:, :3] - limits[:3]) / size)
    inside = np.ones(len(points), bool)
    for axis_, span in enumerate((limits[3:] - limits[:3]) / size):
        inside &= (cells[:, axis_] >= 0) & (cells[:, axis_] < math.floor(float(span) + 0.5))
    numbers = np.flatnonzero(inside)
    voxels, coors, counts, voxel_num = call.arrays(*call.outputs)
    most_voxels, most_points, features = voxels.shape
    numbered: dict[tuple[int, ...], int] = {}
    met, rows, targets = [0] * most_voxels, [], []
    for number, cell in zip(numbers.tolist(), map(tuple, cells[numbers].astype(np.int64).tolist()), strict=True):
        voxel = numbered.get(cell, -1)
        if voxel < 0 and len(numbered) < most_voxels:
            voxel = numbered[cell] = len(numbered)
        if voxel >= 0 and met[voxel] < most_points:
            rows.append(number)
            targets.append(voxel * most_points + met[voxel])
            met[voxel] += 1
    voxels[...], coors[...] = 0, 0
    voxels.reshape(-1, features)[targets] = points[rows]
    coors[: len(numbered)] = np.array([*numbered], np.int32).reshape(-1, 3)[:, ::-1]
    counts[...], voxel_num[...] = met, len(numbered)
    return Status.SUCCESS


def _early_status(call: OpCall) -> Status | None:
    """The status of a call that is refused or has nothing to write; None where it must be computed."""
    args = [arg for arg in (*call.inputs.values(), *call.outputs.values()) if arg is not None]
    if call.handle is None or len(args) < len(_RANKS):
        return Status.BAD_PARAM
    if call.handle.arch < 370:
        return Status.ARCH_MISMATCH
    if not call.param("deterministic") or tuple(len(arg.dims) for arg in args) != _RANKS:
        return Status.BAD_PARAM
    most_voxels, most_points, features = call.param("max_voxels"), call.param("max_points"), args[0].dims[1]
    if [arg.dims for arg in args[1:]] != [
        (3,), (6,), (most_voxels, most_points, features), (most_voxels, 3), (most_voxels,), (1,),
    ]:  # fmt: skip
        return Status.BAD_PARAM
    if call.param("ndim") != 3:
        return Status.BAD_PARAM
    if any(arg.desc.is_strided for arg in args):
        return Status.NOT_SUPPORTED
    if [arg.dtype for arg in args] != [DType.FLOAT] * 4 + [DType.INT32] * 3:
        return Status.BAD_PARAM
    if max(args[0].desc.count, args[4].desc.count) >= 1 << 31:
        return Status.NOT_SUPPORTED
    if 0 in args[0].dims or (call.workspace is None and call.workspace_size > 0):
        return Status.BAD_PARAM
    if most_voxels == 0 or most_points == 0:
        return Status.SUCCESS
    return Status.BAD_PARAM if any(arg.null for arg in args) else None


# With torch: distinct rows, and products with reciprocals, as the device has them (§3.1).


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write all outputs."""
    import torch

    points, size, limits = (inputs[name] for name in ("points", "voxel_size", "coors_range"))
    for output in outputs.values():
        output.zero_()
    cells = torch.floor((points[:, :3] - limits[:3]) * (1 / size))
    grid = torch.floor((limits[3:] - limits[:3]) / size + 0.5)
    numbers = ((cells >= 0) & (cells < grid)).all(dim=1).nonzero().squeeze(1)
    if not len(numbers):
        return
    rows, row_of, counts = torch.unique(cells[numbers], dim=0, return_inverse=True, return_counts=True)
    # Sorted by row, the first point of every row stands where those of the rows before end.
    by_row = torch.argsort(row_of, stable=True)
    starts = counts.cumsum(0) - counts
    order = torch.argsort(by_row[starts])
    voxels = torch.empty_like(order)
    voxels[order] = torch.arange(len(order), device=order.device)
    places = torch.empty_like(by_row)
    places[by_row] = torch.arange(len(by_row), device=by_row.device) - torch.repeat_interleave(starts, counts)
    most_voxels, most_points = call.param("max_voxels"), call.param("max_points")
    fits = (voxels[row_of] < most_voxels) & (places < most_points)
    chosen, found = order[:most_voxels], min(len(order), most_voxels)
    # Integers of the same size: NaN payloads pass unchanged.
    bits = outputs["voxels"].view(torch.int32)
    bits[voxels[row_of][fits], places[fits]] = points.view(torch.int32)[numbers[fits]]
    outputs["coors"][:found] = rows[chosen].flip(1).to(torch.int32)
    outputs["num_points_per_voxel"][:found] = counts[chosen].clamp(max=most_points).to(torch.int32)
    outputs["voxel_num"].fill_(found)


_PARAMS: Final = (
    ParamField("max_points", 1, default=35),
    ParamField("max_voxels", 2, default=20000),
    ParamField("ndim", 3, default=3, allowed=(3,)),
    ParamField("deterministic", 4, type="bool", default=True, allowed=(True,)),
)

OPERATOR = Operator(
    name="voxelization",
    released_name="voxelization",
    op_type=("VOXELIZATION", 2203),
    summary="Sorts points into the cells of a grid: the first cells in order of appearance, the first points of each.",
    inputs=(
        TensorSpec("points", "[N, F]: x, y, z, features", FLOAT),
        TensorSpec("voxel_size", "[3]: x, y, z", FLOAT),
        TensorSpec("coors_range", "[6]: x, y, z from, x, y, z to", FLOAT),
    ),
    # §1.5.1: diff3 = 0.
    outputs=(
        OutputSpec("voxels", "[max_voxels, max_points, F]", {DType.FLOAT: exact()}),
        OutputSpec("coors", "[max_voxels, 3]: z, y, x", INTEGERS),
        OutputSpec("num_points_per_voxel", "[max_voxels]", INTEGERS),
        OutputSpec("voxel_num", "[1]", INTEGERS),
    ),
    params=ParamMessage("voxelization_param", 6564, "VoxelizationParam", _PARAMS),
    axes={
        "points": axis("N", of="points", lost=_point_lost),
        "features": axis("F", of="points"),
        "voxels": axis("max_voxels", of="coors"),
        "points_of_voxels": axis("max_points", of="voxels"),
    },
    checks=CHECKS,
    subsumed={"voxel_num_strided": "its one axis has one place, where no stride matters"},
    # The operator's own up to the early return, where the size stays as it was.
    queries={"mluOpGetVoxelizationWorkspaceSize": QueryChecks()},
    reference=reference,
    bound=Bound.copied("voxels"),
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
