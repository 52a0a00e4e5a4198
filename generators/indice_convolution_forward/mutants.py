"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.roundings import WRONG_WRITES

from .wrong_readings import (
    Step,
    right_steps,
    right_weights,
    steps_by_position,
    steps_by_stride,
    steps_by_symmetry,
    steps_exchanged,
    steps_of_first_count,
    steps_until_empty,
    steps_with_centre_twice,
    steps_with_tail,
    steps_without_centre,
    steps_without_last,
    weights_mirrored,
    weights_ncdhw_as_ndhwc,
    weights_ndhwc_as_array,
    weights_of_first_depth,
    weights_of_met_offsets,
    weights_transposed,
    weights_width_first,
)

# Rows or channels that a tiled kernel takes at a time.
_TILE: Final = 64


def _add(total: Array, rows: Array, part: Array) -> None:
    np.add.at(total, rows, part)


def _as_it_is(values: Array) -> Array:
    return values


def _write(output: Array, total: Array) -> None:
    output[...] = total


def _convolve(
    call: OpCall,
    total: Array,
    *,
    weights: Callable[[OpCall], Array] = right_weights,
    steps: Callable[[OpCall, Array], list[Step]] = right_steps,
    scatter: Callable[[Array, Array, Array], None] = _add,
    rounded: Callable[[Array], Array] = _as_it_is,
) -> None:
    """The plain loop of §3.1 in float32, onto `total`."""
    features = rounded(call.array("features").astype(np.float32))
    for step in steps(call, rounded(weights(call).astype(np.float32))):
        scatter(total, step.outputs, features[step.inputs] @ step.weights)


def _variant(
    name: str,
    message: str,
    *,
    weights: Callable[[OpCall], Array] = right_weights,
    steps: Callable[[OpCall, Array], list[Step]] = right_steps,
    scatter: Callable[[Array, Array, Array], None] = _add,
    rounded: Callable[[Array], Array] = _as_it_is,
    spoil: Callable[[OpCall, Array], None] | None = None,
    write: Callable[[Array, Array], None] = _write,
) -> Mutant:
    """The plain loop with one part exchanged, or its result spoilt."""

    def run(call: OpCall) -> Status:
        total = np.zeros(call.tensor("features_out").dims, np.float32)
        # Poison that a wrong index reaches may be a NaN.
        with np.errstate(invalid="ignore", over="ignore"):
            _convolve(call, total, weights=weights, steps=steps, scatter=scatter, rounded=rounded)
            if spoil is not None:
                spoil(call, total)
            write(call.array("features_out"), total)
        return Status.SUCCESS

    return Mutant(name, message, run)


# Scattering and rounding.


def _overwrite(total: Array, rows: Array, part: Array) -> None:
    total[rows] = part


def _to_bits(kept: int) -> Callable[[Array], Array]:
    """Rounds float32 to nearest with `kept` of its 24 mantissa bits."""

    def rounded(values: Array) -> Array:
        dropped = 24 - kept
        bits = values.view("<u4") + np.uint32(1 << (dropped - 1))
        return (bits & ~np.uint32((1 << dropped) - 1)).view("<f4")

    return rounded


# What is wrong with the finished sums.


def _last_row_missing(call: OpCall, total: Array) -> None:
    del call
    total[-1] = 0


