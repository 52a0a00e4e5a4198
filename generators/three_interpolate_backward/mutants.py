"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.interpolation import shortened
from mluops_gtest.authoring.roundings import WRONG_WRITES

# What kernels cut axes into.
_TILE: Final = 64


class Operands(NamedTuple):
    """The inputs in float32: gradients [B, C, N], indices and weights [B, N, 3]; and M."""

    grad: Array
    indices: Array
    weights: Array
    cells: int


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
                for grad, indices, weights in zip(operands.grad, operands.indices, operands.weights, strict=True)
            )
            write(result, np.stack([add(scatter).T for scatter in scatters]))
        return Status.SUCCESS

    return Mutant(name, message, run)


# What is read.


def _triples_first(triples: Array) -> Array:
    batches, points, _ = triples.shape
    return triples.reshape(batches, 3, points).swapaxes(1, 2)


def _channels_last(grad: Array) -> Array:
    batches, channels, points = grad.shape
    return grad.reshape(batches, points, channels).swapaxes(1, 2)


def _first_batch(array: Array) -> Array:
    return np.broadcast_to(array[:1], array.shape)


def _normalised(weights: Array) -> Array:
    return weights / weights.sum(axis=-1, keepdims=True)  # type: ignore[no-any-return]


def _without(operands: Operands, dropped: Array) -> Operands:
    """The entries dropped [B, N, 3] add 0."""
    return operands._replace(weights=np.where(dropped, np.float32(0), operands.weights))


def _counted_once(operands: Operands) -> Operands:
    first, second, third = np.moveaxis(operands.indices, -1, 0)
    again = [np.zeros_like(first, bool), second == first, (third == first) | (third == second)]
    return _without(operands, np.stack(again, axis=-1))


