"""How a call becomes smaller: fewer points, voxels and channels, with the counts that belong to them."""

import numpy as np

from mluops_gtest.authoring import Array, OpCall, RecipeOutput
from mluops_gtest.authoring.reductions import Reduction, along, changed, without_rows

from . import OPERATOR

_BY_POINT = ("feats", "point2voxel_map")
_BY_VOXEL = ("grad_voxel_feats", "voxel_feats", "voxel_points_count")


def _without_points(call: OpCall, start: int, stop: int) -> RecipeOutput:
    """Their voxels count so many fewer; one that kept its count had a wrong one before."""
    inputs = {name: without_rows(call.array(name), start, stop) for name in _BY_POINT}
    counts = call.array("voxel_points_count").copy()
    gone = call.array("point2voxel_map")[start:stop]
    np.subtract.at(counts, gone[gone >= 0], 1)
    points = call.tensor("feats").dims[0] - (stop - start)
    dims = (points, *call.tensor("grad_feats").dims[1:])
    return changed(call, {**inputs, "voxel_points_count": counts}, outputs={"grad_feats": dims})


def _without_voxels(call: OpCall, start: int, stop: int) -> RecipeOutput:
    """The points of a lost voxel are in none."""
    inputs = {name: without_rows(call.array(name), start, stop) for name in _BY_VOXEL}
    number = call.array("voxel_num")
    left = number - np.clip(number - start, 0, stop - start).astype(number.dtype)
    return changed(call, {**inputs, "voxel_num": left, "point2voxel_map": _renamed(call, start, stop)})


def _renamed(call: OpCall, start: int, stop: int) -> Array:
    names = call.array("point2voxel_map")
    return np.select([names >= stop, names >= start], [names - (stop - start), -1], names)


REDUCTIONS = {
    "points": Reduction(lambda call: call.tensor("feats").dims[0], _without_points),
    "voxels": Reduction(lambda call: call.tensor("voxel_feats").dims[0], _without_voxels),
    "channels": along(OPERATOR, "C"),
}
