"""three_interpolate_backward: each point adds its gradient, weighted, to the gradients of three cells."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import (
    Array,
    Baseline,
    Bound,
    DType,
    OpCall,
    Operator,
    OutputSpec,
    Status,
    TensorSpec,
    Theory,
    axis,
    diff1_and_diff2,
)
from mluops_gtest.authoring.c_api import c_function
from mluops_gtest.authoring.exact_numbers import ExactElement, products, total
from mluops_gtest.authoring.left_open import find_subnormal
from mluops_gtest.authoring.rows import scattered
from mluops_gtest.authoring.sums import exact_sums, largest_magnitude, lattice_exponent, lattice_unit, sums_are_exact
from mluops_gtest.authoring.suspects import Suspect, as_read, with_inputs

from .._shared.interpolation import (
    ANSWERED_ANYWAY,
    exclusive_checks,
    interpolation_checks,
    interpolation_verdict,
    never_reached,
)
from .._shared.products import Terms, lost_terms
from .._shared.wrong_interpolation import WRONG_TRIPLES, Entries

# §1.5.1
CRITERIA: Final = diff1_and_diff2(3e-3)


# The oracle: all products that meet in a cell, added exactly and rounded once; and the figures for efficiency.


# Products or sums in progress: 512 KiB of float64 stay in the cache.
_BLOCK: Final = 1 << 16
# The same where sums are exact whatever cancels: products sorted by cell for each block, so that blocks are larger.
_EXACT_BLOCK: Final = 1 << 21


def reference(call: OpCall) -> Baseline:
    """grad_features, the same bits on every machine."""
    grad, indices, weights = (call.array(name) for name in ("grad_output", "indices", "weights"))
    result = np.empty(call.tensor("grad_features").dims, grad.dtype)
    add = scatter if _float64_is_exact(grad, indices, weights) else _one_by_one
    # A sum beyond the largest number becomes infinite, and infinite inputs may make NaN: answers, not accidents.
    with np.errstate(over="ignore", invalid="ignore"):
        for batch in range(len(grad)):
            add(result[batch], grad[batch], indices[batch], weights[batch])
    # Which NaN an operation gives differs between processors.
    np.copyto(result, result.dtype.type(np.nan), where=np.isnan(result))
    return Baseline({"grad_features": result})


def scatter(result: Array, grad: Array, indices: Array, weights: Array) -> None:
    """Write the sums of one batch, added in float64 in the order of points."""
    channels, cells = result.shape
    step = max(1, min(channels, _BLOCK // max(indices.size, cells)))
    factors = weights.astype(np.float64)
    for first in range(0, channels, step):
        rows = grad[first : first + step].astype(np.float64)
        # A product of two float32 values has at most 48 bits: float64 holds it. Every contribution counts, also those
        # of one triple to one cell. A cell that nobody names is 0, whatever the buffer held: no document asks the
        # caller to clear it, only mmcv needs that.
        result[first : first + step] = scattered(rows, indices, factors, cells)


def _one_by_one(result: Array, grad: Array, indices: Array, weights: Array) -> None:
    result[...] = 0
    met = np.bincount(indices.reshape(-1))
    step = max(1, _EXACT_BLOCK // int(met.max() * np.count_nonzero(met)))
    for first in range(0, len(grad), step):
        cells, products = products_by_cell(grad[first : first + step], indices, weights)
        sums = exact_sums(products.reshape(len(products), -1)).reshape(len(cells), -1)
        result[first : first + step, cells] = sums.T


def products_by_cell(grad: Array, indices: Array, weights: Array) -> tuple[Array, Array]:
    """The cells that a batch names, ascending, and their products as float64 [T, cells, C], padded with zeros."""
    order = np.argsort(indices, axis=None, kind="stable")
    cells, starts, counts = np.unique(indices.reshape(-1)[order], return_index=True, return_counts=True)
    place = np.repeat(np.arange(len(cells)), counts)
    rank = np.arange(len(order)) - np.repeat(starts, counts)
    products = np.zeros((counts.max(), len(cells), len(grad)))
    products[rank, place] = grad.T[order // 3].astype(np.float64) * weights.reshape(-1, 1)[order].astype(np.float64)
    return cells, products


def contributions(indices: Array) -> Array:
    """How many entries name each cell, for the cells of all batches that any does."""
    batches = np.arange(len(indices), dtype=np.int64)[:, None, None]
    counts: Array = np.unique((batches << 32) + indices, return_counts=True)[1]
    return counts


def _float64_is_exact(grad: Array, indices: Array, weights: Array) -> bool:
    exponent = lattice_exponent(grad) + lattice_exponent(weights)
    largest = largest_magnitude(grad) * largest_magnitude(weights)
    return sums_are_exact(exponent, largest, int(contributions(indices).max()))


def theory(call: OpCall) -> Theory:
    """All four tensors once; three products and three additions per gradient."""
    tensors = (*call.inputs, *call.outputs)
    grad = call.tensor("grad_output")
    return Theory(sum(call.tensor(name).desc.nbytes for name in tensors), 6 * grad.desc.count)


# What arithmetic allows: a cell is a sum of the products that meet there, in any order (§1.2).


def bound(call: OpCall) -> dict[str, Bound]:
    """Σ|gradient · weight| of every cell; a term meets the rounding of its product and as many additions as terms."""
    grad, indices, weights = (call.array(name) for name in ("grad_output", "indices", "weights"))
    dims = call.tensor("grad_features").dims
    magnitude, roundings = np.empty(dims, np.float32), np.empty((dims[0], 1, dims[2]), np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        for batch in range(dims[0]):
            scatter(magnitude[batch], np.abs(grad[batch]), indices[batch], np.abs(weights[batch]))
            roundings[batch, 0] = np.bincount(indices[batch].reshape(-1), minlength=dims[2])
    return {"grad_features": Bound(magnitude, roundings, unit=lattice_unit(grad, weights), products=True)}


# Mistakes that kernels make where contributions meet in a cell (§3.3: in no fixed order).


def _contributions(call: OpCall) -> Terms:
    grad, indices, weights = (call.array(name) for name in ("grad_output", "indices", "weights"))
    batches, _, cells = call.tensor("grad_features").dims
    products = grad.swapaxes(1, 2)[:, :, None].astype(np.float64) * weights[..., None]
    places = np.arange(batches)[:, None, None] * cells + indices
    return Terms(products.reshape(-1, grad.shape[1]), places.reshape(-1), batches * cells)


def _shaped(sums: Array, call: OpCall) -> Array:
    batches, channels, cells = call.tensor("grad_features").dims
    return sums.reshape(batches, cells, channels).swapaxes(1, 2)


# Named above, or by the place that they leave.
_TOLD_OTHERWISE = {
    "weights_ignored", "repeated_once", "byte_indices", "tile_base_lost", "cell_tail", "point_tail",
}  # fmt: skip


def _misread(change: Callable[[Entries], Entries]) -> Suspect:
    """The three cells and weights of every point as a wrong kernel reads them."""

    def read(call: OpCall) -> OpCall:
        entries = change(Entries(call.array("indices"), call.array("weights"), call.tensor("grad_features").dims[2]))
        indices, weights = (np.ascontiguousarray(array) for array in entries[:2])
        return with_inputs(call, indices=indices.astype(call.array("indices").dtype), weights=weights)

    return as_read(reference, read)


SUSPECTS = {
    **lost_terms("grad_features", "contribution", "cell", _contributions, _shaped),
    "every weight is 1": as_read(
        reference, lambda call: with_inputs(call, weights=np.ones_like(call.array("weights")))
    ),
    **{f"it {message}": _misread(change) for name, message, change in WRONG_TRIPLES if name not in _TOLD_OTHERWISE},
}


# One element of grad_features as §1.2 defines it: every entry that names the cell adds its product.


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """Σ over all (n, t) with indices[b, n, t] = m of grad_output[b, c, n] · weights[b, n, t]."""
    grad, indices, weights = (call.array(name) for name in ("grad_output", "indices", "weights"))

    def grad_features(batch: int, channel: int, cell: int) -> Fraction | float:
        points, entries = np.nonzero(indices[batch] == cell)
        return total(products(grad[batch, channel, points], weights[batch, points, entries]))

    return {"grad_features": grad_features}


# The kernel that the numpy backend runs: §3.1's transposed tiles, contributions sorted by cell, float32 throughout.


# Channels that are on the chip at a time.
CHANNELS: Final = 64


def kernel(call: OpCall) -> Status:
    """Check the call, then add up the contributions to every cell."""
    status, computes = interpolation_verdict(call, points="grad_output", cells="grad_features")
    if computes:
        for batch in range(call.tensor("grad_output").dims[0]):
            _accumulate(call, batch)
    return status


def _accumulate(call: OpCall, batch: int) -> None:
    grad, result = call.array("grad_output")[batch], call.array("grad_features")[batch]
    entries = call.array("indices")[batch].reshape(-1)
    by_cell = np.argsort(entries, kind="stable")
    starts = np.flatnonzero(np.diff(entries[by_cell], prepend=-1))
    cells, points = entries[by_cell[starts]], by_cell // 3
    weights = call.array("weights")[batch].reshape(-1)[by_cell, None].astype(np.float32)
    for first in range(0, len(grad), CHANNELS):
        channels = slice(first, first + CHANNELS)
        # §3.1 step 6: points are rows, so that a contribution is one run of memory.
        tile: Array = np.ascontiguousarray(grad[channels].T, dtype=np.float32)
        # Infinite gradients and weights give what IEEE says; a sum beyond the largest half becomes infinite.
        with np.errstate(over="ignore", invalid="ignore"):
            result[channels] = 0
            result[channels, cells] = np.add.reduceat(tile[points] * weights, starts, axis=0).T


# With torch: the three contributions of every point through index_add_, float32 throughout.


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write grad_features; half is computed in float32 and rounded once."""
    import torch

    channels, cells = call.tensor("grad_features").dims[1:]
    batches = zip(*(inputs[name] for name in ("grad_output", "indices", "weights")), strict=True)
    for (grad, indices, weights), result in zip(batches, outputs["grad_features"], strict=True):
        points = grad.float().T.contiguous()
        sums = torch.zeros((cells, channels), device=grad.device)
        for named, factor in zip(indices.T, weights.float().T, strict=True):
            sums.index_add_(0, named, points * factor[:, None])
        result.copy_(sums.T)


