"""What cases are declared for in size, and the known points as a kernel sees them that loses one."""

from collections.abc import Mapping

import numpy as np

from mluops_gtest.authoring import Array, OpCall, SizedAxis


def _known_lost(call: OpCall, index: int) -> Mapping[str, Array]:
    """A point that is not finite is nobody's neighbour (§1.2)."""
    known = call.array("known").copy()
    known[:, index] = np.nan
    return {"known": known}


SIZES: Mapping[str, SizedAxis] = {
    "batches": SizedAxis("dist2", 0),
    "unknown": SizedAxis("dist2", 1),
    "known": SizedAxis("known", 1, without=_known_lost),
}
