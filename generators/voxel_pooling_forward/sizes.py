"""What cases are declared for in size, and the points as a kernel sees them that loses one layer."""

from collections.abc import Mapping

import numpy as np

from mluops_gtest.authoring import Array, OpCall, SizedAxis


def _layer_lost(call: OpCall, index: int) -> Mapping[str, Array]:
    """The points of that z lie outside."""
    geometry = call.array("geom_xyz")
    return {"geom_xyz": np.where(geometry[..., 2:] == index, np.int32(-1), geometry)}


SIZES: Mapping[str, SizedAxis] = {
    "batches": SizedAxis("input_features", 0),
    "points": SizedAxis("input_features", 1),
    "channels": SizedAxis("input_features", 2),
    "height": SizedAxis("output_features", 1),
    "width": SizedAxis("output_features", 2),
    "depth": SizedAxis("geom_xyz", count=lambda call: int(call.param("num_voxel_z")), without=_layer_lost),
}
