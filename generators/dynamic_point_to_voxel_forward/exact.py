"""One element of each output as §1.2 defines it: voxels are the distinct rows of valid points, ascending."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from mluops_gtest.authoring import OpCall
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction, total

_MEAN = 1


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """What the points with the same coordinates have in common; rows behind the last voxel are nobody's."""
    feats = call.array("feats")
    rows = [tuple(row) for row in call.array("coors").tolist()]
    # A point is valid if none of its coordinates is negative.
    voxels = sorted({row for row in rows if min(row) >= 0})
    number = {voxel: place for place, voxel in enumerate(voxels)}
    voxel_of = np.array([number.get(row, -1) for row in rows])

    def voxel_feats(voxel: int, channel: int) -> Fraction | float:
        values = feats[np.flatnonzero(voxel_of == voxel), channel]
        if call.param("reduce_type") == _MEAN:
            return total(values.astype(np.float64)) / len(values)
        # A NaN is ignored beside a number; of NaN alone the start remains.
        return fraction(max(values[~np.isnan(values)].tolist(), default=-np.inf))

    return {
        "voxel_feats": voxel_feats,
        "voxel_coors": lambda voxel, axis: voxels[voxel][axis],
        "point2voxel_map": lambda point: int(voxel_of[point]),
        "voxel_points_count": lambda voxel: int(np.count_nonzero(voxel_of == voxel)),
        "voxel_num": lambda _: len(voxels),
    }