FLOATS = (DType.FLOAT, DType.HALF)

OPERATOR = Operator(
    name="three_interpolate_backward",
    released_name="three_interpolate_backward",
    op_type=("THREE_INTERPOLATE_BACKWARD", 2001),
    summary="Adds the gradient of every point to those of the three cells that it was interpolated from.",
    inputs=(
        TensorSpec("grad_output", "[B, C, N]", FLOATS),
        # §1.4 demands 0 … M − 1; beyond, mmcv writes into foreign memory. §1.4's limit of 2^23 − 1 is that of a series
        # that is no longer supported.
        TensorSpec("indices", "[B, N, 3]", (DType.INT32,), names="M"),
        TensorSpec("weights", "[B, N, 3]", FLOATS),
    ),
    outputs=(OutputSpec("grad_features", "[B, C, M]", dict.fromkeys(FLOATS, CRITERIA)),),
    axes={
        "points": axis("N", of="grad_output"),
        "cells": axis("M", of="grad_features"),
        "channels": axis("C", of="grad_output"),
        "batches": axis("B", of="grad_output"),
    },
    # §1.3 prints grad_features as [B, C, N]; §1.4's [B, C, M] is right, and M is known from it alone.
    checks=interpolation_checks("grad_output", "grad_features", points="grad_output", cells="grad_features"),
    subsumed=never_reached("grad_output"),
    not_together=exclusive_checks("grad_output", "grad_features"),
    answered_anyway=ANSWERED_ANYWAY,
    reference=reference,
    kernel=kernel,
    theory=theory,
    bound=bound,
    suspects=SUSPECTS,
    left_open={"subnormal": find_subnormal},
    # §3.3: contributions meet in no fixed order.
    order_free=True,
    c_api=c_function("mluOpThreeInterpolateBackward"),
    exact=elements,
    torch_kernel=torch_kernel,
)
