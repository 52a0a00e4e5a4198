"""The recipe of special values: where NaN, infinities, zeros and subnormal numbers stand."""

from typing import Final, Literal

import numpy as np

from mluops_gtest.authoring import Draw, DType, Params, RecipeOutput

from .recipes import Shape, drawn

Kind = Literal[
    "grad_nan",
    "grad_inf",
    "grad_negative_inf",
    "weight_nan",
    "weight_inf",
    "weight_negative_inf",
    "zero_times_inf",
    "zero_times_nan",
    "inf_minus_inf",
    "overflow",
    "negative_zero",
    "subnormal",
]
_VALUES: Final = {"nan": np.nan, "inf": np.inf, "negative_inf": -np.inf}
# By bytes of the type: the square of it overflows, and the products of others with it do not.
_LARGE: Final = {2: 2.0**10, 4: 2.0**100}
_SUBNORMAL: Final = {2: 2.0**-16, 4: 2.0**-130}


def special(draw: Draw, params: Params, dtype: DType, *, shape: Shape, kind: Kind) -> RecipeOutput:
    """Random triples that leave one cell out; special values in every other channel of one point, or in one weight, so
    that most cells stay as they were and are still compared."""
    batches, channels, cells, points = shape
    made = drawn(draw, params, dtype, shape=(batches, channels, cells - 1, points), triples="random")
    grad, indices, weights = (made.inputs[name] for name in ("grad_output", "indices", "weights"))
    indices += indices >= cells // 2
    point = points // 2
    match kind:
        case "grad_nan" | "grad_inf" | "grad_negative_inf":
            grad[0, ::2, point] = _VALUES[kind.removeprefix("grad_")]
        case "weight_nan" | "weight_inf" | "weight_negative_inf":
            weights[0, point, 1] = _VALUES[kind.removeprefix("weight_")]
        case "zero_times_inf" | "zero_times_nan":
            grad[0, ::2, point], weights[0, point, 1] = _VALUES[kind.removeprefix("zero_times_")], 0
        case "inf_minus_inf":
            # Two points meet in a cell.
            indices[0, 0, 1] = indices[0, point, 1]
            grad[0, ::2, [0, point]], weights[0, 0, 1], weights[0, point, 1] = np.inf, 1, -1
        case "overflow":
            grad[0, ::2, point] = weights[0, point, 1] = _LARGE[grad.itemsize]
        case "negative_zero":
            grad[0, ::2, point], weights[0, point] = -0.0, -0.0
        case "subnormal":
            grad *= grad.dtype.type(_SUBNORMAL[grad.itemsize])
    return RecipeOutput(made.inputs, params, outputs={"grad_features": (batches, channels, cells)})
