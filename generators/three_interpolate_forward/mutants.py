"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.interpolation import shortened
from mluops_gtest.authoring.mistakes import (
    cached_by_shape,
    first_length_kept,
    input_cleared,
    part_left,
    sum_goes_on,
    tails_left,
)
from mluops_gtest.authoring.roundings import WRONG_WRITES
from mluops_gtest.authoring.wrong_triples import WRONG_TRIPLES, Entries

# What kernels cut axes into.
_TILE: Final = 64


class Operands(NamedTuple):
    """The inputs in float32: features [B, C, M], indices and weights [B, N, 3]."""

    features: Array
    indices: Array
    weights: Array

    @property
    def cells(self) -> int:
        """M."""
        return self.features.shape[2]  # type: ignore[no-any-return]


def _as_they_are(operands: Operands) -> Operands:
    return operands


def _products(operands: Operands) -> Array:
    """[3, B, C, N]."""
    features, indices, weights = operands
    chosen = np.stack([batch[:, cells.T] for batch, cells in zip(features, indices, strict=True)])
    return np.moveaxis(chosen * weights.transpose(0, 2, 1)[:, None], 2, 0)


def _sum(products: Array) -> Array:
    return (products[0] + products[1]) + products[2]  # type: ignore[no-any-return]


def _write(output: Array, total: Array) -> None:
    output[...] = total


def variant(
    name: str,
    message: str,
    *,
    read: Callable[[Operands], Operands] = _as_they_are,
    multiply: Callable[[Operands], Array] = _products,
    add: Callable[[Array], Array] = _sum,
    write: Callable[[Array, Array], None] = _write,
) -> Mutant:
    """The plain formula in float32 with one part exchanged."""

    def run(call: OpCall) -> Status:
        features, weights = (call.array(name).astype(np.float32) for name in ("features", "weights"))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            operands = read(Operands(features, call.array("indices"), weights))
            write(call.array("output"), add(multiply(operands)))
        return Status.SUCCESS

    return Mutant(name, message, run)


# What is read.


def _channels_last(features: Array) -> Array:
    batches, channels, cells = features.shape
    return features.reshape(batches, cells, channels).swapaxes(1, 2)


def _entries(change: Callable[[Entries], Entries]) -> Callable[[Operands], Operands]:
    def read(operands: Operands) -> Operands:
        entries = change(Entries(operands.indices, operands.weights, operands.cells))
        return operands._replace(indices=entries.indices, weights=entries.weights)

    return read


def _short_inputs(bits: int) -> Callable[[Operands], Operands]:
    return lambda o: o._replace(features=shortened(o.features, bits), weights=shortened(o.weights, bits))


def _half_inputs(operands: Operands) -> Operands:
    features, weights = (array.astype(np.float16).astype(np.float32) for array in (operands.features, operands.weights))
    return operands._replace(features=features, weights=weights)


# How it is multiplied and added.


def _zero_times_anything(operands: Operands) -> Array:
    zero = operands.weights.transpose(2, 0, 1)[:, :, None] == 0
    return np.where(zero, np.float32(0), _products(operands))


def _dense(operands: Operands) -> Array:
    """A matrix product with a row of zeros for all cells that a point does not name."""
    features, indices, weights = operands
    chosen = indices[..., None] == np.arange(operands.cells)
    return np.moveaxis(np.einsum("bcm,bntm->bctn", features, chosen * weights[..., None]), 2, 0)


def _in_half(products: Array) -> Array:
    first, second, third = products.astype(np.float16)
    return ((first + second) + third).astype(np.float32)  # type: ignore[no-any-return]


def _clamped(products: Array) -> Array:
    largest = np.finfo(np.float32).max
    return np.clip(_sum(np.clip(products, -largest, largest)), -largest, largest)


# What is written.


def _transposed(output: Array, total: Array) -> None:
    batches, channels, points = output.shape
    output.reshape(batches, points, channels)[...] = total.swapaxes(1, 2)


def _onto_the_old(output: Array, total: Array) -> None:
    output[...] = output + total


def _without_tail(axis: int) -> Callable[[Array, Array], None]:
    def write(output: Array, total: Array) -> None:
        whole = output.shape[axis] // _TILE * _TILE or output.shape[axis]
        output[...] = 0
        np.moveaxis(output, axis, 0)[:whole] = np.moveaxis(total, axis, 0)[:whole]

    return write


def _tile_repeated(output: Array, total: Array) -> None:
    """Every tile of points shows the first one's results."""
    output[...] = total[..., np.arange(total.shape[-1]) % _TILE]


_right = variant("", "").run

MUTANTS: Final = (
    *(variant(name, message, read=_entries(change)) for name, message, change in WRONG_TRIPLES),
    variant(
        "features_channels_last",
        "reads features as [B, M, C]",
        read=lambda o: o._replace(features=_channels_last(o.features)),
    ),
    variant("output_channels_last", "writes output as [B, N, C]", write=_transposed),
    variant(
        "features_of_batch_0",
        "adds no batch offset to features",
        read=lambda o: o._replace(features=np.broadcast_to(o.features[:1], o.features.shape)),
    ),
    variant(
        "first_channel_everywhere",
        "adds no channel offset to features",
        read=lambda o: o._replace(features=np.broadcast_to(o.features[:, :1], o.features.shape)),
    ),
    variant("channel_tail", "loses the channels behind the last whole tile of 64", write=_without_tail(1)),
    variant("tile_repeated", "writes the first tile of 64 points again and again", write=_tile_repeated),
    variant("output_added_to", "adds to what the buffer held", write=_onto_the_old),
    variant("zero_times_inf", "takes 0 · Inf and 0 · NaN for 0", multiply=_zero_times_anything),
    variant("nan_spread", "multiplies zeros with the cells that a point does not name", multiply=_dense),
    variant(
        "nan_skipped",
        "counts NaN as 0",
        add=lambda products: _sum(np.where(np.isnan(products), np.float32(0), products)),
    ),
    variant("infinite_clamped", "infinities become the largest float", add=_clamped),
    variant("half_sums", "adds in half where the type is float", add=_in_half),
    variant("half_inputs", "rounds float inputs to half", read=_half_inputs),
    variant("bf16_inputs", "rounds float inputs to bf16", read=_short_inputs(8)),
    variant("tf32_inputs", "rounds float inputs to tf32", read=_short_inputs(11)),
    variant("tf32_products", "rounds products to tf32", add=lambda products: _sum(shortened(products, 11))),
    variant("bf16_products", "rounds products to bf16", add=lambda products: _sum(shortened(products, 8))),
    *(variant(name, message, write=write) for name, message, write in WRONG_WRITES),
    *tails_left(_right, "output", 2, "points", (16, 128)),
    part_left(_right, "output", 1, "channels"),
    # What another call finds.
    cached_by_shape(_right),
    sum_goes_on(_right, "output"),
    first_length_kept(_right, "output", 2, "points"),
    input_cleared(_right, "weights"),
)
