"""roiaware_pool3d_forward: the points in each cell of turned boxes, and the largest or mean of their features."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache, partial
from typing import Any, Final

import numpy as np

import mluops_gtest.authoring as mg
from mluops_gtest.authoring import Array, DType, OpCall, Status, c_api, checks, exact_numbers, left_open, sums
from mluops_gtest.authoring.suspects import Suspect, as_read, misread, with_params

from .._shared import roiaware as roi
from .._shared import roiaware_scenes as scenes
from .._shared.boxes import BoxTest, exactly_local, find_undefined, is_exactly_inside, undecided_pair
from .._shared.refusals import first_status
from .._shared.wrong_boxes import misread_boxes

INPUTS: Final = ("rois", "pts", "pts_feature")
LISTS, POOLED, ARGMAX = "pts_idx_of_voxels", "pooled_features", "argmax"
# What both methods need.
ALWAYS: Final = (*INPUTS, LISTS, POOLED)
# §1.4's 2880 and 2930 are older than the library's limits.
MOST_POINTS: Final = {DType.FLOAT: 2976, DType.HALF: 2944}


def _shape(output: str, last: str, doc: str) -> mg.Check:
    return checks.require(
        f"{output}_shape",
        lambda call: call.tensor(output).dims == roi.shape_of(call, last),
        f"{output} must be [{roi.CELLS}, {last}]",
        doc,
    )


CHECKS = (
    checks.handle("§3.7 (1)"),
    # §1.3: argmax belongs to the maximum alone, and is asked for at the end.
    checks.descriptors(*ALWAYS, doc="§3.7 (1)"),
    checks.ranks(*ALWAYS, doc="§3.7 (2)"),
    checks.dims("rois.0", "rois.1", "pts.0", "pts.1", "pts_feature.0", "pts_feature.1", doc="§3.7 (3)"),
    _shape(LISTS, "max_pts_each_voxel", "§3.7 (3)"),
    _shape(POOLED, "channels", "§3.7 (3)"),
    checks.dtypes("rois", "pts = rois", "pts_feature = rois", f"{POOLED} = rois", LISTS, doc="§3.7 (4)"),
    checks.params("pool_method", doc="§3.7 (5)"),
    # §1.1: what has no element is refused.
    checks.params("boxes_num", "pts_num", "channels", "max_pts_each_voxel", *roi.GRID, doc="§1.1"),
    checks.strided(*INPUTS, doc="§1.4"),
    checks.only_if(lambda call: call.outputs[ARGMAX] is not None, checks.strided(ARGMAX, doc="§1.4")),
    checks.strided(LISTS, POOLED, doc="§1.4"),
    roi.at_most("boxes_num", 65535),
    roi.at_most("channels", 65535),
    roi.limit(
        "points_of_cell",
        lambda call: call.param("max_pts_each_voxel") <= MOST_POINTS[call.tensor("rois").dtype],
        "max_pts_each_voxel ≤ 2976, of half 2944",
    ),
    checks.large(*ALWAYS, doc="§3.7 (8)"),
    roi.limit(
        "pairs",
        lambda call: call.param("boxes_num") * call.param("pts_num") < 1 << 31,
        "boxes_num · pts_num must be less than 2^31",
    ),
    checks.workspace("§3.7 (9)"),
    checks.pointers(*ALWAYS, doc="§3.7 (10)"),
    checks.only_if(
        roi.is_max,
        checks.descriptors(ARGMAX, doc="§1.3"),
        checks.ranks(ARGMAX, doc="§1.3"),
        _shape(ARGMAX, "channels", "§1.3"),
        checks.dtypes(ARGMAX, doc="§1.3"),
        checks.pointers(ARGMAX, doc="§1.3"),
    ),
    checks.arch("released; asked last"),
)


def precondition(call: OpCall) -> str | None:
    """Rounding decides neither whether a point is inside nor its cell; no point lies in a box without height."""
    test = roi.cell_test(call.params or {})
    return undecided_pair(call.array("pts")[None], call.array("rois")[None], test, call.tensor("rois").dtype)


def find_left_open(call: OpCall, baseline: mg.Baseline) -> str | None:
    """§1.4: no infinite coordinates, no NaN among the features of which the largest is asked for."""
    if not np.isfinite(call.array("pts")).all():
        return "pts has NaN or an infinity"
    if roi.is_max(call) and np.isnan(call.array("pts_feature")).any():
        return "pts_feature has NaN, and the largest of them is asked for"
    return find_undefined("pts", "rois")(call, baseline)


# The oracle.


def reference(call: OpCall) -> mg.Baseline:
    """Every element of all outputs; argmax with the mean may stay as it was."""
    return mg.Baseline(roi.outputs(call))


def bound(call: OpCall) -> Mapping[str, mg.Bound]:
    """The largest is a copy; the mean is a sum and a division, or a product with a reciprocal."""
    if roi.is_max(call):
        return {POOLED: mg.Bound(0.0)}
    added = roi.mean_terms(call, roi.find_listed(call))
    unit = sums.lattice_unit(call.array("pts_feature")) / np.maximum(added.met, 1)
    return {POOLED: mg.Bound(added.magnitudes, added.met, unit=unit, afterwards=2)}


def theory(call: OpCall) -> mg.Theory:
    """17 operations for a point and a box, and one for each feature that is pooled; argmax with the maximum alone."""
    names = (*ALWAYS, ARGMAX) if roi.is_max(call) else ALWAYS
    pooled = len(roi.find_listed(call).cells) * call.param("channels")
    ops = 17 * call.param("boxes_num") * call.param("pts_num") + pooled
    return mg.Theory(sum(call.tensor(name).desc.nbytes for name in names), ops)


def workspace_size(call: OpCall) -> int:
    """§3.4: points and features, transposed, and room to transpose them."""
    points, channels = call.tensor("pts_feature").dims
    return points * (3 + channels + max(channels, 3)) * call.tensor("pts_feature").dtype.storage.itemsize


# Mistakes that kernels make about boxes and their cells, about lists, and about what is pooled of them.

Outputs = Mapping[str, Array]


def _answer(call: OpCall, test: BoxTest = roi.TEST, place: roi.Place = roi.clamp) -> Outputs:
    return roi.outputs(call, roi.find_entries(call, test, place))


# Floor and truncation are one: inside a box nothing lies before its corner.
_PLACES: Final[Mapping[str, roi.Place]] = {
    "cells are rounded": lambda cells, grid: roi.clamp(np.rint(cells), grid),
    "points on the top face are dropped": lambda cells, grid: np.where(
        (cells < grid).all(axis=1), roi.clamp(cells, grid), -1
    ),
    "cells count in the order z, y, x": lambda cells, grid: roi.clamp(cells[:, ::-1], grid[::-1]),
    "x and y of cells are exchanged": lambda cells, grid: roi.clamp(cells[:, [1, 0, 2]], grid),
    "cells count from the middle of the box": lambda cells, grid: roi.clamp(cells - grid * (0.5, 0.5, 0.0), grid),
    "borders belong to the cell below": lambda cells, grid: roi.clamp(np.ceil(cells) - 1, grid),
}


def _most(call: OpCall) -> int:
    return int(call.param("max_pts_each_voxel"))


def _reversed(own: roi.Entries) -> roi.Entries:
    return roi.Entries.of(own.cells[::-1], own.points[::-1])


def _of_first_box(call: OpCall) -> Outputs:
    own, cells_of_box = roi.find_entries(call), math.prod(roi.shape_of(call, "channels")[1:4])
    return roi.outputs(call, roi.Entries.of(own.cells % cells_of_box, own.points))


def _all_counted(call: OpCall) -> Outputs:
    rows, own = roi.outputs(call)[LISTS], roi.find_entries(call)
    rows.reshape(-1, _most(call))[own.cells, 0] = own.counts
    return {LISTS: rows}


def _of_lists(change: Callable[[Array, Array], Array], call: OpCall) -> Outputs:
    """Another table, by the right one and the number of each place in it."""
    rows = roi.outputs(call)[LISTS]
    return {LISTS: change(rows, np.arange(rows.shape[-1])).astype("<i4")}


def _of_argmax(change: Callable[[Array, Array], Array], call: OpCall) -> Outputs:
    """Another argmax, by the right one and the table."""
    own = roi.outputs(call)
    return {ARGMAX: change(own[ARGMAX], own[LISTS]).astype("<i4")}


def _of_mean(scale: Callable[[OpCall, Array], Array], call: OpCall) -> Outputs:
    """Means times that of the call and the counts."""
    own = roi.outputs(call)
    counts = np.maximum(own[LISTS][..., :1], 1).astype(np.float64)
    with np.errstate(all="ignore"):
        means = (own[POOLED] * scale(call, counts)).astype(own[POOLED].dtype)
    return {} if roi.is_max(call) else {POOLED: means}


def _places_in_lists(argmax: Array, rows: Array) -> Array:
    is_listed = np.arange(rows.shape[-1]) <= rows[..., :1]
    is_listed[..., 0] = False
    before = [((rows < argmax[..., c, None]) & is_listed).sum(axis=-1) for c in range(argmax.shape[-1])]
    return np.where(argmax < 0, -1, np.stack(before, axis=-1))


def _minus_inf_counts(call: OpCall) -> Outputs:
    """A cell that has points has a maximum, its first point's where all are −Inf."""
    own = roi.outputs(call)
    is_lost = (own[ARGMAX] < 0) & (own[LISTS][..., :1] > 0)
    first, lowest = own[LISTS][..., :2][..., -1:], own[POOLED].dtype.type(-np.inf)
    return {ARGMAX: np.where(is_lost, first, own[ARGMAX]), POOLED: np.where(is_lost, lowest, own[POOLED])}


