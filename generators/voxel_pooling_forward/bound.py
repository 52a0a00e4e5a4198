"""What arithmetic allows: a cell is a sum of the features of its points, in any order (§1.4)."""

import numpy as np

from mluops_gtest.authoring import Bound, OpCall
from mluops_gtest.authoring.sums import lattice_unit

from .pooling import pooled
from .reference import counted


def bound(call: OpCall) -> dict[str, Bound]:
    """Σ|features| of every cell, and a rounding per point."""
    geometry, features = call.array("geom_xyz"), call.array("input_features")
    width, height, depth = (call.param(f"num_voxel_{axis}") for axis in "xyz")
    batches, points, channels = features.shape
    inside = counted(geometry, width, height, depth)
    rows = np.flatnonzero(inside)
    x, y = geometry.reshape(-1, 3)[rows, :2].T.astype(np.int64)
    cells = ((rows // points) * height + y) * width + x
    count = batches * height * width
    sums = pooled(features.reshape(batches * points, channels), rows, cells, count, absolute=True)
    terms = np.bincount(cells, minlength=count)
    return {
        "output_features": Bound(
            sums.reshape(batches, height, width, channels),
            terms.reshape(batches, height, width, 1),
            unit=lattice_unit(features, of_sums=sums),
        )
    }
