"""indice_convolution_backward_filter: the gradient of a sparse convolution with respect to its filters."""

from typing import Final

from mluops_gtest.authoring import (
    DType,
    Layout,
    OpCall,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    TensorSpec,
    Theory,
)
from mluops_gtest.authoring.left_open import find_nonfinite, find_subnormal

from .._shared.connections import pairs_theory
from .checks import ANSWERED_ANYWAY, CHECKS, NOT_TOGETHER, QUERIES
from .kernel import kernel
from .nonfinite import nonfinite
from .precondition import precondition
from .recipes import RECIPES
from .reference import bound, reference
from .sizes import SIZES
from .suspects import SUSPECTS
from .values import CRITERIA

_FLOATS: Final = (DType.FLOAT, DType.HALF)


def theory(call: OpCall) -> Theory:
    """A product per pair and per entry of its matrix."""
    *_, channels_in, channels_out = call.tensor("filters_grad").dims
    return pairs_theory(call, channels_in, channels_out)


OPERATOR: Final = Operator(
    name="indice_convolution_backward_filter",
    released_name="indice_convolution_backward_filter",
    op_type=("INDICE_CONVOLUTION_BACKWARD_FILTER", 901),
    # §1.1's own summary, regions of interest, belongs to another operator.
    summary="Sums up, for every kernel offset, the products featuresᵀ · output_grad of the rows that meet there.",
    inputs=(
        TensorSpec("features", "[L, Ci]", _FLOATS),
        TensorSpec("output_grad", "[Y, Co]", _FLOATS),
        TensorSpec("indice_pairs", "[K, 2, L]", (DType.INT32,)),
    ),
    outputs=(OutputSpec("filters_grad", "[[Kd,] Kh, Kw, Ci, Co]", CRITERIA, (Layout.ARRAY, Layout.HWCN)),),
    params=ParamMessage(
        field="indice_convolution_backward_param",
        number=20230131,
        message="IndiceConvolutionBackwardParam",
        fields=(
            ParamField("inverse", 1, "int64", default=0),
            ParamField("sub_m", 2, "int64", default=0),
            ParamField("indice_num", 3, "int64", "repeated"),
        ),
    ),
    checks=CHECKS,
    queries=QUERIES,
    answered_anyway=ANSWERED_ANYWAY,
    not_together=NOT_TOGETHER,
    reference=reference,
    precondition=precondition,
    # The document says nothing of NaN and Inf.
    left_open={"undefined": find_nonfinite, "subnormal": find_subnormal},
    kernel=kernel,
    suspects=SUSPECTS,
    recipes={**RECIPES, "nonfinite": nonfinite},
    theory=theory,
    bound=bound,
    sizes=SIZES,
)
