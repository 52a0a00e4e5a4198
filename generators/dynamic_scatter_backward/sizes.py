"""What cases are declared for in size, and the map as a kernel sees it that loses one index of it."""

from collections.abc import Mapping

import numpy as np

from mluops_gtest.authoring import Array, OpCall, SizedAxis


def _crowd(call: OpCall) -> Array:
    """The points of the voxel that has the most, ascending."""
    voxel_of = call.array("point2voxel_map")
    crowd: Array = np.flatnonzero(voxel_of == np.bincount(voxel_of[voxel_of >= 0]).argmax())
    return crowd


def _member_lost(call: OpCall, index: int) -> Mapping[str, Array]:
    voxel_of = call.array("point2voxel_map").copy()
    voxel_of[_crowd(call)[index]] = -1
    return {"point2voxel_map": voxel_of}


SIZES: Mapping[str, SizedAxis] = {
    # A map entry of −1 is a point without a voxel.
    "points": SizedAxis("point2voxel_map"),
    "voxels": SizedAxis("grad_voxel_feats", 0),
    "channels": SizedAxis("grad_voxel_feats", 1),
    "points_of_a_voxel": SizedAxis("point2voxel_map", count=lambda call: len(_crowd(call)), without=_member_lost),
}
