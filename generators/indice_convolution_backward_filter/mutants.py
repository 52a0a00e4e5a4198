"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Layout, Mutant, OpCall, Status
from mluops_gtest.authoring.roundings import WRONG_WRITES

from .wrong_rows import TILE, WRONG_ROWS, Rows, right_rows


def _right_factors(call: OpCall) -> tuple[Array, Array]:
    return call.array("features").astype(np.float32), call.array("output_grad").astype(np.float32)


def _right_sum(features: Array, grads: Array) -> Array:
    return features.T @ grads


def _right_place(_: OpCall, sums: Array) -> Array:
    return sums


def _write(result: Array, sums: Array) -> None:
    result[...] = sums


def _variant(
    name: str,
    message: str,
    *,
    rows: Callable[[OpCall], list[Rows]] = right_rows,
    factors: Callable[[OpCall], tuple[Array, Array]] = _right_factors,
    add_up: Callable[[Array, Array], Array] = _right_sum,
    place: Callable[[OpCall, Array], Array] = _right_place,
    write: Callable[[Array, Array], None] = _write,
) -> Mutant:
    """The loop of §3.1 in float32 with one part exchanged: gather, multiply, put each product [Ci, Co] in its place."""

    def run(call: OpCall) -> Status:
        result = call.array("filters_grad")
        features, grads = factors(call)
        met = rows(call)
        sums = np.zeros((len(met), *result.shape[-2:]), np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for k, (inputs, outputs) in enumerate(met):
                sums[k] = add_up(features[inputs], grads[outputs])
            write(result, place(call, sums).reshape(result.shape))
        return Status.SUCCESS

    return Mutant(name, message, run)


# With what precision.


def _with_mantissa(bits: int) -> Callable[[OpCall], tuple[Array, Array]]:
    """Both factors rounded to so many bits behind the point, as a matrix unit takes them."""
    dropped = 23 - bits

    def rounded(values: Array) -> Array:
        pattern = values.view(np.uint32)
        half_step = np.uint32(1 << (dropped - 1))
        return ((pattern + half_step) & np.uint32(2**32 - (1 << dropped))).view(np.float32)

    def factors(call: OpCall) -> tuple[Array, Array]:
        features, grads = _right_factors(call)
        return rounded(features), rounded(grads)

    return factors


def _own_factors(call: OpCall) -> tuple[Array, Array]:
    return call.array("features"), call.array("output_grad")


def _add_in_own_type(features: Array, grads: Array) -> Array:
    total = np.zeros((features.shape[1], grads.shape[1]), features.dtype)
    for feature, grad in zip(features, grads, strict=True):
        total += feature[:, None] * grad
    return total


def _last_tile_stays(features: Array, grads: Array) -> Array:
    first = max(len(features) - 1, 0) // TILE * TILE
    return features[first:].T @ grads[first:]


def _mean(features: Array, grads: Array) -> Array:
    return features.T @ grads / np.float32(max(1, len(features)))


# Where the products go.


def _kernel_axes(call: OpCall) -> tuple[int, ...]:
    return call.tensor("filters_grad").dims[:-2]


def _transposed(_: OpCall, sums: Array) -> Array:
    return sums.swapaxes(1, 2).reshape(sums.shape)


def _mirrored(_: OpCall, sums: Array) -> Array:
    return sums[::-1]


def _width_slowest(call: OpCall, sums: Array) -> Array:
    reversed_axes = sums.reshape(*_kernel_axes(call)[::-1], -1)
    axes = range(reversed_axes.ndim - 1)
    return reversed_axes.transpose(*reversed(axes), reversed_axes.ndim - 1)


def _width_is_height(call: OpCall, sums: Array) -> Array:
    *_, height, width = _kernel_axes(call)
    planes = sums.reshape(-1, height, width, sums[0].size).copy()
    planes[:, :, height:] = 0
    return planes


def _without_last_offset(_: OpCall, sums: Array) -> Array:
    sums[-1] = 0
    return sums


def _not_reset(_: OpCall, sums: Array) -> Array:
    return np.cumsum(sums, axis=0)


def _channel_tiles_only(axis: int) -> Callable[[OpCall, Array], Array]:
    def place(_: OpCall, sums: Array) -> Array:
        whole = max(sums.shape[axis] // TILE * TILE, min(sums.shape[axis], TILE))
        np.moveaxis(sums, axis, 0)[whole:] = 0
        return sums

    return place


def _sub_m_by_symmetry(call: OpCall, sums: Array) -> Array:
    if call.param("sub_m") == 1 and sums.shape[1] == sums.shape[2]:
        for k in range(len(sums) // 2):
            sums[-1 - k] = sums[k].T
    return sums


# What a variant of the loop cannot show.


def _leaves_empty_offsets(call: OpCall) -> Status:
    by_offset = call.array("filters_grad").reshape(-1, *call.tensor("filters_grad").dims[-2:])
    before = by_offset.copy()
    _variant("", "").run(call)
    empty = [k for k, count in enumerate(call.param("indice_num")) if count == 0]
    by_offset[empty] = before[empty]
    return Status.SUCCESS


def _multiplies_all_rows(call: OpCall) -> Status:
    """One row of zeros per input row without a partner, as a dense product has it."""
    features, grads = _right_factors(call)
    result = call.array("filters_grad")
    sums = np.zeros((len(call.param("indice_num")), *result.shape[-2:]), np.float32)
    for k, (inputs, outputs) in enumerate(right_rows(call)):
        partners = np.zeros((len(features), grads.shape[1]), np.float32)
        partners[inputs] = grads[outputs]
        sums[k] = features.T @ partners
    result[...] = sums.reshape(result.shape)
    return Status.SUCCESS


def _refuses(name: str, message: str, wrongly: Callable[[OpCall], bool]) -> Mutant:
    right = _variant("", "")
    return Mutant(name, message, lambda call: Status.BAD_PARAM if wrongly(call) else right.run(call))


MUTANTS: Final = (
    *(_variant(name, message, rows=rows) for name, message, rows in WRONG_ROWS),
    _variant("tf32", "multiplies with 10 bits of mantissa", factors=_with_mantissa(10)),
    _variant("bfloat16", "multiplies with 7 bits of mantissa", factors=_with_mantissa(7)),
    _variant("own_type", "accumulates half in half", factors=_own_factors, add_up=_add_in_own_type),
    _variant("tile_overwrites", "keeps the last tile of a sum instead of adding it", add_up=_last_tile_stays),
    _variant("mean", "divides by indice_num", add_up=_mean),
    _variant("transposed", "writes [Co, Ci] per offset", place=_transposed),
    _variant("kernel_mirrored", "writes to the opposite offset", place=_mirrored),
    _variant("width_slowest", "counts offsets with the width as the slowest axis", place=_width_slowest),
    _variant("width_is_height", "takes Kh for Kw", place=_width_is_height),
    _variant("last_offset", "stops before the last offset", place=_without_last_offset),
    _variant("not_reset", "goes on with the sum of the offset before", place=_not_reset),
    _variant("channels_in_tail", "drops input channels behind a multiple of 64", place=_channel_tiles_only(1)),
    _variant("channels_out_tail", "drops output channels behind a multiple of 64", place=_channel_tiles_only(2)),
    _variant("by_symmetry", "copies offset k transposed to K−1−k with sub_m", place=_sub_m_by_symmetry),
    *(_variant(name, message, write=write) for name, message, write in WRONG_WRITES),
    Mutant("empty_offsets", "does not clear offsets without pairs, §3.1 without step 1", _leaves_empty_offsets),
    Mutant("zeros_for_nobody", "multiplies rows without a partner by zeros, and 0 · NaN is NaN", _multiplies_all_rows),
    _refuses("sub_m_checked", "refuses sub_m other than 0 and 1", lambda call: call.param("sub_m") not in (0, 1)),
    _refuses(
        "layout_checked",
        "refuses a layout other than ARRAY",
        lambda call: call.tensor("filters_grad").layout is not Layout.ARRAY,
    ),
    _refuses(
        "three_axes_only", "refuses a filter of four axes", lambda call: len(call.tensor("filters_grad").dims) == 4
    ),
    _refuses(
        "rows_equal",
        "wants as many input rows as output rows with sub_m 0 too",
        lambda call: call.tensor("features").dims[0] != call.tensor("output_grad").dims[0],
    ),
)
