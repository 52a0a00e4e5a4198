"""roiaware_pool3d_forward: the points in each cell of turned boxes, and the largest or mean of their features."""

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import (
    SIZE_NULL,
    Array,
    Baseline,
    Bound,
    Check,
    CriteriaByParam,
    DType,
    OpCall,
    Operator,
    OutputSpec,
    QueryChecks,
    SizedAxis,
    Status,
    TensorSpec,
    Theory,
    axis,
    checks,
    exact,
)
from mluops_gtest.authoring.c_api import (
    ASKED_SIZE,
    HANDLE,
    WORKSPACE,
    WORKSPACE_SIZE,
    c_function,
    descriptor,
    scalar,
    tensor,
)
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction
from mluops_gtest.authoring.left_open import find_subnormal
from mluops_gtest.authoring.sums import lattice_unit

from .._shared import roiaware as roi
from .._shared.boxes import exactly_local, find_undefined, is_exactly_inside, undecided_pair
from .suspects import SUSPECTS

INPUTS: Final = ("rois", "pts", "pts_feature")
# §1.4's 2880 and 2930 are older than the library's limits.
MOST_POINTS: Final = {DType.FLOAT: 2976, DType.HALF: 2944}
_POOLED: Final = f"[{roi.CELLS}, channels]"


# What is checked, in normative order.


def _shape(output: str, last: str, doc: str) -> Check:
    return checks.require(
        f"{output}_shape",
        lambda call: call.tensor(output).dims == roi.shape_of(call, last),
        f"{output} must be [{roi.CELLS}, {last}]",
        doc,
    )


CHECKS = (
    checks.handle("§3.7 (1)"),
    # §1.3: argmax belongs to the maximum alone, and is asked for at the end.
    checks.descriptors(*INPUTS, "pts_idx_of_voxels", "pooled_features", doc="§3.7 (1)"),
    checks.ranks(*INPUTS, "pts_idx_of_voxels", "pooled_features", doc="§3.7 (2)"),
    checks.dims("rois.0", "rois.1", "pts.0", "pts.1", "pts_feature.0", "pts_feature.1", doc="§3.7 (3)"),
    _shape("pts_idx_of_voxels", "max_pts_each_voxel", "§3.7 (3)"),
    _shape("pooled_features", "channels", "§3.7 (3)"),
    checks.dtypes(
        "rois", "pts = rois", "pts_feature = rois", "pooled_features = rois", "pts_idx_of_voxels", doc="§3.7 (4)"
    ),
    checks.params("pool_method", doc="§3.7 (5)"),
    # §1.1: what has no element is refused.
    checks.params("boxes_num", "pts_num", "channels", "max_pts_each_voxel", *roi.GRID, doc="§1.1"),
    checks.strided(*INPUTS, doc="§1.4"),
    checks.only_if(lambda call: call.outputs["argmax"] is not None, checks.strided("argmax", doc="§1.4")),
    checks.strided("pts_idx_of_voxels", "pooled_features", doc="§1.4"),
    roi.at_most("boxes_num", roi.MOST),
    roi.at_most("channels", roi.MOST),
    checks.require(
        "points_of_cell",
        lambda call: call.param("max_pts_each_voxel") <= MOST_POINTS[call.tensor("rois").dtype],
        "max_pts_each_voxel ≤ 2976, of half 2944",
        "released",
        Status.NOT_SUPPORTED,
    ),
    checks.large(*INPUTS, "pts_idx_of_voxels", "pooled_features", doc="§3.7 (8)"),
    checks.require(
        "pairs",
        lambda call: call.param("boxes_num") * call.param("pts_num") < 1 << 31,
        "boxes_num · pts_num must be less than 2^31",
        "released",
        Status.NOT_SUPPORTED,
    ),
    checks.workspace("§3.7 (9)"),
    checks.pointers(*INPUTS, "pts_idx_of_voxels", "pooled_features", doc="§3.7 (10)"),
    checks.only_if(
        roi.is_max,
        checks.descriptors("argmax", doc="§1.3"),
        checks.ranks("argmax", doc="§1.3"),
        _shape("argmax", "channels", "§1.3"),
        checks.dtypes("argmax", doc="§1.3"),
        checks.pointers("argmax", doc="§1.3"),
    ),
    checks.arch("released; asked last"),
)


def workspace_size(call: OpCall) -> int:
    """§3.4: points and features, transposed, and room to transpose them."""
    points, channels = call.tensor("pts_feature").dims
    return points * (3 + channels + max(channels, 3)) * call.tensor("pts_feature").dtype.storage.itemsize


def precondition(call: OpCall) -> str | None:
    """Rounding decides neither whether a point is inside nor its cell; no point lies in a box without height."""
    test = roi.cell_test(call.params)
    return undecided_pair(call.array("pts")[None], call.array("rois")[None], test, call.tensor("rois").dtype)


