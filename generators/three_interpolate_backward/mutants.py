"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.roundings import FLUSHED_WRITE

from .._shared.interpolation import shortened
from .._shared.wrong_interpolation import Operands, wrong_calls, wrong_reads, wrong_writes

# What kernels cut axes into.
_TILE: Final = 64


class Scatter(NamedTuple):
    """What one batch adds: products [3·N, C], in the order of points, to these cells [3·N] of M."""

    products: Array
    places: Array
    cells: int

    @property
    def empty(self) -> Array:
        """[M, C] of zeros."""
        return np.zeros((self.cells, self.products.shape[1]), self.products.dtype)


def _as_they_are(operands: Operands) -> Operands:
    return operands


def _products(grad: Array, weights: Array) -> Array:
    """[3·N, C] of one batch."""
    return (grad.T[:, None, :] * weights[:, :, None]).reshape(-1, len(grad))


def _added(scatter: Scatter) -> Array:
    sums = scatter.empty
    np.add.at(sums, scatter.places, scatter.products)
    return sums


def _write(result: Array, total: Array) -> None:
    result[...] = total


def variant(
    name: str,
    message: str,
    *,
    read: Callable[[Operands], Operands] = _as_they_are,
    multiply: Callable[[Array, Array], Array] = _products,
    add: Callable[[Scatter], Array] = _added,
    write: Callable[[Array, Array], None] = _write,
) -> Mutant:
    """The plain formula in float32 with one part exchanged."""

    def run(call: OpCall) -> Status:
        grad, weights = (call.array(name).astype(np.float32) for name in ("grad_output", "weights"))
        result = call.array("grad_features")
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            operands = read(Operands(grad, call.array("indices"), weights, result.shape[2]))
            scatters = (
                Scatter(multiply(grad, weights), indices.reshape(-1), operands.cells)
                for grad, indices, weights in zip(*operands[:3], strict=True)
            )
            write(result, np.stack([add(scatter).T for scatter in scatters]))
        return Status.SUCCESS

    return Mutant(name, message, run)


# How it is multiplied and added.


def _zero_times_anything(grad: Array, weights: Array) -> Array:
    return np.where(weights.reshape(-1, 1) == 0, np.float32(0), _products(grad, weights))


def _last_wins(scatter: Scatter) -> Array:
    sums = scatter.empty
    for place, product in zip(scatter.places.tolist(), scatter.products, strict=True):
        sums[place] = product
    return sums


def _first_wins(scatter: Scatter) -> Array:
    sums = scatter.empty
    places, firsts = np.unique(scatter.places, return_index=True)
    sums[places] = scatter.products[firsts]
    return sums


def _lost_in_a_triple(scatter: Scatter) -> Array:
    """`sums[triple] += …` adds one of those that meet there."""
    sums = scatter.empty
    for first in range(0, len(scatter.places), 3):
        triple = slice(first, first + 3)
        sums[scatter.places[triple]] += scatter.products[triple]
    return sums


def _lost_between_tiles(scatter: Scatter) -> Array:
    """A tile of points writes its sums over those of the tile before."""
    sums = scatter.empty
    for first in range(0, len(scatter.places), 3 * _TILE):
        tile = slice(first, first + 3 * _TILE)
        part = _added(scatter._replace(products=scatter.products[tile], places=scatter.places[tile]))
        touched = np.unique(scatter.places[tile])
        sums[touched] = part[touched]
    return sums


def _lost_between_threads(scatter: Scatter) -> Array:
    """Of the sums of two halves of the points, the second is written over the first where both have one."""
    sums = scatter.empty
    middle = len(scatter.places) // 6 * 3
    for part in (slice(0, middle), slice(middle, None)):
        own = scatter._replace(products=scatter.products[part], places=scatter.places[part])
        sums[own.places] = _added(own)[own.places]
    return sums


def _mean(scatter: Scatter) -> Array:
    counts = np.bincount(scatter.places, minlength=scatter.cells)
    return (_added(scatter) / np.maximum(counts, 1)[:, None]).astype(np.float32)


