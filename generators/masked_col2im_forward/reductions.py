"""How a call becomes smaller: fewer masks and channels, a smaller image."""

from mluops_gtest.authoring.reductions import along

from . import OPERATOR

REDUCTIONS = {
    "masks": along(OPERATOR, "m"),
    "channels": along(OPERATOR, "C"),
    "height": along(OPERATOR, "H", named_by={"mask_h_idx": None}),
    "width": along(OPERATOR, "W", named_by={"mask_w_idx": None}),
}