def find_left_open(call: OpCall, baseline: Baseline) -> str | None:
    """§1.4: no infinite coordinates, no NaN among the features of which the largest is asked for."""
    if not np.isfinite(call.array("pts")).all():
        return "pts has NaN or an infinity"
    if roi.is_max(call) and np.isnan(call.array("pts_feature")).any():
        return "pts_feature has NaN, and the largest of them is asked for"
    return find_undefined("pts", "rois")(call, baseline)


# The oracle.


def reference(call: OpCall) -> Baseline:
    """Every element of all outputs; argmax with the mean may stay as it was."""
    return Baseline(roi.outputs(call, roi.entries_of(call)))


def bound(call: OpCall) -> Mapping[str, Bound]:
    """The largest is a copy; the mean is a sum and a division, or a product with a reciprocal."""
    if roi.is_max(call):
        return {"pooled_features": Bound(0.0)}
    added = roi.mean_terms(call, roi.kept(call))
    unit = lattice_unit(call.array("pts_feature")) / np.maximum(added.met, 1)
    return {"pooled_features": Bound(added.magnitudes, added.met, unit=unit, afterwards=2)}


def theory(call: OpCall) -> Theory:
    """17 operations for a point and a box, and one for each feature that is pooled; argmax with the maximum alone."""
    names = (*INPUTS, "pts_idx_of_voxels", "pooled_features", *(("argmax",) if roi.is_max(call) else ()))
    kept = roi.kept(call)
    ops = 17 * call.param("boxes_num") * call.param("pts_num") + len(kept.cells) * call.param("channels")
    return Theory(sum(call.tensor(name).desc.nbytes for name in names), ops)


# One element as §1.2 and §3.1 define it.


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """In exact arithmetic."""
    rois, points, features = call.arrays(*INPUTS)
    grid = [int(call.param(name)) for name in roi.GRID]
    most = int(call.param("max_pts_each_voxel")) - 1

    @cache
    def cells_of(box: int) -> dict[tuple[int, ...], list[int]]:
        cells: dict[tuple[int, ...], list[int]] = {}
        lengths = [fraction(value) for value in rois[box, 3:6]]
        for number, point in enumerate(points):
            if is_exactly_inside(point, rois[box], bottom=True):
                x, y, z = exactly_local(point, rois[box], bottom=False)
                from_corner = (x + lengths[0] / 2, y + lengths[1] / 2, z)
                places = (math.trunc(a / (b / n)) for a, b, n in zip(from_corner, lengths, grid, strict=True))
                cell = tuple(min(max(i, 0), n - 1) for i, n in zip(places, grid, strict=True))
                cells.setdefault(cell, []).append(number)
        return {cell: numbers[:most] for cell, numbers in cells.items()}

    def of(box: int, *cell: int) -> list[int]:
        return cells_of(box).get(cell, [])

    def pts_idx(box: int, i: int, j: int, k: int, entry: int) -> int:
        numbers = of(box, i, j, k)
        return [len(numbers), *numbers, *[0] * most][entry]

    def best(box: int, i: int, j: int, k: int, channel: int) -> int:
        found, largest = -1, -math.inf
        for number in of(box, i, j, k):
            if features[number, channel] > largest:
                found, largest = number, features[number, channel]
        return found

    def argmax(box: int, i: int, j: int, k: int, channel: int) -> int:
        return best(box, i, j, k, channel) if roi.is_max(call) else 0

    def pooled_features(box: int, i: int, j: int, k: int, channel: int) -> Fraction | float:
        if roi.is_max(call):
            number = best(box, i, j, k, channel)
            return Fraction(0) if number < 0 else fraction(features[number, channel])
        values = [fraction(features[number, channel]) for number in of(box, i, j, k)]
        return sum(values, Fraction(0)) / len(values) if values else Fraction(0)

    return {"argmax": argmax, "pts_idx_of_voxels": pts_idx, "pooled_features": pooled_features}


# The kernel that the numpy backend runs: a box at a time against tiles of points in float32, cells by a reciprocal.

_TILES: Final = {DType.FLOAT: 11648, DType.HALF: 13056}


