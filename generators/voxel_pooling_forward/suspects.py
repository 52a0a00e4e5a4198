"""Mistakes that kernels make where points meet in a cell (§1.4: atomic adds)."""

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.lost_terms import Terms, lost_terms

from .reference import counted


def _points(call: OpCall) -> Terms:
    geometry, features = call.array("geom_xyz"), call.array("input_features")
    width, height, depth = (call.param(f"num_voxel_{axis}") for axis in "xyz")
    batches, points, channels = features.shape
    rows = np.flatnonzero(counted(geometry, width, height, depth))
    x, y = geometry.reshape(-1, 3)[rows, :2].T.astype(np.int64)
    cells = ((rows // points) * height + y) * width + x
    return Terms(features.reshape(-1, channels)[rows].astype(np.float64), cells, batches * height * width)


def _shaped(sums: Array, call: OpCall) -> Array:
    return sums.reshape(call.tensor("output_features").dims)


SUSPECTS = lost_terms("output_features", "point", "cell", _points, _shaped)
