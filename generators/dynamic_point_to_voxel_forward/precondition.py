"""What the document takes for granted: there is a row for every class of points; and what it leaves open."""

import numpy as np

from mluops_gtest.authoring import Baseline, OpCall

from .checks import REDUCE_MODE_MAX
from .voxels import is_invalid, voxels_of


def precondition(call: OpCall) -> str | None:
    """§3.1.1: kernel 2 writes a row for every voxel, and one for the invalid points that kernel 3 then removes."""
    rows = call.tensor("voxel_feats").dims[0]
    voxels = voxels_of(call.array("coors"))
    if voxels.rows_needed <= rows:
        return None
    invalid = "" if voxels.rows_needed == voxels.count else " and the class of invalid points"
    return f"{voxels.count} voxels{invalid} need {voxels.rows_needed} rows, there are {rows}"


def find_nan_under_max(call: OpCall, _baseline: Baseline) -> str | None:
    """§1.2 allows NaN in feats and does not say what a maximum makes of it; those of invalid points reach nobody."""
    valid = call.array("feats")[~is_invalid(call.array("coors"))]
    is_open = call.param("reduce_type") == REDUCE_MODE_MAX and np.isnan(valid).any()
    return "a maximum is taken over NaN" if is_open else None
