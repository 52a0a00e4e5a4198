"""How a call becomes smaller: fewer masks and channels, a smaller map, a smaller kernel, less padding."""

from mluops_gtest.authoring.reductions import along

from . import OPERATOR

REDUCTIONS = {
    "masks": along(OPERATOR, "m"),
    "channels": along(OPERATOR, "C"),
    "height": along(OPERATOR, "H", named_by={"mask_h_idx": None}),
    "width": along(OPERATOR, "W", named_by={"mask_w_idx": None}),
    "kernel_h": along(OPERATOR, "kernel_h"),
    "kernel_w": along(OPERATOR, "kernel_w"),
    "pad_h": along(OPERATOR, "pad_h"),
    "pad_w": along(OPERATOR, "pad_w"),
}
