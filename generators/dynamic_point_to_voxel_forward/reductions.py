"""How a call becomes smaller: fewer points, channels and rows for voxels."""

from mluops_gtest.authoring.reductions import along

from . import OPERATOR

REDUCTIONS = {
    "points": along(OPERATOR, "N"),
    "channels": along(OPERATOR, "C"),
    "rows": along(OPERATOR, "M"),
}
