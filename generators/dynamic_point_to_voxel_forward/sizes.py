"""What cases are declared for in size, and the features as a kernel sees them that loses one index of it."""

from collections.abc import Mapping

import numpy as np

from mluops_gtest.authoring import Array, OpCall, SizedAxis

from .checks import REDUCE_MODE_MEAN
from .voxels import voxels_of


def _crowd(call: OpCall) -> Array:
    """The points of the voxel that has the most, ascending."""
    voxels = voxels_of(call.array("coors"))
    most = voxels.sizes.argmax()
    crowd: Array = voxels.points[voxels.starts[most] : voxels.starts[most] + voxels.sizes[most]]
    return crowd


def _point_lost(call: OpCall, index: int) -> Mapping[str, Array]:
    """The point adds nothing and never wins; that it is counted does not save it."""
    feats = call.array("feats").copy()
    feats[index] = 0 if call.param("reduce_type") == REDUCE_MODE_MEAN else -np.inf
    return {"feats": feats}


def _member_lost(call: OpCall, index: int) -> Mapping[str, Array]:
    return _point_lost(call, int(_crowd(call)[index]))


SIZES: Mapping[str, SizedAxis] = {
    "points": SizedAxis("feats", 0, without=_point_lost),
    # Rows behind the voxels are nobody's.
    "voxels": SizedAxis("voxel_feats", 0, count=lambda call: voxels_of(call.array("coors")).count),
    "channels": SizedAxis("voxel_feats", 1),
    "points_of_a_voxel": SizedAxis("feats", count=lambda call: len(_crowd(call)), without=_member_lost),
}