def _without_tail_of_points(operands: Operands) -> Operands:
    points = operands.indices.shape[1]
    return _without(operands, np.arange(points)[:, None] >= (points // _TILE * _TILE or points))


def _short_inputs(bits: int) -> Callable[[Operands], Operands]:
    return lambda o: o._replace(grad=shortened(o.grad, bits), weights=shortened(o.weights, bits))


def _half_inputs(operands: Operands) -> Operands:
    grad, weights = (array.astype(np.float16).astype(np.float32) for array in (operands.grad, operands.weights))
    return operands._replace(grad=grad, weights=weights)


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


def _mean(scatter: Scatter) -> Array:
    counts = np.bincount(scatter.places, minlength=scatter.cells)
    return (_added(scatter) / np.maximum(counts, 1)[:, None]).astype(np.float32)


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


def _two_of_three(scatter: Scatter) -> Array:
    kept = np.arange(len(scatter.places)) % 3 < 2
    return _added(scatter._replace(products=scatter.products[kept], places=scatter.places[kept]))


def _shortened_products(bits: int) -> Callable[[Scatter], Array]:
    return lambda scatter: _added(scatter._replace(products=shortened(scatter.products, bits)))


# What is written.


def _transposed(result: Array, total: Array) -> None:
    batches, channels, cells = result.shape
    result.reshape(batches, cells, channels)[...] = total.swapaxes(1, 2)


def _onto_the_old(result: Array, total: Array) -> None:
    result[...] = result + total


def _without_tail(axis: int) -> Callable[[Array, Array], None]:
    def write(result: Array, total: Array) -> None:
        whole = result.shape[axis] // _TILE * _TILE or result.shape[axis]
        result[...] = 0
        np.moveaxis(result, axis, 0)[:whole] = np.moveaxis(total, axis, 0)[:whole]

    return write


def _without_last(result: Array, total: Array) -> None:
    result[...] = total
    if result.shape[2] > 1:
        result[..., -1] = 0


def _where_not_zero(result: Array, total: Array) -> None:
    np.copyto(result, total.astype(result.dtype), where=total != 0)


def _leaves_untouched_cells(call: OpCall) -> Status:
    result = call.array("grad_features")
    before = result.copy()
    variant("", "").run(call)
    for batch, (was, indices) in enumerate(zip(before, call.array("indices"), strict=True)):
        untouched = np.setdiff1d(np.arange(result.shape[2]), indices)
        result[batch][:, untouched] = was[:, untouched]
    return Status.SUCCESS


MUTANTS: Final = (
    variant("last_wins", "assigns instead of adding", add=_last_wins),
    variant("first_wins", "keeps the first contribution to a cell alone", add=_first_wins),
    variant("repeated_once", "counts a cell that a triple names again once", read=_counted_once),
    variant(
        "lost_in_a_triple", "adds the three of a triple at once, and loses one where two meet", add=_lost_in_a_triple
    ),
    variant("lost_between_tiles", "each tile of 64 points overwrites the sums before it", add=_lost_between_tiles),
    variant("two_terms", "leaves the third cell of each point out", add=_two_of_three),
    variant("mean", "divides by the number of contributions", add=_mean),
    variant("result_added_to", "adds to what the buffer held", write=_onto_the_old),
    Mutant("untouched_unwritten", "does not write cells that no index names", _leaves_untouched_cells),
    variant("zeros_unwritten", "does not write sums of 0", write=_where_not_zero),
    variant("weights_ignored", "takes 1 for every weight", read=lambda o: o._replace(weights=np.ones_like(o.weights))),
    variant("weights_absolute", "drops the weights' signs", read=lambda o: o._replace(weights=np.abs(o.weights))),
    variant(
        "weights_normalised",
        "divides the weights by their sum",
        read=lambda o: o._replace(weights=_normalised(o.weights)),
    ),
    variant(
        "next_weight",
        "pairs the index t + 1 with the weight t",
        read=lambda o: o._replace(weights=np.roll(o.weights, 1, axis=-1)),
    ),
    variant(
        "grad_of_batch_0", "adds no batch offset to grad_output", read=lambda o: o._replace(grad=_first_batch(o.grad))
    ),
    variant(
        "indices_of_batch_0",
        "adds no batch offset to indices",
        read=lambda o: o._replace(indices=_first_batch(o.indices)),
    ),
    variant(
        "weights_of_batch_0",
        "adds no batch offset to weights",
        read=lambda o: o._replace(weights=_first_batch(o.weights)),
    ),
    variant(
        "indices_triples_first",
        "reads indices as [B, 3, N]",
        read=lambda o: o._replace(indices=_triples_first(o.indices)),
    ),
    variant(
        "weights_triples_first",
        "reads weights as [B, 3, N]",
        read=lambda o: o._replace(weights=_triples_first(o.weights)),
    ),
    variant(
        "grad_channels_last", "reads grad_output as [B, N, C]", read=lambda o: o._replace(grad=_channels_last(o.grad))
    ),
    variant("result_channels_last", "writes grad_features as [B, M, C]", write=_transposed),
    variant(
        "index_shifted",
        "takes indices as counted from 1",
        read=lambda o: o._replace(indices=np.maximum(o.indices - 1, 0)),
    ),
    variant(
        "tile_base_lost",
        "forgets which tile of 64 cells an index is in",
        read=lambda o: o._replace(indices=o.indices % _TILE),
    ),
    variant("last_cell", "loses cell M − 1", write=_without_last),
    variant("cell_tail", "loses the cells behind the last whole tile of 64", write=_without_tail(2)),
    variant("channel_tail", "loses the channels behind the last whole tile of 64", write=_without_tail(1)),
    variant("point_tail", "loses the points behind the last whole tile of 64", read=_without_tail_of_points),
    variant("zero_times_inf", "takes 0 · Inf and 0 · NaN for 0", multiply=_zero_times_anything),
    variant("nan_spread", "multiplies zeros with the cells that a point does not name", add=_dense),
    variant("nan_skipped", "counts NaN as 0", add=_without_nan),
    variant("infinite_clamped", "infinities become the largest float", add=_clamped),
    variant("half_sums", "adds in half where the type is float", add=_in_half),
    variant("half_inputs", "rounds float inputs to half", read=_half_inputs),
    variant("bf16_inputs", "rounds float inputs to bf16", read=_short_inputs(8)),
    variant("tf32_inputs", "rounds float inputs to tf32", read=_short_inputs(11)),
    variant("tf32_products", "rounds products to tf32", add=_shortened_products(11)),
    variant("bf16_products", "rounds products to bf16", add=_shortened_products(8)),
    *(variant(name, message, write=write) for name, message, write in WRONG_WRITES),
)