SUSPECTS: Final[Mapping[str, Suspect]] = {
    **misread_boxes(_answer, roi.TEST, "rois"),
    **{words: partial(_answer, place=place) for words, place in _PLACES.items()},
    "K points are pooled": lambda call: roi.pool(call, roi.find_entries(call).first(_most(call))),
    "all points of a cell are pooled": lambda call: roi.pool(call, roi.find_entries(call)),
    "all points of a cell are counted": _all_counted,
    "points are listed from the last to the first": lambda call: roi.outputs(call, _reversed(roi.find_entries(call))),
    "cells of one box are shared by the next": _of_first_box,
    "listed points count from 1": partial(
        _of_lists, lambda rows, place: rows + ((place > 0) & (place <= rows[..., :1]))
    ),
    "listed points count within 64": partial(_of_lists, lambda rows, place: np.where(place > 0, rows % 64, rows)),
    "places without a point have −1": partial(_of_lists, lambda rows, place: np.where(place > rows[..., :1], -1, rows)),
    "the list has no count": partial(_of_lists, lambda rows, _: np.append(rows[..., 1:], 0 * rows[..., :1], axis=-1)),
    "argmax is the place in the list": partial(_of_argmax, _places_in_lists),
    "argmax counts from 1": partial(_of_argmax, lambda argmax, _: argmax + (argmax >= 0)),
    "argmax of an empty cell is 0": partial(_of_argmax, lambda argmax, _: np.maximum(argmax, 0)),
    "the last of equals is the largest": lambda call: roi.pool(call, _reversed(roi.find_listed(call))),
    "the maximum starts at 0": as_read(reference, misread(pts_feature=lambda rows: np.where(rows > 0, rows, -np.inf))),
    "a maximum of −Inf counts": _minus_inf_counts,
    "the mean is a sum": partial(_of_mean, lambda _, counts: counts),
    "the mean is that of K": partial(_of_mean, lambda call, counts: counts / _most(call)),
    "the mean is that of all points": partial(_of_mean, lambda call, counts: counts / call.param("pts_num")),
    "the mean is that of one point more": partial(_of_mean, lambda _, counts: counts / (counts + 1)),
    "maximum and mean are exchanged": as_read(
        reference, lambda call: with_params(call, pool_method=1 - call.param("pool_method"))
    ),
}


