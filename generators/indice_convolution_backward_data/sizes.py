"""What cases are declared for in size, and the inputs as a kernel sees them that loses one index of it."""

from collections.abc import Mapping
from typing import Final

from mluops_gtest.authoring import Array, OpCall, SizedAxis
from mluops_gtest.authoring.filters import without_offset


def _offset_lost(call: OpCall, index: int) -> Mapping[str, Array]:
    return {"filters": without_offset(call.array("filters"), call.tensor("filters").layout, index)}


def _pair_lost(call: OpCall, index: int) -> Mapping[str, Array]:
    """Of the first offset: its output row is 0, which is the pair alone where there is one offset."""
    grad = call.array("output_grad").copy()
    grad[call.array("indice_pairs")[0, 1, index]] = 0
    return {"output_grad": grad}


SIZES: Final[Mapping[str, SizedAxis]] = {
    "rows_in": SizedAxis("input_grad", 0),
    "rows_out": SizedAxis("output_grad", 0),
    "channels_in": SizedAxis("input_grad", 1),
    "channels_out": SizedAxis("output_grad", 1),
    "offsets": SizedAxis("indice_pairs", 0, without=_offset_lost),
    "pairs": SizedAxis("indice_pairs", count=lambda call: int(call.param("indice_num")[0]), without=_pair_lost),
}
