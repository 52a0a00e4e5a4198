"""The recipe of values that are not finite: where they stand, and which sums they must not reach."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, RecipeOutput

from .recipes import random_pairs

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


def nonfinite(
    draw: Draw,
    params: Mapping[str, Any],
    dtype: DType,
    *,
    kernel: tuple[int, ...],
    rows_in: int,
    rows_out: int,
    channels_in: int,
    channels_out: int,
    counts: tuple[int, ...],
    kind: Kind,
) -> RecipeOutput:
    """Random pairs; few values are not finite, so that most sums stay so and are still compared."""
    made = random_pairs(
        draw,
        params,
        dtype,
        kernel=kernel,
        rows_in=rows_in,
        rows_out=rows_out,
        channels_in=channels_in,
        channels_out=channels_out,
        counts=counts,
    )
    pairs = made.inputs["indice_pairs"]
    if kind in ("feature_idle", "grad_idle"):
        side, name = (0, "features") if kind == "feature_idle" else (1, "output_grad")
        made.inputs[name][_idle_row(pairs, counts, side, len(made.inputs[name]))] = np.nan
    else:
        _plant(kind, made.inputs["features"], made.inputs["output_grad"], _used_pairs(pairs, counts))
    return made


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
