"""How a call becomes smaller: fewer batches, known and unknown points."""

from mluops_gtest.authoring.reductions import along

from . import OPERATOR

REDUCTIONS = {
    "known": along(OPERATOR, "M"),
    "unknown": along(OPERATOR, "N"),
    "batches": along(OPERATOR, "B"),
}
