"""indice_convolution_backward_data: the gradient of a sparse convolution with respect to its input."""

from typing import Final

from mluops_gtest.authoring import DType, OpCall, Operator, OutputSpec, ParamField, ParamMessage, TensorSpec, Theory
from mluops_gtest.authoring.left_open import find_nonfinite, find_subnormal

from .._shared.connections import extents, pairs_theory
from .checks import ANSWERED_ANYWAY, CHECKS, LAYOUTS, NOT_TOGETHER, QUERIES
from .kernel import kernel
from .nonfinite import nonfinite
from .precondition import precondition
from .recipes import CRITERIA, RECIPES
from .reference import bound, reference
from .sizes import SIZES
from .suspects import SUSPECTS

_FLOATS: Final = (DType.FLOAT, DType.HALF)


def theory(call: OpCall) -> Theory:
    """A product per pair and per entry of its matrix."""
    _, channels_in, channels_out = extents(call.tensor("filters").desc)
    return pairs_theory(call, channels_in, channels_out)


OPERATOR: Final = Operator(
    name="indice_convolution_backward_data",
    released_name="indice_convolution_backward_data",
    op_type=("INDICE_CONVOLUTION_BACKWARD_DATA", 900),
    summary="Adds, for every pair of rows and its kernel offset, the output gradient times Wᵀ to the input gradient.",
    inputs=(
        TensorSpec("output_grad", "[Y, Co]", _FLOATS),
        TensorSpec("filters", "[[Kd,] Kh, Kw, Ci, Co] as ARRAY, permuted as the layout says", _FLOATS, LAYOUTS),
        TensorSpec("indice_pairs", "[K, 2, L]", (DType.INT32,)),
    ),
    outputs=(OutputSpec("input_grad", "[L, Ci]", CRITERIA),),
    params=ParamMessage(
        field="indice_convolution_backward_data_param",
        number=22120599,
        message="IndiceConvolutionBackwardDataParam",
        fields=(
            ParamField("inverse", 1, "int64"),
            ParamField("sub_m", 2, "int64"),
            ParamField("indice_num", 3, "int64", "repeated"),
        ),
    ),
    checks=CHECKS,
    queries=QUERIES,
    not_together=NOT_TOGETHER,
    answered_anyway=ANSWERED_ANYWAY,
    reference=reference,
    precondition=precondition,
    # The document says nothing of NaN and Inf.
    left_open={"undefined": find_nonfinite, "subnormal": find_subnormal},
    kernel=kernel,
    recipes={**RECIPES, "nonfinite": nonfinite},
    theory=theory,
    bound=bound,
    sizes=SIZES,
    suspects=SUSPECTS,
)
