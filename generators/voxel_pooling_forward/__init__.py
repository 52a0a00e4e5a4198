"""voxel_pooling_forward: sums the features of all points that fall into the same cell of a bird's-eye view."""

from mluops_gtest.authoring import DType, Operator, OutputSpec, ParamField, ParamMessage, TensorSpec, exact
from mluops_gtest.authoring.left_open import find_subnormal

from .bound import bound
from .checks import ANSWERED_ANYWAY, CHECKS, NOT_TOGETHER, SCALARS
from .kernel import kernel
from .recipes import RECIPES
from .reference import reference, theory
from .sizes import SIZES
from .suspects import SUSPECTS
from .values import CRITERIA

OPERATOR = Operator(
    name="voxel_pooling_forward",
    released_name="voxel_pooling_forward",
    op_type=("VOXEL_POOLING_FORWARD", 2200),
    summary="Sums the features of all points that fall into the same (batch, y, x) cell; tells where each point went.",
    inputs=(
        TensorSpec("geom_xyz", "[batch_size, num_points, 3]", (DType.INT32,)),
        TensorSpec("input_features", "[batch_size, num_points, num_channels]", (DType.FLOAT,)),
    ),
    outputs=(
        OutputSpec("output_features", "[batch_size, num_voxel_y, num_voxel_x, num_channels]", {DType.FLOAT: CRITERIA}),
        # §1.4: the caller presets pos_memo to a negative value.
        OutputSpec("pos_memo", "[batch_size, num_points, 3]", {DType.INT32: exact()}, preset=-1),
    ),
    params=ParamMessage(
        field="voxel_pooling_forward_param",
        number=4009,
        message="VoxelPoolingForwardParam",
        fields=tuple(ParamField(name, number) for number, name in enumerate(SCALARS, start=1)),
    ),
    checks=CHECKS,
    not_together=NOT_TOGETHER,
    answered_anyway=ANSWERED_ANYWAY,
    reference=reference,
    kernel=kernel,
    recipes=RECIPES,
    sizes=SIZES,
    theory=theory,
    bound=bound,
    left_open={"subnormal": find_subnormal},
    suspects=SUSPECTS,
    # §1.4: atomic adds, in no fixed order.
    order_free=True,
)
