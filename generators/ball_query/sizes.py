"""What cases are declared for in size, and the cloud as a kernel sees it that loses one point."""

from collections.abc import Mapping

import numpy as np

from mluops_gtest.authoring import Array, OpCall, SizedAxis


def _point_lost(call: OpCall, index: int) -> Mapping[str, Array]:
    """A point that is not finite is inside of no ball (§1.2)."""
    xyz = call.array("xyz").copy()
    xyz[:, index] = np.nan
    return {"xyz": xyz}


SIZES: Mapping[str, SizedAxis] = {
    "batches": SizedAxis("idx", 0),
    "centres": SizedAxis("idx", 1),
    "samples": SizedAxis("idx", 2),
    "points": SizedAxis("xyz", 1, without=_point_lost),
}
