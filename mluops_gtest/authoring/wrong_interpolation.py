"""Mistakes that operators with three weighted cells per point share, in both directions; for mutants."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from mluops_gtest.authoring.interpolation import shortened
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
from mluops_gtest.authoring.wrong_triples import WRONG_TRIPLES, Entries
from mluops_gtest.core.operator import Mutant
from mluops_gtest.core.tensor import Array

# What kernels cut axes into.
_TILE: Final = 64


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