def _largest(scatter: Scatter) -> Array:
    sums = scatter.empty
    sums[scatter.places] = -np.inf
    np.maximum.at(sums, scatter.places, scatter.products)
    return sums


def _in_half(scatter: Scatter) -> Array:
    return _added(scatter._replace(products=scatter.products.astype(np.float16))).astype(np.float32)


def _dense(scatter: Scatter) -> Array:
    """A matrix product with zeros for all cells that a point does not name."""
    named = (scatter.places == np.arange(scatter.cells)[:, None]).astype(np.float32)
    return np.einsum("me,ec->mc", named, scatter.products)  # type: ignore[no-any-return]


def _without_nan(scatter: Scatter) -> Array:
    return _added(scatter._replace(products=np.where(np.isnan(scatter.products), np.float32(0), scatter.products)))


def _clamped(scatter: Scatter) -> Array:
    largest = np.finfo(np.float32).max
    sums = _added(scatter._replace(products=np.clip(scatter.products, -largest, largest)))
    return np.clip(sums, -largest, largest)


def _shortened_products(bits: int) -> Callable[[Scatter], Array]:
    return lambda scatter: _added(scatter._replace(products=shortened(scatter.products, bits)))


# What is written.


def _into_first_batch(result: Array, total: Array) -> None:
    result[...] = 0
    result[0] = total.sum(axis=0)


def _where_not_zero(result: Array, total: Array) -> None:
    np.copyto(result, total.astype(result.dtype), where=total != 0)


def _leaves_untouched_cells(call: OpCall) -> Status:
    result = call.array("grad_features")
    before = result.copy()
    _right(call)
    for batch, (was, indices) in enumerate(zip(before, call.array("indices"), strict=True)):
        untouched = np.setdiff1d(np.arange(result.shape[2]), indices)
        result[batch][:, untouched] = was[:, untouched]
    return Status.SUCCESS


_right = variant("", "").run

MUTANTS: Final = (
    *(variant(name, message, read=read) for name, message, read in wrong_reads("grad_output", "grad", "N")),
    *(variant(name, message, write=write) for name, message, write in wrong_writes("grad_features", "result", "M")),
    *wrong_calls(_right, "grad_features", "cells"),
    variant("last_wins", "assigns instead of adding", add=_last_wins),
    variant("first_wins", "keeps the first contribution to a cell alone", add=_first_wins),
    variant(
        "lost_in_a_triple", "adds the three of a triple at once, and loses one where two meet", add=_lost_in_a_triple
    ),
    variant("lost_between_tiles", "each tile of 64 points overwrites the sums before it", add=_lost_between_tiles),
    variant("lost_between_threads", "two threads overwrite each other's sums", add=_lost_between_threads),
    variant("largest", "takes the largest contribution to a cell", add=_largest),
    variant("batches_summed", "adds every batch to the first", write=_into_first_batch),
    variant("mean", "divides by the number of contributions", add=_mean),
    Mutant("untouched_unwritten", "does not write cells that no index names", _leaves_untouched_cells),
    variant("zeros_unwritten", "does not write sums of 0", write=_where_not_zero),
    variant("zero_times_inf", "takes 0 · Inf and 0 · NaN for 0", multiply=_zero_times_anything),
    variant("nan_spread", "multiplies zeros with the cells that a point does not name", add=_dense),
    variant("nan_skipped", "counts NaN as 0", add=_without_nan),
    variant("infinite_clamped", "infinities become the largest float", add=_clamped),
    variant("half_sums", "adds in half where the type is float", add=_in_half),
    variant("tf32_products", "rounds products to tf32", add=_shortened_products(11)),
    variant("bf16_products", "rounds products to bf16", add=_shortened_products(8)),
)


# Right implementations that the document allows; the cases of each tag alone tell them apart.


_NAME, _MESSAGE, _WRITE = FLUSHED_WRITE

VARIANTS: Final = {"subnormal": (variant(_NAME, _MESSAGE, write=_WRITE),)}
