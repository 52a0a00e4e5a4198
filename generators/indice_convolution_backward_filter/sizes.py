"""What cases are declared for in size."""

from collections.abc import Mapping
from typing import Final

from mluops_gtest.authoring import SizedAxis

from .._shared.connections import pairs_size

SIZES: Final[Mapping[str, SizedAxis]] = {
    "rows_in": SizedAxis("features", 0),
    "rows_out": SizedAxis("output_grad", 0),
    "channels_in": SizedAxis("features", 1),
    "channels_out": SizedAxis("output_grad", 1),
    # Kernels of one row: [[1,] 1, K, Ci, Co].
    "offsets": SizedAxis("filters_grad", -3),
    "pairs": pairs_size("features", 0),
}
