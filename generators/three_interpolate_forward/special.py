"""The recipe of special values: where NaN, infinities, zeros and subnormal numbers stand."""

from typing import Final, Literal

import numpy as np

from mluops_gtest.authoring import Draw, DType, Params, RecipeOutput

from .recipes import Shape, drawn

# idle_…: in a cell that no point names, where nothing may show.
Kind = Literal[
    "feature_nan",
    "feature_inf",
    "feature_negative_inf",
    "weight_nan",
    "weight_inf",
    "weight_negative_inf",
    "idle_nan",
    "idle_inf",
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
    """Random triples; special values in every other channel of one cell, or in one weight, so that most outputs stay
    as they were and are still compared."""
    batches, channels, cells, points = shape
    made = drawn(draw, params, dtype, shape=(batches, channels, cells - 1, points), triples="random")
    idle = cells // 2
    indices = made.inputs["indices"]
    indices += indices >= idle
    features = np.insert(made.inputs["features"], idle, 1, axis=2)
    weights = made.inputs["weights"]
    point = points // 2
    first, cell, _ = indices[0, point]
    if first == cell or (indices[0] == cell).any(axis=1).all():
        raise ValueError("some points must not name the special cell; give more cells or points")
    match kind:
        case "feature_nan" | "feature_inf" | "feature_negative_inf":
            features[0, ::2, cell] = _VALUES[kind.removeprefix("feature_")]
        case "weight_nan" | "weight_inf" | "weight_negative_inf":
            weights[0, point, 1] = _VALUES[kind.removeprefix("weight_")]
        case "idle_nan" | "idle_inf":
            features[..., idle] = _VALUES[kind.removeprefix("idle_")]
        case "zero_times_inf" | "zero_times_nan":
            features[0, ::2, cell], weights[0, point, 1] = _VALUES[kind.removeprefix("zero_times_")], 0
        case "inf_minus_inf":
            features[0, ::2, cell], features[0, ::2, first], weights[0, point, :2] = np.inf, -np.inf, 1
        case "overflow":
            features[0, ::2, cell] = weights[0, point, 1] = _LARGE[features.itemsize]
        case "negative_zero":
            features[0, ::2, cell], weights[0, point] = -0.0, -0.0
        case "subnormal":
            features *= features.dtype.type(_SUBNORMAL[features.itemsize])
    return RecipeOutput({"features": features, "indices": indices, "weights": weights}, params)
