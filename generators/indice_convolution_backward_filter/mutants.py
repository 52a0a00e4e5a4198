"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Layout, Mutant, OpCall, Status
from mluops_gtest.authoring.mistakes import cached_by_shape, input_cleared, left, part_left, sum_goes_on, tails_left
from mluops_gtest.authoring.roundings import FLUSHED_WRITE, WRONG_WRITES, flushed

from .._shared.interpolation import shortened
from .._shared.wrong_pairs import Rows, right_rows, wrong_pairs

# Pairs that a kernel adds up at a time.
_TILE: Final = 64


def _as_float(values: Array) -> Array:
    return values.astype(np.float32)


def variant(
    name: str,
    message: str,
    *,
    rows: Callable[[OpCall], list[Rows]] = right_rows,
    factor: Callable[[Array], Array] = _as_float,
    add_up: Callable[[Array, Array], Array] = lambda features, grads: features.T @ grads,
    place: Callable[[OpCall, Array], Array] = lambda _, sums: sums,
    write: Callable[[Array, Array], None] = lambda result, sums: np.copyto(result, sums, casting="same_kind"),
) -> Mutant:
    """The loop of §3.1 in float32 with one part exchanged: gather, multiply, put each product [Ci, Co] in its place."""

    def run(call: OpCall) -> Status:
        result = call.array("filters_grad")
        features, grads, met = factor(call.array("features")), factor(call.array("output_grad")), rows(call)
        sums = np.zeros((len(met), *result.shape[-2:]), np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for k, (inputs, outputs) in enumerate(met):
                sums[k] = add_up(features[inputs], grads[outputs])
            write(result, place(call, sums).reshape(result.shape))
        return Status.SUCCESS

    return Mutant(name, message, run)


_RIGHT: Final = variant("", "").run


def _add_in_own_type(features: Array, grads: Array) -> Array:
    total = np.zeros((features.shape[1], grads.shape[1]), features.dtype)
    for feature, grad in zip(features, grads, strict=True):
        total += feature[:, None] * grad
    return total


def _last_tile_stays(features: Array, grads: Array) -> Array:
    first = max(len(features) - 1, 0) // _TILE * _TILE
    return features[first:].T @ grads[first:]


# Where the products go.


def _kernel_axes(call: OpCall) -> tuple[int, ...]:
    return call.tensor("filters_grad").dims[:-2]


def _width_slowest(call: OpCall, sums: Array) -> Array:
    reversed_axes = sums.reshape(*_kernel_axes(call)[::-1], -1)
    axes = range(reversed_axes.ndim - 1)
    return reversed_axes.transpose(*reversed(axes), reversed_axes.ndim - 1)


def _width_is_height(call: OpCall, sums: Array) -> Array:
    *_, height, width = _kernel_axes(call)
    planes = sums.reshape(-1, height, width, sums[0].size).copy()
    planes[:, :, height:] = 0
    return planes


def _sub_m_by_symmetry(call: OpCall, sums: Array) -> Array:
    if call.param("sub_m") == 1 and sums.shape[1] == sums.shape[2]:
        for k in range(len(sums) // 2):
            sums[-1 - k] = sums[k].T
    return sums


def _refuses(name: str, message: str, wrongly: Callable[[OpCall], bool]) -> Mutant:
    return Mutant(name, message, lambda call: Status.BAD_PARAM if wrongly(call) else _RIGHT(call))


MUTANTS: Final = (
    *(variant(one.name, one.message, rows=one.rows) for one in wrong_pairs("features", "output_grad")),
    variant("tf32", "multiplies in TF32", factor=lambda values: shortened(_as_float(values), 11)),
    variant("bfloat16", "multiplies in bfloat16", factor=lambda values: shortened(_as_float(values), 8)),
    variant("own_type", "accumulates half in half", factor=lambda values: values, add_up=_add_in_own_type),
    variant("tile_overwrites", "keeps the last tile of a sum instead of adding it", add_up=_last_tile_stays),
    variant("mean", "divides by indice_num", add_up=lambda f, g: f.T @ g / np.float32(max(1, len(f)))),
    variant("transposed", "writes [Co, Ci] per offset", place=lambda _, sums: sums.swapaxes(1, 2)),
    variant("kernel_mirrored", "writes to the opposite offset", place=lambda _, sums: sums[::-1]),
    variant("width_slowest", "counts offsets with the width as the slowest axis", place=_width_slowest),
    variant("width_is_height", "takes Kh for Kw", place=_width_is_height),
    variant("not_reset", "goes on with the sum of the offset before", place=lambda _, sums: np.cumsum(sums, axis=0)),
    variant("by_symmetry", "copies offset k transposed to K−1−k with sub_m", place=_sub_m_by_symmetry),
    *(variant(name, message, write=write) for name, message, write in WRONG_WRITES),
    *tails_left(_RIGHT, "filters_grad", -2, "input channels", tiles=(16, 32, 64), name="channels_in"),
    *tails_left(_RIGHT, "filters_grad", -1, "output channels", tiles=(16, 32, 64), name="channels_out"),
    part_left(_RIGHT, "filters_grad", -2, "input channels", name="channels_in"),
    input_cleared(_RIGHT, "output_grad"),
    cached_by_shape(_RIGHT),
    sum_goes_on(_RIGHT, "filters_grad"),
    left(
        "empty_offsets",
        "does not clear offsets without pairs, §3.1 without step 1",
        _RIGHT,
        "filters_grad",
        lambda call: np.equal(call.param("indice_num"), 0).reshape(_kernel_axes(call)),
    ),
    _refuses("sub_m_checked", "refuses sub_m other than 0 and 1", lambda call: call.param("sub_m") not in (0, 1)),
    _refuses(
        "layout_checked",
        "refuses a layout other than ARRAY",
        lambda call: call.tensor("filters_grad").layout is not Layout.ARRAY,
    ),
    _refuses("three_axes_only", "refuses a filter of four axes", lambda call: len(_kernel_axes(call)) == 2),
    _refuses(
        "rows_equal",
        "wants as many input rows as output rows with sub_m 0 too",
        lambda call: call.tensor("features").dims[0] != call.tensor("output_grad").dims[0],
    ),
)


def _multiplies_all_rows(call: OpCall) -> Status:
    """One row of zeros per input row without a partner, as a dense product has it."""
    features, grads = (_as_float(call.array(name)) for name in ("features", "output_grad"))
    result = call.array("filters_grad")
    sums = np.zeros((len(call.param("indice_num")), *result.shape[-2:]), np.float32)
    for k, (inputs, outputs) in enumerate(right_rows(call)):
        partners = np.zeros((len(features), grads.shape[1]), np.float32)
        partners[inputs] = grads[outputs]
        sums[k] = features.T @ partners
    result[...] = sums.reshape(result.shape)
    return Status.SUCCESS


_NAME, _MESSAGE, _WRITE = FLUSHED_WRITE
# Right implementations that the document allows; the cases of each tag alone tell them apart.
VARIANTS: Final = {
    "subnormal": (
        variant(
            "tiny_factors_flushed",
            "takes subnormal features and gradients for 0",
            factor=lambda values: flushed(_as_float(values)),
        ),
        variant(_NAME, _MESSAGE, write=_WRITE),
    ),
    "undefined": (
        Mutant(
            "zeros_for_nobody", "multiplies rows without a partner by zeros, and 0 · NaN is NaN", _multiplies_all_rows
        ),
    ),
}
