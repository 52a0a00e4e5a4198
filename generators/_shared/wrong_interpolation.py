"""Mistakes that operators with three weighted cells per point share, in both directions; for mutants."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from mluops_gtest.authoring import Array, Mutant
from mluops_gtest.authoring.mistakes import (
    Run,
    cached_by_shape,
    first_length_kept,
    input_cleared,
    part_left,
    sum_goes_on,
    tails_left,
)
from mluops_gtest.authoring.roundings import WRONG_WRITES, through_half

from .interpolation import shortened

# What kernels cut axes into.
_TILE: Final = 64


class Entries(NamedTuple):
    """The cells that each point names and their weights, [B, N, 3] each; and how many cells there are."""

    indices: Array
    weights: Array
    cells: int

    def named(self, indices: Array) -> "Entries":
        """The same weights for other cells."""
        return self._replace(indices=indices)

    def weighted(self, weights: Array) -> "Entries":
        """Other weights, in the type of these."""
        return self._replace(weights=weights.astype(self.weights.dtype))

    def without(self, dropped: Array) -> "Entries":
        """The entries `dropped`, bool [B, N, 3], add 0."""
        return self.weighted(np.where(dropped, 0, self.weights))


def _triples_first(triples: Array) -> Array:
    batches, points, _ = triples.shape
    return triples.reshape(batches, 3, points).swapaxes(1, 2)


def _first_batch(array: Array) -> Array:
    return np.broadcast_to(array[:1], array.shape)


def _summing_to_one(weights: Array) -> Array:
    first, second, _ = np.moveaxis(weights, -1, 0)
    return np.stack([first, second, 1 - first - second], axis=-1)


def _named_again(indices: Array) -> Array:
    first, second, third = np.moveaxis(indices, -1, 0)
    return np.stack([np.zeros_like(first, bool), second == first, (third == first) | (third == second)], axis=-1)


def _behind_tiles(count: int) -> int:
    """Where the last whole tile ends, where there is more than one."""
    return count // _TILE * _TILE or count


def _behind_last_tile(points: int) -> Array:
    return np.arange(points)[:, None] >= _behind_tiles(points)


# Name, message, and what is read in place of the entries.
WRONG_TRIPLES: Final = (
    ("indices_triples_first", "reads indices as [B, 3, N]", lambda e: e.named(_triples_first(e.indices))),
    ("weights_triples_first", "reads weights as [B, 3, N]", lambda e: e.weighted(_triples_first(e.weights))),
    ("indices_of_batch_0", "adds no batch offset to indices", lambda e: e.named(_first_batch(e.indices))),
    ("weights_of_batch_0", "adds no batch offset to weights", lambda e: e.weighted(_first_batch(e.weights))),
    ("next_weight", "pairs index t + 1 with weight t", lambda e: e.weighted(np.roll(e.weights, 1, axis=-1))),
    ("weights_reversed", "pairs index t with weight 2 − t", lambda e: e.weighted(e.weights[..., ::-1])),
    ("indices_sorted", "sorts indices without their weights", lambda e: e.named(np.sort(e.indices, axis=-1))),
    ("point_before", "takes the indices of point n − 1", lambda e: e.named(np.roll(e.indices, 1, axis=1))),
    ("weights_ignored", "takes 1 for every weight", lambda e: e.weighted(np.ones_like(e.weights))),
    ("mean_of_three", "takes 1/3 for every weight", lambda e: e.weighted(np.full_like(e.weights, 1 / 3))),
    (
        "weights_normalised",
        "divides the weights by their sum",
        lambda e: e.weighted(e.weights / e.weights.sum(axis=-1, keepdims=True)),
    ),
    ("weights_sum_to_one", "takes 1 − w0 − w1 for the third weight", lambda e: e.weighted(_summing_to_one(e.weights))),
    ("weights_absolute", "drops the weights' signs", lambda e: e.weighted(np.abs(e.weights))),
    ("weights_within_1", "clamps weights to 0 … 1", lambda e: e.weighted(np.clip(e.weights, 0, 1))),
    ("negative_dropped", "leaves out entries whose weight is negative", lambda e: e.without(e.weights < 0)),
    ("weights_squared", "multiplies with the weight twice", lambda e: e.weighted(e.weights * e.weights)),
    ("second_left_out", "leaves out the second cell of each point", lambda e: e.without(np.arange(3) == 1)),
    ("third_left_out", "leaves out the third cell of each point", lambda e: e.without(np.arange(3) == 2)),
    ("first_alone", "takes the first cell of each point alone", lambda e: e.without(np.arange(3) > 0)),
    ("repeated_once", "counts a cell that a triple names again once", lambda e: e.without(_named_again(e.indices))),
    ("cell_0_means_none", "takes index 0 for a neighbour that is missing", lambda e: e.without(e.indices == 0)),
    ("from_one", "takes indices as counted from 1", lambda e: e.named(np.maximum(e.indices - 1, 0))),
    (
        "next_cell",
        "takes the cell behind the one that is named",
        lambda e: e.named(np.minimum(e.indices + 1, e.cells - 1)),
    ),
    ("last_cell_clipped", "clips indices at M − 2", lambda e: e.named(np.clip(e.indices, 0, max(0, e.cells - 2)))),
    ("byte_indices", "keeps indices in 8 bits", lambda e: e.named(e.indices & 0xFF)),
    ("tile_base_lost", "forgets which tile of 64 cells an index is in", lambda e: e.named(e.indices % _TILE)),
    (
        "cell_tail",
        "loses the cells behind the last whole tile of 64",
        lambda e: e.without(e.indices >= _behind_tiles(e.cells)),
    ),
    (
        "point_tail",
        "loses the points behind the last whole tile of 64",
        lambda e: e.without(_behind_last_tile(e.indices.shape[1])),
    ),
    (
        "last_point_lost",
        "loses the last point",
        lambda e: e.without(np.arange(e.indices.shape[1])[:, None] == e.indices.shape[1] - 1),
    ),
)


class Operands(NamedTuple):
    """The inputs in float32: values [B, C, M] or [B, C, N], indices and weights [B, N, 3]; and M."""

    values: Array
    indices: Array
    weights: Array
    cells: int


Read = Callable[[Operands], Operands]
Write = Callable[[Array, Array], None]


def wrong_reads(tensor: str, short: str, axis: str) -> Iterator[tuple[str, str, Read]]:
    """Name, message, and what is read in place of the operands; `tensor` holds the values, [B, C, axis]."""
    for name, message, change in WRONG_TRIPLES:
        yield name, message, _entries(change)
    yield f"{short}_channels_last", f"reads {tensor} as [B, {axis}, C]", _values(_channels_last)
    yield f"{short}_of_batch_0", f"adds no batch offset to {tensor}", _values(lambda array: array[:1])
    yield "first_channel_everywhere", f"adds no channel offset to {tensor}", _values(lambda array: array[:, :1])
    yield "half_inputs", "rounds float inputs to half", _rounded(through_half)
    yield "bf16_inputs", "rounds float inputs to bf16", _rounded(lambda array: shortened(array, 8))
    yield "tf32_inputs", "rounds float inputs to tf32", _rounded(lambda array: shortened(array, 11))


def wrong_writes(tensor: str, short: str, axis: str) -> Iterator[tuple[str, str, Write]]:
    """Name, message, and how the sums are written; `tensor` is the output, [B, C, axis]."""
    yield f"{short}_channels_last", f"writes {tensor} as [B, {axis}, C]", _transposed
    yield f"{short}_added_to", "adds to what the buffer held", _onto_the_old
    yield "channel_tail", "loses the channels behind the last whole tile of 64", _without_channel_tail
    yield from WRONG_WRITES


def wrong_calls(right: Run, output: str, what: str) -> Iterator[Mutant]:
    """What remains unwritten, and what another call finds; `what` the last axis of the output counts."""
    yield from tails_left(right, output, 2, what, (16, 128))
    yield part_left(right, output, 1, "channels")
    yield cached_by_shape(right)
    yield sum_goes_on(right, output)
    yield first_length_kept(right, output, 2, what)
    yield input_cleared(right, "weights")


def _entries(change: Callable[[Entries], Entries]) -> Read:
    def read(operands: Operands) -> Operands:
        entries = change(Entries(operands.indices, operands.weights, operands.cells))
        return operands._replace(indices=entries.indices, weights=entries.weights)

    return read


def _values(change: Callable[[Array], Array]) -> Read:
    return lambda given: given._replace(values=np.broadcast_to(change(given.values), given.values.shape))


def _rounded(change: Callable[[Array], Array]) -> Read:
    return lambda given: given._replace(values=change(given.values), weights=change(given.weights))


def _channels_last(values: Array) -> Array:
    batches, channels, length = values.shape
    return values.reshape(batches, length, channels).swapaxes(1, 2)


def _transposed(output: Array, total: Array) -> None:
    batches, channels, length = output.shape
    output.reshape(batches, length, channels)[...] = total.swapaxes(1, 2)


def _onto_the_old(output: Array, total: Array) -> None:
    output[...] = output + total


def _without_channel_tail(output: Array, total: Array) -> None:
    whole = output.shape[1] // _TILE * _TILE or output.shape[1]
    output[...] = 0
    output[:, :whole] = total[:, :whole]
