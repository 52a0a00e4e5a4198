"""What arithmetic allows: a sum in any order (§4)."""

import numpy as np

from mluops_gtest.authoring import Bound, OpCall
from mluops_gtest.authoring.sums import lattice_unit


def bound(call: OpCall) -> dict[str, Bound]:
    """Σ|values| of every segment, and a rounding per row."""
    values, segments, count = call.array("values"), call.array("segments"), call.param("num_segments")
    sums = np.zeros((count, values.shape[1]), np.float64)
    np.add.at(sums, segments, np.abs(values, dtype=np.float64))
    rows = np.bincount(segments, minlength=count)
    return {"output": Bound(sums, rows[:, None], unit=lattice_unit(values))}
