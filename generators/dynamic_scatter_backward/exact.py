"""One element of grad_feats as §1.2 and §3.2 define it."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from mluops_gtest.authoring import OpCall
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The voxel's gradient for the first of its points that has the voxel's value; 0 for all others."""
    feats, voxel_of, voxels = call.array("feats"), call.array("point2voxel_map"), int(call.array("voxel_num")[0])

    def grad_feats(point: int, channel: int) -> Fraction | float:
        voxel = int(voxel_of[point])
        if not 0 <= voxel < voxels:
            return Fraction(0)
        # Only a voxel needs these: where there is none, their pointers may be null.
        wanted, gradient = (call.array(name)[voxel, channel] for name in ("voxel_feats", "grad_voxel_feats"))
        # As numbers: −0 is +0, and NaN is nothing's equal.
        having = np.flatnonzero((voxel_of == voxel) & (feats[:, channel] == wanted))
        is_first = having.size > 0 and having[0] == point
        return fraction(gradient) if is_first else Fraction(0)

    return {"grad_feats": grad_feats}
