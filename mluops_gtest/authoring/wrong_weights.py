"""Plausible mistakes in reading the filters of a sparse convolution; for mutants."""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from mluops_gtest.authoring.filters import axis_letters, extents, weights_by_offset
from mluops_gtest.core.call import OpCall
from mluops_gtest.core.tensor import Array, Layout

_TILES: Final = (16, 32, 64)
_CHANNELS_LAST: Final = (Layout.NHWC, Layout.NDHWC)
_CHANNELS_FIRST: Final = (Layout.NCHW, Layout.NCDHW)


class WrongWeights(NamedTuple):
    """A mistake by name, what it says of itself, and the weights [K, Ci, Co] that it takes."""

    name: str
    message: str
    weights: Callable[[OpCall], Array]


def right_weights(call: OpCall) -> Array:
    """The weights of `filters` as [K, Ci, Co]."""
    return weights_by_offset(call.array("filters"), call.tensor("filters").layout)


def wrong_weights(summed: int) -> tuple[WrongWeights, ...]:
    """All of them; the operator sums over that axis of [K, Ci, Co]."""
    channels = {1: "input", 2: "output"}[summed]
    tails = (
        WrongWeights(
            f"{channels}_channel_tail_{tile}",
            f"adds no {channels} channel behind a multiple of {tile}",
            _without_tail(summed, tile),
        )
        for tile in _TILES
    )
    ends = (
        WrongWeights(f"{which}_{channels}_channel", f"leaves out the {which} {channels} channel", _without(summed, at))
        for which, at in (("first", 0), ("last", -1))
    )
    return (*_WRONG, *tails, *ends)


def _by_kernel(call: OpCall) -> Array:
    """The weights as [[Kd,] Kh, Kw, Ci, Co]."""
    filters = call.tensor("filters")
    letters = axis_letters(filters.layout, len(filters.dims))
    kernel = [length for letter, length in zip(letters, filters.dims, strict=True) if letter in "DHW"]
    right = right_weights(call)
    return right.reshape(*kernel, *right.shape[1:])


def _flat(weights: Array) -> Array:
    return weights.reshape(-1, *weights.shape[-2:])


def _transposed(call: OpCall) -> Array:
    right = right_weights(call)
    offsets, channels_in, channels_out = right.shape
    return right.reshape(offsets, channels_out, channels_in).swapaxes(1, 2)


def _width_slowest(call: OpCall) -> Array:
    right = _by_kernel(call)
    kernel = right.ndim - 2
    return _flat(right.transpose(*reversed(range(kernel)), kernel, kernel + 1))


def _height_for_width(call: OpCall) -> Array:
    return _flat(_by_kernel(call).swapaxes(-4, -3))


def _of_first_depth(call: OpCall) -> Array:
    right = _by_kernel(call)
    return _flat(np.broadcast_to(right[:1], right.shape) if right.ndim == 5 else right)


def _axis_mirrored(axis: int) -> Callable[[OpCall], Array]:
    """`axis` from the end of [[Kd,] Kh, Kw, Ci, Co]."""

    def weights(call: OpCall) -> Array:
        right = _by_kernel(call)
        return _flat(np.flip(right, axis) if right.ndim >= -axis else right)

    return weights


def _read_as_array(call: OpCall) -> Array:
    if call.tensor("filters").layout not in _CHANNELS_LAST:
        return right_weights(call)
    return call.array("filters").reshape(extents(call.tensor("filters").desc))


def _read_as_channels_last(*layouts: Layout) -> Callable[[OpCall], Array]:
    def weights(call: OpCall) -> Array:
        if call.tensor("filters").layout not in layouts:
            return right_weights(call)
        offsets, channels_in, channels_out = extents(call.tensor("filters").desc)
        return call.array("filters").reshape(channels_out, offsets, channels_in).transpose(1, 2, 0)

    return weights


def _without_tail(axis: int, tile: int) -> Callable[[OpCall], Array]:
    def weights(call: OpCall) -> Array:
        kept = right_weights(call).copy()
        length = kept.shape[axis]
        np.moveaxis(kept, axis, 0)[length // tile * tile if length > tile else length :] = 0
        return kept

    return weights


def _without(axis: int, index: int) -> Callable[[OpCall], Array]:
    def weights(call: OpCall) -> Array:
        kept = right_weights(call).copy()
        np.moveaxis(kept, axis, 0)[index] = 0
        return kept

    return weights


_WRONG: Final = (
    WrongWeights("weights_transposed", "reads W_k as [Co, Ci]", _transposed),
    WrongWeights("kernel_mirrored", "takes W of the opposite offset", lambda call: right_weights(call)[::-1]),
    WrongWeights("depth_mirrored", "counts offsets from the far end of the depth", _axis_mirrored(-5)),
    WrongWeights("height_mirrored", "counts offsets from the far end of the height", _axis_mirrored(-4)),
    WrongWeights("width_mirrored", "counts offsets from the far end of the width", _axis_mirrored(-3)),
    WrongWeights("width_slowest", "counts offsets with the width as the slowest axis", _width_slowest),
    WrongWeights("height_for_width", "counts offsets along the height before the width", _height_for_width),
    WrongWeights("two_dimensional", "takes W(k / Kw, k % Kw) as if there were no depth", _of_first_depth),
    WrongWeights("channels_last_as_array", "reads N(D)HWC as ARRAY", _read_as_array),
    WrongWeights("channels_first_as_last", "reads NC(D)HW as N(D)HWC", _read_as_channels_last(*_CHANNELS_FIRST)),
    WrongWeights("array_as_channels_last", "reads ARRAY as N(D)HWC", _read_as_channels_last(Layout.ARRAY)),
    WrongWeights(
        "weights_of_first",
        "takes W_0 for every offset",
        lambda call: right_weights(call)[[0] * len(call.param("indice_num"))],
    ),
    WrongWeights(
        "weights_of_next", "takes the weights of the next offset", lambda call: np.roll(right_weights(call), -1, axis=0)
    ),
)