def _rows_behind_tiles_missing(call: OpCall, total: Array) -> None:
    del call
    if len(total) > _TILE:
        total[len(total) // _TILE * _TILE :] = 0


def _channels_behind_tiles_missing(call: OpCall, total: Array) -> None:
    del call
    channels = total.shape[1]
    if channels > _TILE:
        total[:, channels // _TILE * _TILE :] = 0


def _even_offsets_missing_the_last(call: OpCall, total: Array) -> None:
    """Released code alternates between the output and a temporary; the last sum stays in the temporary."""
    used = [k for k, count in enumerate(call.param("indice_num")) if count > 0]
    if len(used) % 2 == 0:
        total[...] = 0
        _convolve(call, total, steps=lambda c, w: [right_steps(c, w)[k] for k in used[:-1]])


def _right_total(call: OpCall) -> Array:
    total = np.zeros(call.tensor("features_out").dims, np.float32)
    _convolve(call, total)
    return total


def _drops_channels_in(call: OpCall) -> Status:
    features, total = call.array("features").astype(np.float32), np.zeros(call.tensor("features_out").dims, np.float32)
    kept = features.shape[1] // _TILE * _TILE or features.shape[1]
    for step in right_steps(call, right_weights(call).astype(np.float32)):
        _add(total, step.outputs, features[step.inputs, :kept] @ step.weights[:kept])
    call.array("features_out")[...] = total
    return Status.SUCCESS


def _adds_to_what_was_there(call: OpCall) -> Status:
    with np.errstate(invalid="ignore", over="ignore"):
        call.array("features_out")[...] += _right_total(call).astype(call.array("features_out").dtype)
    return Status.SUCCESS


def _leaves_rows_without_pairs(call: OpCall) -> Status:
    result, pairs = call.array("features_out"), call.array("indice_pairs")
    received = np.zeros(len(result), np.bool_)
    for k, count in enumerate(call.param("indice_num")):
        received[pairs[k, 1, :count]] = True
    result[received] = _right_total(call)[received]
    return Status.SUCCESS


def _accumulates_in_own_type(call: OpCall) -> Status:
    features, result = call.array("features"), call.array("features_out")
    total = np.zeros_like(result)
    for step in right_steps(call, right_weights(call)):
        for channel in range(features.shape[1]):
            np.add.at(total, step.outputs, features[step.inputs, channel, None] * step.weights[channel])
    result[...] = total
    return Status.SUCCESS


MUTANTS: Final = (
    _variant("rows_exchanged", "takes row 0 of a pair for the output, as §1.2 prints it", steps=steps_exchanged),
    _variant("weights_transposed", "reads W_k as [Co, Ci]", weights=weights_transposed),
    _variant("kernel_mirrored", "takes W of the opposite offset", weights=weights_mirrored),
    _variant("width_first", "counts offsets along the depth first", weights=weights_width_first),
    _variant("two_dimensional", "takes W(k / Kw, k % Kw) of §1.2, without depth", weights=weights_of_first_depth),
    _variant("ndhwc_as_array", "reads NDHWC as ARRAY", weights=weights_ndhwc_as_array),
    _variant("ncdhw_as_ndhwc", "reads NCDHW as NDHWC", weights=weights_ncdhw_as_ndhwc),
    _variant("weights_of_next", "skips an empty offset together with its weights", weights=weights_of_met_offsets),
    _variant("tail_read", "reads all L pairs, whatever indice_num says", steps=steps_with_tail),
    _variant("first_count", "takes indice_num[0] for every offset", steps=steps_of_first_count),
    _variant("until_empty", "ends at the first empty offset", steps=steps_until_empty),
    _variant("last_offset", "stops before the last offset", steps=steps_without_last),
    _variant(
        "stride_of_outputs",
        "finds pairs Y entries apart instead of L",
        steps=steps_by_stride(lambda rows_out, _: rows_out),
    ),
    _variant(
        "stride_of_counts",
        "finds pairs indice_num[k] entries apart instead of L",
        steps=steps_by_stride(lambda _, count: count),
    ),
    _variant("positions", "gathers row l instead of the row that the pair names", steps=steps_by_position),
    _variant("sub_m_centre_skipped", "skips the middle offset with sub_m", steps=steps_without_centre),
    _variant("sub_m_centre_twice", "adds the middle offset apart, and again", steps=steps_with_centre_twice),
    _variant("sub_m_symmetry", "takes the pairs of k for K − 1 − k, not exchanged", steps=steps_by_symmetry),
    _variant("overwrites", "updates rows instead of adding to them", scatter=_overwrite),
    _variant("bfloat16_products", "multiplies in bfloat16", rounded=_to_bits(8)),
    _variant("tf32_products", "multiplies in TF32", rounded=_to_bits(11)),
    _variant("last_row", "does not reach the last output row", spoil=_last_row_missing),
    _variant("row_tail", "drops output rows behind a multiple of 64", spoil=_rows_behind_tiles_missing),
    _variant("channel_out_tail", "drops Co behind a multiple of 64", spoil=_channels_behind_tiles_missing),
    _variant(
        "result_in_temporary",
        "alternates between two buffers, and an even number of offsets ends in the wrong one",
        spoil=_even_offsets_missing_the_last,
    ),
    *(_variant(name, message, write=write) for name, message, write in WRONG_WRITES),
    Mutant("channel_in_tail", "drops Ci behind a multiple of 64", _drops_channels_in),
    Mutant("output_not_zeroed", "adds to what the output held before", _adds_to_what_was_there),
    Mutant("rows_without_pairs", "does not zero rows that receive nothing", _leaves_rows_without_pairs),
    Mutant("own_type", "accumulates half in half", _accumulates_in_own_type),
)