def kernel(call: OpCall) -> Status:
    """Check the call, list the points of every cell, pool them."""
    refused = _refusal(call)
    if refused is not None:
        return refused
    listed, grid = call.array("pts_idx_of_voxels"), [int(call.param(name)) for name in roi.GRID]
    listed[...] = 0
    call.array("pooled_features")[...] = 0
    argmax = call.outputs["argmax"]
    if argmax is not None and argmax.array is not None:
        argmax.array[...] = -1 if roi.is_max(call) else 0
    points = np.ascontiguousarray(call.array("pts").T, np.float32)
    tile = _TILES[call.tensor("rois").dtype]
    for number, box in enumerate(call.array("rois").astype(np.float32)):
        rows = listed[number].reshape(-1, listed.shape[-1])
        for first in range(0, points.shape[1], tile):
            inside, cells = _locate(points[:, first : first + tile], box, grid)
            for point, cell in zip((inside + first).tolist(), cells.tolist(), strict=True):
                if rows[cell, 0] < listed.shape[-1] - 1:
                    rows[cell, 0] += 1
                    rows[cell, rows[cell, 0]] = point
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
    result = call.array("pooled_features")
    with np.errstate(all="ignore"):
        if not roi.is_max(call):
            result[where] = rows.sum(axis=0, dtype=np.float32) / np.float32(len(points))
            return
        # The first of equals.
        place = rows.argmax(axis=0)
        largest = rows[place, np.arange(rows.shape[1])]
        is_there = largest != -np.inf
        result[where] = np.where(is_there, largest, 0)
        call.array("argmax")[where] = np.where(is_there, points[place], -1)


def _refusal(call: OpCall) -> Status | None:
    numbers = roi.numbers_of(call)
    boxes, points, channels = (numbers[name] for name in ("boxes_num", "pts_num", "channels"))
    cells = (boxes, *(numbers[name] for name in roi.GRID))
    dims = {"rois": (boxes, 7), "pts": (points, 3), "pts_feature": (points, channels), "argmax": (*cells, channels)}
    dims |= {"pts_idx_of_voxels": (*cells, numbers["max_pts_each_voxel"]), "pooled_features": (*cells, channels)}
    rois = call.inputs["rois"]
    return roi.kernel_refusal(call, dims, 2944 if rois is not None and rois.dtype is DType.HALF else 2976, "argmax")


_FORWARD: Final = "mluOpRoiAwarePool3dForward"
_QUERY: Final = "mluOpGetRoiAwarePool3dForwardWorkspaceSize"
_INT32: Final = {DType.INT32: exact()}
# The largest is a copy.
_POOLED_CRITERIA: Final = {
    dtype: CriteriaByParam("pool_method", {roi.MAX: exact(), roi.AVERAGE: of_mean})
    for dtype, of_mean in roi.CRITERIA.items()
}

OPERATOR = Operator(
    name="roiaware_pool3d_forward",
    released_name="roiaware_pool3d_forward",
    op_type=("ROIAWARE_POOL3D_FORWARD", 10120),
    summary="Lists the first points in each cell of turned boxes, and pools their features by maximum or mean.",
    # §3.7 checks no layout.
    inputs=(
        TensorSpec("rois", "[boxes_num, 7]", roi.FLOATS, None),
        TensorSpec("pts", "[pts_num, 3]", roi.FLOATS, None),
        TensorSpec("pts_feature", "[pts_num, channels]", roi.FLOATS, None),
    ),
    outputs=(
        OutputSpec("argmax", _POOLED, _INT32, None, may_stay=lambda call: not roi.is_max(call)),
        OutputSpec("pts_idx_of_voxels", f"[{roi.CELLS}, max_pts_each_voxel]", _INT32, None),
        OutputSpec("pooled_features", _POOLED, _POOLED_CRITERIA, None),
    ),
    params=roi.roiaware_params(
        *("roiaware_pool3d_forward_param", 10120, "RoiawarePool3dForwardParam"),
        *("boxes_num", "pts_num", "channels", "max_pts_each_voxel", *roi.GRID),
    ),
    axes={
        "boxes": axis("boxes_num", of="rois"),
        "points": axis("pts_num", of="pts"),
        "channels": axis("channels", of="pts_feature"),
    },
    sizes={"boxes": SizedAxis("rois", 0), "channels": SizedAxis("pts_feature", 1)},
    checks=CHECKS,
    subsumed={"rois_large": "fewer than 65536 boxes have fewer than 2^31 elements"},
    # The query looks at pts_feature alone; without points it writes 0.
    queries={_QUERY: QueryChecks(("handle_null", "pts_feature_desc_null", SIZE_NULL))},
    reference=reference,
    bound=bound,
    theory=theory,
    kernel=kernel,
    suspects=SUSPECTS,
    precondition=precondition,
    left_open={"undefined": find_left_open, "subnormal": find_subnormal},
    workspace_size=workspace_size,
    c_api=c_function(
        _FORWARD,
        query=_QUERY,
        arguments=(
            HANDLE,
            *scalar("pool_method", "boxes_num", "pts_num", "channels"),
            *tensor(*INPUTS),
            WORKSPACE,
            WORKSPACE_SIZE,
            *scalar("max_pts_each_voxel", *roi.GRID),
            *tensor("argmax", "pts_idx_of_voxels", "pooled_features"),
        ),
        query_arguments=(HANDLE, *descriptor(*INPUTS), ASKED_SIZE),
        # §2.2 spells them so; the header calls that deprecated.
        twins={_FORWARD: "mluOpRoiawarePool3dForward", _QUERY: "mluOpGetRoiawarePool3dForwardWorkspaceSize"},
    ),
    exact=elements,
)
