"""Mistakes that operators with three weighted cells per point share, in both directions; for mutants."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from mluops_gtest.authoring import Array, Baseline, Mutant, OpCall
from mluops_gtest.authoring.mistakes import (
    cached_by_shape,
    first_length_kept,
    input_cleared,
    part_left,
    sum_goes_on,
    tails_left,
)
from mluops_gtest.authoring.roundings import WRONG_WRITES, through_half
from mluops_gtest.authoring.sum_of_terms import SumOfTerms
from mluops_gtest.authoring.suspects import Suspect, as_read, misread, with_inputs
from mluops_gtest.authoring.wrong_sums import Terms, added, wrong_sum, wrong_sums

from .interpolation import Direction, shortened

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


# What other suspects say, or the place that a mistake leaves.
_SAID_OTHERWISE: Final = (
    "weights_ignored",
    "repeated_once",
    "byte_indices",
    "tile_base_lost",
    "cell_tail",
    "point_tail",
)
_SAID_OF_POINTS: Final = ("mean_of_three", "third_left_out")


def misread_entries(direction: Direction, change: Callable[[Entries], Entries]) -> Callable[[OpCall], OpCall]:
    """The call with the cells and weights that a wrong kernel reads."""

    def read(call: OpCall) -> OpCall:
        entries = change(Entries(call.array("indices"), call.array("weights"), direction.cells_of(call)))
        indices, weights = (np.ascontiguousarray(array) for array in entries[:2])
        return with_inputs(call, indices=indices.astype(call.array("indices").dtype), weights=weights)

    return read


def interpolation_suspects(direction: Direction, reference: Callable[[OpCall], Baseline]) -> dict[str, Suspect]:
    """Mistakes about the three cells and weights of every point."""
    others = {*_SAID_OTHERWISE, *(_SAID_OF_POINTS if direction.forward else ())}
    changes: dict[str, Callable[[Entries], Entries]] = {
        f"it {message}": change for name, message, change in WRONG_TRIPLES if name not in others
    }
    changes["every weight is 1"] = lambda e: e.weighted(np.ones_like(e.weights))
    if direction.forward:
        changes["every weight is 1/3"] = lambda e: e.weighted(np.full_like(e.weights, 1 / 3))
    return {words: as_read(reference, misread_entries(direction, change)) for words, change in changes.items()}


def interpolation_mutants(direction: Direction, terms: Callable[[OpCall], SumOfTerms]) -> Iterator[Mutant]:
    """What is read, added and written by mistake, and what another call finds."""
    wrong = partial(wrong_sum, output=direction.output, terms=terms)
    for name, message, change in WRONG_TRIPLES:
        yield wrong(name, message, read=misread_entries(direction, change))
    fed, given, axis = direction.fed, direction.fed.removesuffix("_output"), "M" if direction.forward else "N"
    yield wrong(f"{given}_channels_last", f"reads {fed} as [B, {axis}, C]", read=misread(**{fed: _channels_last}))
    yield wrong(f"{given}_of_batch_0", f"adds no batch offset to {fed}", read=misread(**{fed: _first_batch}))
    yield wrong("first_channel_everywhere", f"adds no channel offset to {fed}", read=misread(**{fed: _first_channel}))
    for name, narrow in _NARROW.items():
        yield wrong(
            f"{name}_inputs", f"rounds float inputs to {name}", read=misread(**{fed: narrow, "weights": narrow})
        )
    for name in ("tf32", "bf16"):
        yield wrong(f"{name}_products", f"rounds products to {name}", add=partial(_add_narrow, _NARROW[name]))
    yield from wrong_sums(direction.output, terms)
    written, axis, what = ("output", "N", "points") if direction.forward else ("result", "M", "cells")
    yield wrong(f"{written}_channels_last", f"writes {direction.output} as [B, {axis}, C]", write=_transposed)
    yield wrong(f"{written}_added_to", "adds to what the buffer held", write=_onto_the_old)
    yield wrong("channel_tail", "loses the channels behind the last whole tile of 64", write=_without_channel_tail)
    for name, message, write in WRONG_WRITES:
        yield wrong(name, message, write=write)
    right, output = wrong("", "").run, direction.output
    yield from tails_left(right, output, 2, what, (16, 128))
    yield part_left(right, output, 1, "channels")
    yield cached_by_shape(right)
    yield sum_goes_on(right, output)
    yield first_length_kept(right, output, 2, what)
    yield input_cleared(right, "weights")


def _add_narrow(narrow: Callable[[Array], Array], terms: Terms) -> Array:
    return added(terms.become(narrow(terms.products)))


_NARROW: Final[dict[str, Callable[[Array], Array]]] = {
    "half": through_half,
    "bf16": partial(shortened, bits=8),
    "tf32": partial(shortened, bits=11),
}


def _first_channel(values: Array) -> Array:
    return np.broadcast_to(values[:, :1], values.shape)


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
