"""three_interpolate_backward: each point adds its gradient, weighted, to the gradients of three cells."""

from mluops_gtest.authoring import DType, Operator, OutputSpec, TensorSpec
from mluops_gtest.authoring.left_open import find_subnormal

from .._shared.interpolation import ANSWERED_ANYWAY
from .bound import bound
from .checks import CHECKS, NOT_TOGETHER
from .kernel import kernel
from .precondition import precondition
from .recipes import CRITERIA, RECIPES
from .reference import reference, theory
from .sizes import SIZES
from .special import special
from .suspects import SUSPECTS

FLOATS = (DType.FLOAT, DType.HALF)

OPERATOR = Operator(
    name="three_interpolate_backward",
    released_name="three_interpolate_backward",
    op_type=("THREE_INTERPOLATE_BACKWARD", 2001),
    summary="Adds the gradient of every point to those of the three cells that it was interpolated from.",
    inputs=(
        TensorSpec("grad_output", "[B, C, N]", FLOATS),
        TensorSpec("indices", "[B, N, 3]", (DType.INT32,)),
        TensorSpec("weights", "[B, N, 3]", FLOATS),
    ),
    outputs=(OutputSpec("grad_features", "[B, C, M]", dict.fromkeys(FLOATS, CRITERIA)),),
    checks=CHECKS,
    not_together=NOT_TOGETHER,
    answered_anyway=ANSWERED_ANYWAY,
    reference=reference,
    kernel=kernel,
    recipes={**RECIPES, "special": special},
    sizes=SIZES,
    theory=theory,
    bound=bound,
    suspects=SUSPECTS,
    precondition=precondition,
    left_open={"subnormal": find_subnormal},
    # §3.3: contributions meet in no fixed order.
    order_free=True,
)
