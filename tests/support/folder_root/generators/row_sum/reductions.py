"""How a call becomes smaller, for `mluops-test minimise`: by the symbols of its shapes."""

from mluops_gtest.authoring.reductions import along

from . import OPERATOR

REDUCTIONS = {
    "rows": along(OPERATOR, "N"),
    "channels": along(OPERATOR, "C"),
    "segments": along(OPERATOR, "num_segments", named_by={"segments": None}),
}
