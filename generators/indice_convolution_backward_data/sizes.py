"""What cases are declared for in size."""

from collections.abc import Mapping
from typing import Final

from mluops_gtest.authoring import SizedAxis

from .._shared.connections import offsets_size, pairs_size

SIZES: Final[Mapping[str, SizedAxis]] = {
    "rows_in": SizedAxis("input_grad", 0),
    "rows_out": SizedAxis("output_grad", 0),
    "channels_in": SizedAxis("input_grad", 1),
    "channels_out": SizedAxis("output_grad", 1),
    "offsets": offsets_size(),
    "pairs": pairs_size("output_grad", 1),
}
