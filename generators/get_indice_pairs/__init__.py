"""get_indice_pairs: which active input site meets which output site at every kernel offset of a sparse convolution."""

from mluops_gtest.authoring import (
    DType,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    TensorSpec,
    exact,
)

from .checks import ANSWERED_ANYWAY, CHECKS, NOT_TOGETHER, QUERIES
from .kernel import kernel
from .precondition import precondition
from .recipes import RECIPES
from .reference import reference, theory
from .sizes import SIZES
from .suspects import SUSPECTS

# §1.5.1: indices are exact, so diff3 = 0.
_INDICES = {DType.INT32: exact()}

OPERATOR = Operator(
    name="get_indice_pairs",
    released_name="get_indice_pairs",
    op_type=("GET_INDICE_PAIRS", 702),
    summary="Finds, per kernel offset, which active input site meets which output site of a 3-D sparse convolution.",
    inputs=(TensorSpec("indices", "[L, 4]: n, d, h, w", (DType.INT32,)),),
    outputs=(
        OutputSpec("out_indices", "[≥ num_act_out, 4]: n, d, h, w", _INDICES, rows_owned="num_act_out"),
        OutputSpec("indice_pairs", "[K, 2, L]: input row, output row", _INDICES),
        OutputSpec("indice_num", "[K]: pairs of each offset", _INDICES),
    ),
    params=ParamMessage(
        field="get_indice_pairs_param",
        number=202302031,
        message="GetIndicePairsParam",
        fields=(
            ParamField("dimnb", 1, label="required"),
            ParamField("batch", 2, label="required"),
            ParamField("pad", 3, label="repeated"),
            ParamField("stride", 4, label="repeated"),
            ParamField("dilation", 5, label="repeated"),
            ParamField("input_space", 6, label="repeated"),
            ParamField("filter_space", 7, label="repeated"),
            ParamField("output_space", 8, label="repeated"),
            ParamField("sub_m", 9, default=0),
            ParamField("transpose", 10, default=0),
            ParamField("inverse", 11, default=0),
            ParamField("num_act_out", 12, result=True),
        ),
        descriptor="sparse_conv_desc",
    ),
    checks=CHECKS,
    queries=QUERIES,
    not_together=NOT_TOGETHER,
    answered_anyway=ANSWERED_ANYWAY,
    reference=reference,
    precondition=precondition,
    kernel=kernel,
    suspects=SUSPECTS,
    recipes=RECIPES,
    theory=theory,
    sizes=SIZES,
)
