"""dynamic_point_to_voxel_forward: points of one voxel become one row, the mean or the maximum of their features."""

from mluops_gtest.authoring import (
    DType,
    EnumSpec,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    TensorSpec,
    exact,
)
from mluops_gtest.authoring.left_open import find_subnormal

from .bound import bound
from .checks import CHECKS, NOT_TOGETHER, QUERIES
from .kernel import kernel
from .precondition import find_nan_under_max, precondition
from .recipes import RECIPES
from .reference import marked, reference, theory
from .sizes import SIZES
from .suspects import SUSPECTS
from .values import CRITERIA

_INT32 = (DType.INT32,)
# §1.5.1: integers are exact, so diff3 = 0.
_INDICES = {DType.INT32: exact()}

_REDUCE_MODE = EnumSpec("ReduceMode", {"REDUCE_MODE_SUM": 0, "REDUCE_MODE_MEAN": 1, "REDUCE_MODE_MAX": 2})

OPERATOR = Operator(
    name="dynamic_point_to_voxel_forward",
    released_name="dynamic_point_to_voxel_forward",
    op_type=("DYNAMIC_POINT_TO_VOXEL_FORWARD", 405),
    summary="Groups points by voxel coordinate and reduces their features to the mean or the maximum.",
    inputs=(
        TensorSpec("feats", "[N, C]", (DType.FLOAT,)),
        # §1.2, step 1: the rows of invalid points may be set to −1 in place.
        TensorSpec("coors", "[N, 3]", _INT32, may_become=marked),
    ),
    outputs=(
        OutputSpec("voxel_feats", "[M, C]", {DType.FLOAT: CRITERIA}, rows_owned="voxel_num"),
        OutputSpec("voxel_coors", "[M, 3]", _INDICES, rows_owned="voxel_num"),
        OutputSpec("point2voxel_map", "[N]", _INDICES),
        OutputSpec("voxel_points_count", "[M]", _INDICES, rows_owned="voxel_num"),
        OutputSpec("voxel_num", "[1]", _INDICES),
    ),
    params=ParamMessage(
        field="dynamic_point_to_voxel_forward_param",
        number=4012,
        message="DynamicPointToVoxelForwardParam",
        fields=(ParamField("reduce_type", 1, "enum", "required", enum=_REDUCE_MODE),),
    ),
    checks=CHECKS,
    queries=QUERIES,
    not_together=NOT_TOGETHER,
    reference=reference,
    bound=bound,
    precondition=precondition,
    left_open={"undefined": find_nan_under_max, "subnormal": find_subnormal},
    kernel=kernel,
    suspects=SUSPECTS,
    recipes=RECIPES,
    theory=theory,
    sizes=SIZES,
    # §3.1.2, kernel 4: atomic adds, in no fixed order.
    order_free=True,
)
