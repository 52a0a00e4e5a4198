"""three_interpolate_forward: each point's feature is the weighted sum of the features of three cells."""

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
    name="three_interpolate_forward",
    released_name="three_interpolate_forward",
    op_type=("THREE_INTERPOLATE_FORWARD", 2002),
    summary="Interpolates the features of every point from three cells, with a weight each.",
    inputs=(
        TensorSpec("features", "[B, C, M]", FLOATS),
        TensorSpec("indices", "[B, N, 3]", (DType.INT32,)),
        TensorSpec("weights", "[B, N, 3]", FLOATS),
    ),
    outputs=(OutputSpec("output", "[B, C, N]", dict.fromkeys(FLOATS, CRITERIA)),),
    checks=CHECKS,
    not_together=NOT_TOGETHER,
    answered_anyway=ANSWERED_ANYWAY,
    reference=reference,
    kernel=kernel,
    suspects=SUSPECTS,
    recipes={**RECIPES, "special": special},
    sizes=SIZES,
    theory=theory,
    bound=bound,
    precondition=precondition,
    left_open={"subnormal": find_subnormal},
    # The document leaves the order of the three additions open.
    order_free=True,
)