# One element as §1.2 and §3.1 define it.
def elements(call: OpCall) -> Mapping[str, exact_numbers.ExactElement]:
    """In exact arithmetic."""
    rois, points, features = call.arrays(*INPUTS)
    grid = roi.shape_of(call, "channels")[1:4]
    most = int(call.param("max_pts_each_voxel")) - 1

    @cache
    def cell_of(box: int, number: int) -> tuple[int, ...] | None:
        if not is_exactly_inside(points[number], rois[box], bottom=True):
            return None
        dx, dy, dz = (exact_numbers.fraction(length) for length in rois[box, 3:6])
        x, y, z = exactly_local(points[number], rois[box], bottom=False)
        from_corner = ((x + dx / 2, dx), (y + dy / 2, dy), (z, dz))
        places = (math.trunc(away / (length / n)) for (away, length), n in zip(from_corner, grid, strict=True))
        return tuple(min(max(place, 0), n - 1) for place, n in zip(places, grid, strict=True))

    @cache
    def listed(box: int, *cell: int) -> list[int]:
        return [number for number in range(len(points)) if cell_of(box, number) == cell][:most]

    def pts_idx(*entry: int) -> int:
        numbers = listed(*entry[:4])
        return [len(numbers), *numbers, *[0] * most][entry[4]]

    def largest(*cell: int, channel: int) -> int:
        """The first point of the largest feature above −Inf, or −1."""
        numbers = [number for number in listed(*cell) if features[number, channel] > -math.inf]
        return max(numbers, key=lambda number: features[number, channel], default=-1)

    def argmax(*element: int) -> int:
        return largest(*element[:4], channel=element[4]) if roi.is_max(call) else 0

    def pooled_features(*element: int) -> Fraction | float:
        *cell, channel = element
        numbers = listed(*cell)
        if roi.is_max(call):
            numbers = [number for number in [largest(*cell, channel=channel)] if number >= 0]
        values = [exact_numbers.fraction(features[number, channel]) for number in numbers]
        return sum(values, Fraction(0)) / max(1, len(values))

    return {"argmax": argmax, "pts_idx_of_voxels": pts_idx, "pooled_features": pooled_features}


