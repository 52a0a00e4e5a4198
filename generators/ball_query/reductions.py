"""How a call becomes smaller: fewer batches, centres, points and samples."""

from mluops_gtest.authoring.reductions import along

from . import OPERATOR

REDUCTIONS = {
    "points": along(OPERATOR, "N"),
    "centres": along(OPERATOR, "M"),
    "batches": along(OPERATOR, "B"),
    "samples": along(OPERATOR, "nsample"),
}
