"""What cases are declared for in size."""

from collections.abc import Mapping

from mluops_gtest.authoring import SizedAxis

SIZES: Mapping[str, SizedAxis] = {
    "channels": SizedAxis("feature", 1),
    "height": SizedAxis("feature", 2),
    "width": SizedAxis("feature", 3),
    # C · kernel_h · kernel_w
    "rows": SizedAxis("data_col", 0),
    "masks": SizedAxis("data_col", 1),
}