# The kernel that the numpy backend runs: a box at a time against all points in float32, cells by a reciprocal.


def kernel(call: OpCall) -> Status:
    """Check the call, list the points of every cell, pool them."""
    rois = call.inputs["rois"]
    most = 2944 if rois is not None and rois.dtype is DType.HALF else 2976
    if (refused := first_status(roi.kernel_refusals(OPERATOR, call, most, ARGMAX))) is not None:
        return refused
    lists, grid = call.array(LISTS), [int(call.param(name)) for name in roi.GRID]
    lists[...] = 0
    call.array(POOLED)[...] = 0
    argmax = call.outputs[ARGMAX]
    if argmax is not None and argmax.array is not None:
        argmax.array[...] = -1 if roi.is_max(call) else 0
    points = np.ascontiguousarray(call.array("pts").T, np.float32)
    for number, box in enumerate(call.array("rois").astype(np.float32)):
        inside, cells = _locate(points, box, grid)
        order = np.argsort(cells, kind="stable")
        inside, cells = inside[order], cells[order]
        places = 1 + np.arange(len(cells)) - np.searchsorted(cells, cells)
        rows, has_room = lists[number].reshape(-1, lists.shape[-1]), places < lists.shape[-1]
        rows[cells[has_room], places[has_room]] = inside[has_room]
        rows[:, 0] = np.minimum(np.bincount(cells, minlength=len(rows)), lists.shape[-1] - 1)
        for cell in np.flatnonzero(rows[:, 0]).tolist():
            _pool(call, (number, *np.unravel_index(cell, grid)), rows[cell, 1 : 1 + rows[cell, 0]])
    return Status.SUCCESS


def _locate(points: Array, box: Array, grid: list[int]) -> tuple[Array, Array]:
    """Which of points [3, n] are inside, and their cells."""
    x, y, z = points - box[:3, None]
    dx, dy, dz, rz = box[3:]
    half = np.float32(0.5)
    with np.errstate(all="ignore"):
        cosine, sine = np.cos(rz), np.sin(rz)
        along, across = x * cosine + y * sine, y * cosine - x * sine
        is_in = (np.abs(along) < dx * half) & (np.abs(across) < dy * half) & (np.abs(z - dz * half) <= dz * half)
        inside = np.flatnonzero(is_in)
        corner = (along[inside] + dx * half, across[inside] + dy * half, z[inside])
        cell = np.zeros(len(inside), np.int64)
        for offset, length, count in zip(corner, (dx, dy, dz), grid, strict=True):
            place = (offset * (np.float32(1) / (length / np.float32(count)))).astype(np.int64)
            cell = cell * count + np.minimum(np.maximum(place, 0), count - 1)
    return inside, cell


