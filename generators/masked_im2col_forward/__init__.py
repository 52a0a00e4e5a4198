"""masked_im2col_forward: copies the window at every mask position of a feature map into one column each."""

from mluops_gtest.authoring import (
    Bound,
    DType,
    Layout,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    TensorSpec,
    exact,
)

from .checks import ANSWERED_ANYWAY, CHECKS, NOT_TOGETHER, QUERIES
from .kernel import kernel
from .recipes import RECIPES
from .reference import reference, theory
from .sizes import SIZES
from .suspects import SUSPECTS

OPERATOR = Operator(
    name="masked_im2col_forward",
    released_name="masked_im2col_forward",
    op_type=("MASKED_IM2COL_FORWARD", 2202),
    summary="Copies the kernel_h×kernel_w window at every mask position of a feature map; outside the map it is 0.",
    inputs=(
        TensorSpec("feature", "[1, C, H, W]", (DType.FLOAT, DType.HALF), (Layout.NCHW,)),
        TensorSpec("mask_h_idx", "[m]", (DType.INT32,)),
        TensorSpec("mask_w_idx", "[m]", (DType.INT32,)),
    ),
    # §1.5.1: a pure copy, so diff3 = 0.
    outputs=(OutputSpec("data_col", "[C·kernel_h·kernel_w, m]", {DType.FLOAT: exact(), DType.HALF: exact()}),),
    params=ParamMessage(
        field="masked_im2col_forward_param",
        number=2201,
        message="MaskedIm2colForwardParam",
        fields=(
            ParamField("kernel_h", 1, default=3),
            ParamField("kernel_w", 2, default=3),
            ParamField("pad_h", 3, default=1),
            ParamField("pad_w", 4, default=1),
        ),
    ),
    checks=CHECKS,
    queries=QUERIES,
    not_together=NOT_TOGETHER,
    answered_anyway=ANSWERED_ANYWAY,
    reference=reference,
    kernel=kernel,
    suspects=SUSPECTS,
    recipes=RECIPES,
    sizes=SIZES,
    theory=theory,
    bound=Bound.copied("data_col"),
)
