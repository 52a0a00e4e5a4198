"""dynamic_scatter_backward: hands each voxel's gradient back to the point that the max pooling took its value from."""

from mluops_gtest.authoring import (
    Bound,
    DType,
    EnumSpec,
    OpCall,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    TensorSpec,
    Theory,
    exact,
)
from mluops_gtest.authoring.left_open import find_nonfinite

from .checks import ANSWERED_ANYWAY, CHECKS, NOT_TOGETHER, QUERIES
from .kernel import kernel
from .precondition import precondition
from .recipes import RECIPES
from .reference import reference
from .sizes import SIZES
from .suspects import SUSPECTS

_FLOAT = (DType.FLOAT,)
_INT32 = (DType.INT32,)
_WORD = 4  # bytes of a float and of an int32

_REDUCE_MODE = EnumSpec("ReduceMode", {"REDUCE_MODE_SUM": 0, "REDUCE_MODE_MEAN": 1, "REDUCE_MODE_MAX": 2})


def theory(call: OpCall) -> Theory:
    """One comparison per point and channel; the counts are left out, because the result does not need them."""
    points, channels = call.tensor("feats").dims
    rows = call.tensor("voxel_feats").dims[0]
    floats = 2 * points * channels + 2 * rows * channels
    integers = points + 1
    return Theory(io_bytes=_WORD * (floats + integers), ops=points * channels)


OPERATOR = Operator(
    name="dynamic_scatter_backward",
    # The design document's name; the schema and the released library renamed the operator.
    released_name="dynamic_point_to_voxel_backward",
    op_type=("DYNAMIC_POINT_TO_VOXEL_BACKWARD", 404),
    summary="Sends the gradient of each voxel and channel to the first point that holds the voxel's maximum.",
    inputs=(
        TensorSpec("grad_voxel_feats", "[M, C]", _FLOAT),
        TensorSpec("feats", "[N, C]", _FLOAT),
        TensorSpec("voxel_feats", "[M, C]", _FLOAT),
        TensorSpec("point2voxel_map", "[N]", _INT32),
        TensorSpec("voxel_points_count", "[M]", _INT32),
        TensorSpec("voxel_num", "[1]", _INT32),
    ),
    # §1.5.1: the values are selected, never computed, so the threshold is 0.
    outputs=(OutputSpec("grad_feats", "[N, C]", {DType.FLOAT: exact()}),),
    params=ParamMessage(
        field="dynamic_point_to_voxel_backward_param",
        number=4013,
        message="DynamicPointToVoxelBackwardParam",
        fields=(ParamField("reduce_type", 1, "enum", "required", enum=_REDUCE_MODE),),
    ),
    checks=CHECKS,
    queries=QUERIES,
    not_together=NOT_TOGETHER,
    answered_anyway=ANSWERED_ANYWAY,
    reference=reference,
    precondition=precondition,
    # §1.4 does not support NaN and Inf. Subnormal numbers are not open: §1.5.1 asks for diff3 = 0, since gradients are
    # copied, and §3.2 compares features by `==`.
    left_open={"undefined": find_nonfinite},
    kernel=kernel,
    suspects=SUSPECTS,
    recipes=RECIPES,
    theory=theory,
    sizes=SIZES,
    bound=Bound.copied("grad_feats"),
)
