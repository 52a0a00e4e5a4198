"""masked_col2im_forward: writes the columns of a matrix to the mask positions of an image that is 0 elsewhere."""

from mluops_gtest.authoring import Bound, DType, Layout, Operator, OutputSpec, TensorSpec, exact

from .checks import ANSWERED_ANYWAY, CHECKS, NOT_TOGETHER, QUERIES
from .kernel import kernel
from .precondition import precondition
from .recipes import RECIPES
from .reference import reference, theory
from .sizes import SIZES
from .suspects import SUSPECTS

OPERATOR = Operator(
    name="masked_col2im_forward",
    released_name="masked_col2im_forward",
    op_type=("MASKED_COL2IM_FORWARD", 2201),
    summary="Writes every column of col to the pixel at its mask position, in all channels; elsewhere im is 0.",
    inputs=(
        TensorSpec("col", "[C, m]", (DType.FLOAT, DType.HALF)),
        TensorSpec("mask_h_idx", "[m]", (DType.INT32,)),
        TensorSpec("mask_w_idx", "[m]", (DType.INT32,)),
    ),
    # §1.5.1: a pure copy, so diff3 = 0. The operator clears im itself, so the caller presets nothing.
    outputs=(OutputSpec("im", "[1, C, H, W]", {DType.FLOAT: exact(), DType.HALF: exact()}, (Layout.NCHW,)),),
    checks=CHECKS,
    queries=QUERIES,
    not_together=NOT_TOGETHER,
    answered_anyway=ANSWERED_ANYWAY,
    reference=reference,
    precondition=precondition,
    kernel=kernel,
    suspects=SUSPECTS,
    recipes=RECIPES,
    sizes=SIZES,
    theory=theory,
    bound=Bound.copied("im"),
)