def _pool(call: OpCall, where: tuple[Any, ...], points: Array) -> None:
    rows = call.array("pts_feature")[points].astype(np.float32)
    result = call.array(POOLED)
    with np.errstate(all="ignore"):
        if not roi.is_max(call):
            result[where] = rows.sum(axis=0, dtype=np.float32) / np.float32(len(points))
            return
        # The first of equals.
        place = rows.argmax(axis=0)
        largest = rows[place, np.arange(rows.shape[1])]
        is_there = largest != -np.inf
        result[where] = np.where(is_there, largest, 0)
        call.array(ARGMAX)[where] = np.where(is_there, points[place], -1)


_FORWARD: Final = "mluOpRoiAwarePool3dForward"
_QUERY: Final = "mluOpGetRoiAwarePool3dForwardWorkspaceSize"
_INT32: Final = {DType.INT32: mg.exact()}
# The largest is a copy.
_POOLED_CRITERIA: Final = {
    dtype: mg.CriteriaByParam("pool_method", {roi.MAX: mg.exact(), roi.AVERAGE: of_mean})
    for dtype, of_mean in roi.CRITERIA.items()
}

OPERATOR = mg.Operator(
    name="roiaware_pool3d_forward",
    op_type=("ROIAWARE_POOL3D_FORWARD", 10120),
    summary="Lists the first points in each cell of turned boxes, and pools their features by maximum or mean.",
    # §3.7 checks no layout.
    inputs=(
        mg.TensorSpec("rois", "[boxes_num, 7]", roi.FLOATS, None),
        mg.TensorSpec("pts", "[pts_num, 3]", roi.FLOATS, None),
        mg.TensorSpec("pts_feature", "[pts_num, channels]", roi.FLOATS, None),
    ),
    outputs=(
        mg.OutputSpec(ARGMAX, roi.OF_CHANNELS, _INT32, None, may_stay=lambda call: not roi.is_max(call)),
        mg.OutputSpec(LISTS, roi.LISTS, _INT32, None),
        mg.OutputSpec(POOLED, roi.OF_CHANNELS, _POOLED_CRITERIA, None),
    ),
    params=roi.roiaware_params("forward", 10120, "boxes_num", "pts_num", "channels", "max_pts_each_voxel", *roi.GRID),
    axes={
        "boxes": mg.axis("boxes_num", of="rois"),
        "points": mg.axis("pts_num", of="pts"),
        "channels": mg.axis("channels", of="pts_feature"),
    },
    sizes={"boxes": mg.SizedAxis("rois", 0)},
    checks=CHECKS,
    subsumed={"rois_large": "fewer than 65536 boxes have fewer than 2^31 elements"},
    # The query looks at pts_feature alone; without points it writes 0.
    queries={_QUERY: mg.QueryChecks(("handle_null", "pts_feature_desc_null", mg.SIZE_NULL))},
    reference=reference,
    bound=bound,
    theory=theory,
    kernel=kernel,
    recipes={"scene": scenes.scene, "cells": scenes.cells, "borders": scenes.borders},
    space=scenes.FORWARD_SPACE,
    suspects=SUSPECTS,
    precondition=precondition,
    left_open={"undefined": find_left_open, "subnormal": left_open.find_subnormal},
    workspace_size=workspace_size,
    c_api=c_api.c_function(
        _FORWARD,
        query=_QUERY,
        arguments=(
            c_api.HANDLE,
            *c_api.scalar("pool_method", "boxes_num", "pts_num", "channels"),
            *c_api.tensor(*INPUTS),
            c_api.WORKSPACE,
            c_api.WORKSPACE_SIZE,
            *c_api.scalar("max_pts_each_voxel", *roi.GRID),
            *c_api.tensor(ARGMAX, LISTS, POOLED),
        ),
        query_arguments=(c_api.HANDLE, *c_api.descriptor(*INPUTS), c_api.ASKED_SIZE),
        # §2.2 spells them so; the header calls that deprecated.
        twins={_FORWARD: "mluOpRoiawarePool3dForward", _QUERY: "mluOpGetRoiawarePool3dForwardWorkspaceSize"},
    ),
    exact=elements,
)
