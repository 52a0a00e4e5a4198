"""The recipe of values that are not finite: where they stand, and which sums they must not reach."""

from collections.abc import Mapping
from typing import Any, Final, Literal

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, RecipeOutput

from .._shared.connections import Connections, any_pairs, connected
from .recipes import made

# …_idle: in a row that no pair names, where nothing may show.
Kind = Literal[
    "feature_idle",
    "grad_idle",
    "feature_inf",
    "feature_nan",
    "grad_inf",
    "grad_nan",
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
    """Random pairs; few values are not finite, so that most sums stay so and are still compared."""
    case = made(draw, params, dtype, connections, channels_in=channels_in, channels_out=channels_out)
    pairs, counts = connections.pairs, connections.counts
    if kind in ("feature_idle", "grad_idle"):
        side, name = (0, "features") if kind == "feature_idle" else (1, "output_grad")
        case.inputs[name][_idle_row(pairs, counts, side, len(case.inputs[name]))] = np.nan
    else:
        _plant(kind, case.inputs["features"], case.inputs["output_grad"], _used_pairs(pairs, counts))
    return case


def _plant(kind: Kind, features: Array, grad: Array, used: Array) -> None:
    (first_in, second_in), (first_out, _) = used
    match kind:
        case "feature_inf":
            features[first_in, 0] = -np.inf
        case "feature_nan":
            features[first_in, 0] = np.nan
        case "grad_inf":
            grad[first_out, 0] = np.inf
        case "grad_nan":
            grad[first_out, 0] = np.nan
        case "zero_times_inf":
            features[first_in, 0], grad[first_out, 0] = 0, np.inf
        case "zero_times_nan":
            features[first_in, 0], grad[first_out, 0] = np.nan, 0
        case "inf_minus_inf":
            # The two rows meet gradients of one sign, so their products are infinities of both.
            grad[used[1], 0] = 1
            features[first_in, 0], features[second_in, 0] = np.inf, -np.inf


def _idle_row(pairs: Array, counts: tuple[int, ...], side: int, rows: int) -> int:
    named = np.concatenate([pairs[k, side, :count] for k, count in enumerate(counts)])
    idle = np.setdiff1d(np.arange(rows), named)
    if not idle.size:
        raise ValueError("every row is in a pair; give fewer pairs or more rows")
    return int(idle[0])


def _used_pairs(pairs: Array, counts: tuple[int, ...]) -> Array:
    """Two pairs of one offset, input rows above output rows."""
    longest = int(np.argmax(counts))
    if counts[longest] < 2 or min(counts) > 0:
        raise ValueError("some offset must have two pairs and another none")
    return pairs[longest, :, :2]


nonfinite: Final = connected(any_pairs, _planted)
