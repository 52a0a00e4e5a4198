"""indice_convolution_forward: a sparse convolution over the pairs of rows that get_indice_pairs finds."""

from typing import Final

from mluops_gtest.authoring import DType, OpCall, Operator, OutputSpec, ParamField, ParamMessage, TensorSpec, Theory
from mluops_gtest.authoring.left_open import find_nonfinite, find_subnormal

from .._shared.connections import extents, pairs_theory
from .checks import ANSWERED_ANYWAY, CHECKS, LAYOUTS, NOT_TOGETHER, QUERIES
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
    _, channels_in, channels_out = extents(call.tensor("filters").desc)
    return pairs_theory(call, channels_in, channels_out)


OPERATOR: Final = Operator(
    name="indice_convolution_forward",
    released_name="indice_convolution_forward",
    op_type=("INDICE_CONVOLUTION_FORWARD", 902),
    summary="Adds, for every pair of rows and its kernel offset, the input features times W to the output features.",
    inputs=(
        TensorSpec("features", "[L, Ci]", _FLOATS),
        TensorSpec("filters", "[Kd, Kh, Kw, Ci, Co] as ARRAY, permuted as the layout says", _FLOATS, LAYOUTS),
        TensorSpec("indice_pairs", "[K, 2, L]", (DType.INT32,)),
    ),
    outputs=(OutputSpec("features_out", "[Y, Co]", CRITERIA),),
    params=ParamMessage(
        field="indice_convolution_forward_param",
        number=23020721,
        message="IndiceConvolutionForwardParam",
        fields=(
            ParamField("num_active_out", 1, "int64", "required"),
            ParamField("inverse", 2, "int64"),
            ParamField("sub_m", 3, "int64"),
            ParamField("indice_num", 4, "int64", "repeated"),
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
