"""What cases are declared for in size, and the inputs as a kernel sees them that loses one index of it."""

from collections.abc import Mapping
from typing import Final

from mluops_gtest.authoring import Array, OpCall, SizedAxis


def _pair_lost(call: OpCall, index: int) -> Mapping[str, Array]:
    """Of the first offset: its input row is 0, which is the pair alone where there is one offset."""
    features = call.array("features").copy()
    features[call.array("indice_pairs")[0, 0, index]] = 0
    return {"features": features}


SIZES: Final[Mapping[str, SizedAxis]] = {
    "rows_in": SizedAxis("features", 0),
    "rows_out": SizedAxis("output_grad", 0),
    "channels_in": SizedAxis("features", 1),
    "channels_out": SizedAxis("output_grad", 1),
    # Kernels of one row: [[1,] 1, K, Ci, Co].
    "offsets": SizedAxis("filters_grad", -3),
    "pairs": SizedAxis("indice_pairs", count=lambda call: int(call.param("indice_num")[0]), without=_pair_lost),
}
