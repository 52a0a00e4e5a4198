"""three_nn_forward: the three nearest known points of every unknown point, their squared distances and indices."""

from mluops_gtest.authoring import DType, Operator, OutputSpec, TensorSpec, diff1_and_diff2, exact
from mluops_gtest.authoring.left_open import find_subnormal

from .bound import bound
from .checks import ANSWERED_ANYWAY, CHECKS, NOT_TOGETHER, QUERIES
from .kernel import kernel
from .precondition import precondition
from .recipes import RECIPES
from .reference import reference, theory
from .sizes import SIZES
from .suspects import SUSPECTS

_FLOATS = (DType.FLOAT, DType.HALF)

OPERATOR = Operator(
    name="three_nn_forward",
    released_name="three_nn_forward",
    op_type=("THREE_NN_FORWARD", 2003),
    summary="Finds the three nearest known points of every unknown point of the same batch.",
    inputs=(TensorSpec("unknown", "[B, N, 3]", _FLOATS), TensorSpec("known", "[B, M, 3]", _FLOATS)),
    outputs=(
        # §1.5.1 scales by the error of a GPU, which no case holds. Full mantissas: 1e-5 for float, because 3e-3 lets
        # differences pass that were rounded to bfloat16. Cases on a lattice declare diff3 = 0.
        OutputSpec("dist2", "[B, N, 3]", {DType.FLOAT: diff1_and_diff2(1e-5), DType.HALF: diff1_and_diff2(3e-3)}),
        OutputSpec("idx", "[B, N, 3]", {DType.INT32: exact()}),
    ),
    checks=CHECKS,
    queries=QUERIES,
    not_together=NOT_TOGETHER,
    answered_anyway=ANSWERED_ANYWAY,
    reference=reference,
    bound=bound,
    precondition=precondition,
    left_open={"subnormal": find_subnormal},
    kernel=kernel,
    suspects=SUSPECTS,
    recipes=RECIPES,
    sizes=SIZES,
    theory=theory,
)
