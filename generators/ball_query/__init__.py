"""ball_query: finds, for every centre, the first points of a cloud that lie in a spherical shell around it."""

from mluops_gtest.authoring import DType, Operator, OutputSpec, ParamField, ParamMessage, TensorSpec, exact
from mluops_gtest.authoring.left_open import find_subnormal

from .checks import ANSWERED_ANYWAY, CHECKS, NOT_TOGETHER
from .kernel import kernel
from .precondition import precondition
from .recipes import RECIPES
from .reference import empty_rows, reference, theory
from .sizes import SIZES
from .suspects import SUSPECTS

_FLOATS = (DType.FLOAT, DType.HALF)

OPERATOR = Operator(
    name="ball_query",
    released_name="ball_query",
    op_type=("BALL_QUERY", 20231025),
    summary="Lists for each centre the first nsample points, by index, between min_radius and max_radius.",
    # §2.2's order; §1.3 and the caller in Python name xyz first.
    inputs=(TensorSpec("new_xyz", "[B, M, 3]", _FLOATS), TensorSpec("xyz", "[B, N, 3]", _FLOATS)),
    # §1.2: the caller clears idx, and a row without a point in the shell keeps what it held.
    outputs=(OutputSpec("idx", "[B, M, nsample]", {DType.INT32: exact()}, preset=0, kept=empty_rows),),
    params=ParamMessage(
        field="ball_query_param",
        number=4008,
        message="BallQueryParam",
        fields=(
            ParamField("min_radius", 1, "float", default=0.0),
            ParamField("max_radius", 2, "float", default=1.0),
            ParamField("nsample", 3, default=1),
        ),
    ),
    checks=CHECKS,
    not_together=NOT_TOGETHER,
    answered_anyway=ANSWERED_ANYWAY,
    reference=reference,
    precondition=precondition,
    left_open={"subnormal": find_subnormal},
    kernel=kernel,
    suspects=SUSPECTS,
    recipes=RECIPES,
    sizes=SIZES,
    theory=theory,
)
