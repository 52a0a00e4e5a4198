"""One cell of output_features and one entry of pos_memo as §3.2 lists them."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from mluops_gtest.authoring import OpCall
from mluops_gtest.authoring.exact_numbers import ExactElement, total


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The sum of all points of a cell, of every depth; where a point went."""
    geometry, features = call.array("geom_xyz"), call.array("input_features")
    width, height, depth = (call.param(f"num_voxel_{axis}") for axis in "xyz")

    def output_features(batch: int, y: int, x: int, channel: int) -> Fraction | float:
        points = geometry[batch]
        of_cell = (points[:, 0] == x) & (points[:, 1] == y) & (points[:, 2] >= 0) & (points[:, 2] < depth)
        return total(features[batch, np.flatnonzero(of_cell), channel].astype(np.float64))

    def pos_memo(batch: int, point: int, entry: int) -> int:
        x, y, z = geometry[batch, point].tolist()
        counts = 0 <= x < width and 0 <= y < height and 0 <= z < depth
        return (batch, y, x)[entry] if counts else -1

    return {"output_features": output_features, "pos_memo": pos_memo}
