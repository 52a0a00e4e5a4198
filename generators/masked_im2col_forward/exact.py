"""One element of data_col as §1.2 and §1.4 define it."""

from collections.abc import Mapping
from fractions import Fraction

from mluops_gtest.authoring import OpCall
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """A cell of the window of a mask position, or 0 outside the image."""
    feature, mask_h, mask_w = (call.array(name) for name in ("feature", "mask_h_idx", "mask_w_idx"))
    _, _, height, width = feature.shape

    def data_col(row: int, column: int) -> Fraction | float:
        # Rows are channel-major: (c·kernel_h + i)·kernel_w + j.
        window_row, j = divmod(row, call.param("kernel_w"))
        channel, i = divmod(window_row, call.param("kernel_h"))
        h = int(mask_h[column]) - call.param("pad_h") + i
        w = int(mask_w[column]) - call.param("pad_w") + j
        inside = 0 <= h < height and 0 <= w < width
        return fraction(feature[0, channel, h, w]) if inside else Fraction(0)

    return {"data_col": data_col}
