"""The recipe of values that are not finite: where they stand, and which rows they must not reach."""

from collections.abc import Mapping
from typing import Any, Final, Literal

import numpy as np

from mluops_gtest.authoring import Draw, DType, RecipeOutput

from .._shared.connections import Connections, connected
from .recipes import made, some_unmet

# …_idle: where nothing may show, in the weights of an offset without pairs and in a row that no pair names.
Kind = Literal[
    "weight_inf",
    "weight_nan",
    "weight_idle",
    "feature_inf",
    "feature_nan",
    "feature_idle",
    "inf_minus_inf",
    "zero_times_inf",
    "zero_times_nan",
]


def _planted(
    draw: Draw,
    params: Mapping[str, Any],
    dtype: DType,
    connections: Connections,
    *,
    channels_in: int,
    channels_out: int,
    kind: Kind,
) -> RecipeOutput:
    """Random pairs; few values are not finite, so that most rows stay so and are still compared."""
    case = made(draw, params, dtype, connections, channels_in=channels_in, channels_out=channels_out)
    counts, rows_out = connections.counts, connections.rows_out
    features, pairs = case.inputs["features"], connections.pairs
    # ARRAY is [K…, Ci, Co] already, so this is a view.
    weights = case.inputs["filters"].reshape(-1, channels_in, channels_out)
    offset = next((k for k, count in enumerate(counts) if 0 < count < rows_out), None)
    idle_offset = next((k for k, count in enumerate(counts) if count == 0), None)
    named = np.concatenate([pairs[k, 0, :count] for k, count in enumerate(counts)])
    idle_rows = np.setdiff1d(np.arange(connections.rows_in), named)
    if offset is None or idle_offset is None or not idle_rows.size or channels_in < 2:
        raise ValueError("some offset must have few pairs and one none, an input row no pair, a sum two products")
    row = pairs[offset, 0, 0]
    match kind:
        case "weight_inf":
            weights[offset, 0, 0] = np.inf
        case "weight_nan":
            weights[offset, 0, 0] = np.nan
        case "weight_idle":
            weights[idle_offset] = np.inf
        case "feature_inf":
            features[row, 0] = -np.inf
        case "feature_nan":
            features[row, 0] = np.nan
        case "feature_idle":
            features[idle_rows[0]] = np.nan
        case "inf_minus_inf":
            features[row, :2], weights[offset, :2, 0] = (np.inf, -np.inf), 1
        case "zero_times_inf":
            features[row, 0], weights[offset, 0, 0] = 0, np.inf
        case "zero_times_nan":
            # At every offset: the two rows may meet at another one, too.
            features[row, 0], weights[:, 0, 0] = np.nan, 0
    return case


nonfinite: Final = connected(some_unmet, _planted)
