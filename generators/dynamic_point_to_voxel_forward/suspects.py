"""Mistakes that kernels make about the points of a voxel, and about which voxels there are."""

from collections.abc import Callable, Mapping

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.suspects import Suspect, as_read, with_inputs, with_params

from .checks import REDUCE_MODE_MAX, REDUCE_MODE_MEAN
from .reference import reference
from .voxels import Voxels, voxels_of

# The features of all valid points, voxel by voxel, and the voxels → one row each.
_Reduction = Callable[[Array, Voxels], Array]


def _reduced(reduction: _Reduction, mode: int | None = None) -> Suspect:
    """voxel_feats by that reduction, in calls of that mode."""

    def outputs(call: OpCall) -> Mapping[str, Array]:
        if mode is not None and call.param("reduce_type") != mode:
            return {}
        right = reference(call).outputs["voxel_feats"]
        voxels = voxels_of(call.array("coors"))
        if voxels.count:
            with np.errstate(invalid="ignore", over="ignore"):
                right[: voxels.count] = reduction(call.array("feats")[voxels.points].astype(np.float64), voxels)
        return {"voxel_feats": right}

    return outputs


def _sums(rows: Array, voxels: Voxels) -> Array:
    sums: Array = np.add.reduceat(rows, voxels.starts, axis=0)
    return sums


def _one_point_more(rows: Array, voxels: Voxels) -> Array:
    means: Array = _sums(rows, voxels) / (voxels.sizes[:, None] + 1)
    return means


def _in_mode(mode: int) -> Suspect:
    """Every call of another mode reduced in this one."""

    def misread(call: OpCall) -> OpCall | None:
        return None if call.param("reduce_type") == mode else with_params(call, reduce_type=mode)

    return as_read(reference, misread)


def _first_met(call: OpCall) -> Mapping[str, Array]:
    outputs = dict(reference(call).outputs)
    voxels = voxels_of(call.array("coors"))
    order = np.argsort([voxels.points[start] for start in voxels.starts], kind="stable")
    places = np.empty(voxels.count, np.int64)
    places[order] = np.arange(voxels.count)
    for name in ("voxel_feats", "voxel_coors", "voxel_points_count"):
        array = outputs[name] = outputs[name].copy()
        array[: voxels.count] = array[: voxels.count][order]
    valid = voxels.of_point >= 0
    outputs["point2voxel_map"] = outputs["point2voxel_map"].copy()
    outputs["point2voxel_map"][valid] = places[voxels.of_point[valid]]
    return outputs


def _zero_is_invalid(call: OpCall) -> OpCall:
    coors = call.array("coors")
    return with_inputs(call, coors=np.where((coors == 0).any(axis=1)[:, None], np.int32(-1), coors))


SUSPECTS = {
    "the sum is not divided by the number of points": _reduced(_sums, REDUCE_MODE_MEAN),
    "the mean divides by one point more": _reduced(_one_point_more, REDUCE_MODE_MEAN),
    "the mean is taken for the maximum": _in_mode(REDUCE_MODE_MEAN),
    "the maximum is taken for the mean": _in_mode(REDUCE_MODE_MAX),
    "the last point of every voxel wins": _reduced(lambda rows, voxels: rows[voxels.starts + voxels.sizes - 1]),
    "the smallest feature of every voxel is taken": _reduced(
        lambda rows, voxels: np.fmin.reduceat(rows, voxels.starts, axis=0), REDUCE_MODE_MAX
    ),
    "voxels stand in the order in which points meet them": _first_met,
    # §3.1.2's `gt 0`.
    "points with a coordinate 0 are invalid": as_read(reference, _zero_is_invalid),
}
