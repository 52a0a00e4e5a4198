"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.interpolation import shortened
from mluops_gtest.authoring.mistakes import (
    cached_by_shape,
    input_cleared,
    left,
    part_left,
    sum_goes_on,
    tails_left,
)
from mluops_gtest.authoring.roundings import WRONG_WRITES, flushed
from mluops_gtest.authoring.wrong_pairs import Rows, right_rows, wrong_pairs
from mluops_gtest.authoring.wrong_weights import right_weights, wrong_weights


def _add(total: Array, rows: Array, part: Array) -> None:
    np.add.at(total, rows, part)


def _as_it_is(values: Array) -> Array:
    return values


def _write(output: Array, total: Array) -> None:
    output[...] = total


def _variant(
    name: str,
    message: str,
    *,
    weights: Callable[[OpCall], Array] = right_weights,
    rows: Callable[[OpCall], list[Rows]] = right_rows,
    scatter: Callable[[Array, Array, Array], None] = _add,
    rounded: Callable[[Array], Array] = _as_it_is,
    spoil: Callable[[OpCall, Array], None] | None = None,
    write: Callable[[Array, Array], None] = _write,
) -> Mutant:
    """The plain loop of §3.1 in float32 with one part exchanged, or its result spoilt."""

    def run(call: OpCall) -> Status:
        total = np.zeros(call.tensor("features_out").dims, np.float32)
        features = rounded(call.array("features").astype(np.float32))
        # Poison that a wrong index reaches may be a NaN.
        with np.errstate(invalid="ignore", over="ignore"):
            by_offset = rounded(weights(call).astype(np.float32))
            for (inputs, outputs), weight in zip(rows(call), by_offset, strict=True):
                scatter(total, outputs, features[inputs] @ weight)
            if spoil is not None:
                spoil(call, total)
            write(call.array("features_out"), total)
        return Status.SUCCESS

    return Mutant(name, message, run)


_RIGHT: Final = _variant("", "").run


def _overwrite(total: Array, rows: Array, part: Array) -> None:
    total[rows] = part


def _largest(total: Array, rows: Array, part: Array) -> None:
    np.maximum.at(total, rows, part)


def _last_row_missing(call: OpCall, total: Array) -> None:
    del call
    total[-1] = 0


def _even_offsets_missing_the_last(call: OpCall, total: Array) -> None:
    """Released code alternates between the output and a temporary; the last sum stays in the temporary."""
    used = [k for k, count in enumerate(call.param("indice_num")) if count > 0]
    if len(used) % 2 == 0:
        features, weights = call.array("features").astype(np.float32), right_weights(call).astype(np.float32)
        total[...] = 0
        for k in used[:-1]:
            inputs, outputs = right_rows(call)[k]
            _add(total, outputs, features[inputs] @ weights[k])


def _divided_by_pairs(call: OpCall, total: Array) -> None:
    met = np.zeros(len(total), np.float32)
    for _, outputs in right_rows(call):
        np.add.at(met, outputs, np.float32(1))
    total /= np.maximum(met, 1)[:, None]


def _adds_to_what_was_there(call: OpCall) -> Status:
    before = call.array("features_out").copy()
    status = _RIGHT(call)
    with np.errstate(invalid="ignore", over="ignore"):
        call.array("features_out")[...] += before
    return status


def _rows_without_pairs(call: OpCall) -> Array:
    received = np.zeros(call.tensor("features_out").dims[0], np.bool_)
    for _, outputs in right_rows(call):
        received[outputs] = True
    return ~received


def _accumulates_in_own_type(call: OpCall) -> Status:
    features, result = call.array("features"), call.array("features_out")
    total = np.zeros_like(result)
    for (inputs, outputs), weights in zip(right_rows(call), right_weights(call), strict=True):
        for channel in range(features.shape[1]):
            np.add.at(total, outputs, features[inputs, channel, None] * weights[channel])
    result[...] = total
    return Status.SUCCESS


MUTANTS: Final = (
    *(_variant(one.name, one.message, weights=one.weights) for one in wrong_weights(summed=1)),
    *(_variant(one.name, one.message, rows=one.rows) for one in wrong_pairs("features", "features_out")),
    *(_variant(name, message, write=write) for name, message, write in WRONG_WRITES),
    _variant("overwrites", "updates rows instead of adding to them", scatter=_overwrite),
    _variant("maximum", "takes the largest product of an offset instead of the sum", scatter=_largest),
    _variant("bfloat16_products", "multiplies in bfloat16", rounded=lambda values: shortened(values, 8)),
    _variant("tf32_products", "multiplies in TF32", rounded=lambda values: shortened(values, 11)),
    _variant("tiny_factors_flushed", "takes subnormal features and weights for 0", rounded=flushed),
    _variant("last_row", "does not reach the last output row", spoil=_last_row_missing),
    _variant("mean", "divides by the number of pairs of a row", spoil=_divided_by_pairs),
    _variant(
        "result_in_temporary",
        "alternates between two buffers, and an even number of offsets ends in the wrong one",
        spoil=_even_offsets_missing_the_last,
    ),
    *tails_left(_RIGHT, "features_out", 0, "rows", tiles=(16, 32, 64)),
    *tails_left(_RIGHT, "features_out", 1, "channels", tiles=(16, 32, 64)),
    part_left(_RIGHT, "features_out", 0, "rows"),
    left("rows_without_pairs", "does not zero rows that receive nothing", _RIGHT, "features_out", _rows_without_pairs),
    Mutant("output_not_zeroed", "adds to what the output held before", _adds_to_what_was_there),
    Mutant("own_type", "accumulates half in half", _accumulates_in_own_type),
    input_cleared(_RIGHT, "features"),
    cached_by_shape(_RIGHT),
    sum_goes_on(_RIGHT, "features_out"),
)
