"""Wrong ways to read filters, to multiply rows with them and to add up; for mutants of sparse convolutions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np

from mluops_gtest.authoring import Array, Layout, Mutant, OpCall, Status
from mluops_gtest.authoring.mistakes import cached_by_shape, input_cleared, left, part_left, sum_goes_on, tails_left
from mluops_gtest.authoring.roundings import FLUSHED_WRITE, WRONG_WRITES, flushed

from .connections import axis_letters, extents, weights_by_offset
from .interpolation import shortened
from .wrong_pairs import Rows, right_rows, wrong_pairs

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


def _add(total: Array, rows: Array, part: Array) -> None:
    np.add.at(total, rows, part)


def _overwrite(total: Array, rows: Array, part: Array) -> None:
    total[rows] = part


def _largest(total: Array, rows: Array, part: Array) -> None:
    np.maximum.at(total, rows, part)


def _as_it_is(values: Array) -> Array:
    return values


def _write(output: Array, total: Array) -> None:
    output[...] = total


@dataclass(frozen=True, slots=True)
class ProductLoop:
    """The plain loop in float32: rows of `read` times the matrix of each offset are added to rows of `written`.

    `to` is the side of a pair that names the written row; towards the input rows (0) the matrices are transposed.
    """

    read: str
    written: str
    to: Literal[0, 1]

    def variant(
        self,
        name: str,
        message: str,
        *,
        weights: Callable[[OpCall], Array] = right_weights,
        rows: Callable[[OpCall], list[Rows]] = right_rows,
        multiply: Callable[[Array, Array], Array] = np.matmul,
        scatter: Callable[[Array, Array, Array], None] = _add,
        rounded: Callable[[Array], Array] = _as_it_is,
        spoil: Callable[[OpCall, Array], None] | None = None,
        write: Callable[[Array, Array], None] = _write,
    ) -> Mutant:
        """The loop with one part exchanged, or its sums spoilt."""

        def run(call: OpCall) -> Status:
            total = np.zeros(call.tensor(self.written).dims, np.float32)
            values = rounded(call.array(self.read).astype(np.float32))
            # Poison that a wrong index reaches may be a NaN.
            with np.errstate(invalid="ignore", over="ignore"):
                matrices = self._towards(rounded(weights(call).astype(np.float32)))
                for pairs, matrix in zip(rows(call), matrices, strict=True):
                    scatter(total, pairs[self.to], multiply(values[pairs[1 - self.to]], matrix))
                if spoil is not None:
                    spoil(call, total)
                write(call.array(self.written), total)
            return Status.SUCCESS

        return Mutant(name, message, run)

    def right(self, call: OpCall) -> Status:
        """Nothing is wrong."""
        return self.variant("", "").run(call)

    def mutants(self) -> Iterator[Mutant]:
        """Every mistake that both directions share."""
        rows_in, rows_out = (self.read, self.written) if self.to == 1 else (self.written, self.read)
        yield from (self.variant(one.name, one.message, weights=one.weights) for one in wrong_weights(2 - self.to))
        yield from (self.variant(one.name, one.message, rows=one.rows) for one in wrong_pairs(rows_in, rows_out))
        yield from (self.variant(name, message, write=write) for name, message, write in WRONG_WRITES)
        yield self.variant("overwrites", "updates rows instead of adding to them", scatter=_overwrite)
        yield self.variant("maximum", "takes the largest product of an offset instead of the sum", scatter=_largest)
        yield self.variant("bfloat16_products", "multiplies in bfloat16", rounded=lambda values: shortened(values, 8))
        yield self.variant("tf32_products", "multiplies in TF32", rounded=lambda values: shortened(values, 11))
        yield from tails_left(self.right, self.written, 0, "rows", tiles=_TILES)
        yield from tails_left(self.right, self.written, 1, "channels", tiles=_TILES)
        yield part_left(self.right, self.written, 0, "rows")
        message = "does not zero rows that receive nothing"
        yield left("rows_without_pairs", message, self.right, self.written, self._rows_without_pairs)
        yield Mutant("output_not_zeroed", "adds to what the output held before", self._adds_to_what_was_there)
        yield Mutant("own_type", "accumulates half in half", self._accumulates_in_own_type)
        yield input_cleared(self.right, self.read)
        yield cached_by_shape(self.right)
        yield sum_goes_on(self.right, self.written)

    def flushing(self) -> tuple[Mutant, ...]:
        """Right ones, on devices without subnormal floats."""
        name, message, write = FLUSHED_WRITE
        factors = self.variant("tiny_factors_flushed", "takes subnormal factors for 0", rounded=flushed)
        return factors, self.variant(name, message, write=write)

    def _towards(self, weights: Array) -> Array:
        return weights if self.to == 1 else weights.swapaxes(1, 2)

    def _rows_without_pairs(self, call: OpCall) -> Array:
        received = np.zeros(call.tensor(self.written).dims[0], np.bool_)
        for pairs in right_rows(call):
            received[pairs[self.to]] = True
        return ~received

    def _adds_to_what_was_there(self, call: OpCall) -> Status:
        before = call.array(self.written).copy()
        status = self.right(call)
        with np.errstate(invalid="ignore", over="ignore"):
            call.array(self.written)[...] += before
        return status

    def _accumulates_in_own_type(self, call: OpCall) -> Status:
        values, result = call.array(self.read), call.array(self.written)
        total = np.zeros_like(result)
        for pairs, matrix in zip(right_rows(call), self._towards(right_weights(call)), strict=True):
            for channel in range(values.shape[1]):
                np.add.at(total, pairs[self.to], values[pairs[1 - self.to], channel, None] * matrix[channel])
        result[...] = total
        return Status.SUCCESS
