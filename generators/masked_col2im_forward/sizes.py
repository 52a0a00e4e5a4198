"""What cases are declared for in size."""

from collections.abc import Mapping

from mluops_gtest.authoring import SizedAxis

SIZES: Mapping[str, SizedAxis] = {
    "channels": SizedAxis("col", 0),
    "masks": SizedAxis("col", 1),
    "height": SizedAxis("im", 2),
    "width": SizedAxis("im", 3),
}
