"""three_interpolate_forward: each point's feature is the weighted sum of the features of three cells."""

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
from mluops_gtest.authoring.rows import blended, weighted
from mluops_gtest.authoring.sums import largest_magnitude, lattice_exponent, lattice_unit, sums_are_exact
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


# The oracle: three products per output, added exactly and rounded once; and the figures for efficiency.


# Products in progress: 256 KiB of float64 each, so that three of them and their sum stay in the cache.
_BLOCK: Final = 1 << 15

# Adds up what each point takes of every row, given rows [C, M], cells [3, N] and factors [3, N].
_Sums = Callable[[Array, Array, Array], Array]


def reference(call: OpCall) -> Baseline:
    """output, the same bits on every machine."""
    features, indices, weights = (call.array(name) for name in ("features", "indices", "weights"))
    batches, channels, _ = features.shape
    output = np.empty((batches, channels, indices.shape[1]), features.dtype)
    add = blended if _float64_is_exact(features, weights) else _odd_sums
    # A sum beyond the largest number becomes infinite, and infinite inputs may make NaN: answers, not accidents.
    with np.errstate(over="ignore", invalid="ignore"):
        for batch in range(batches):
            interpolate(output[batch], features[batch], indices[batch], weights[batch], add)
            # Which NaN an operation gives differs between processors.
            np.copyto(output[batch], output.dtype.type(np.nan), where=np.isnan(output[batch]))
    return Baseline({"output": output})


def interpolate(output: Array, features: Array, indices: Array, weights: Array, add: _Sums) -> None:
    """Write the sums of one batch."""
    # A product of two float32 values has at most 48 bits: float64 holds it. The weights are used as they are, whatever
    # their sign and sum, and each counts, also where a triple names one cell again.
    cells = np.ascontiguousarray(indices.T)
    factors = np.ascontiguousarray(weights.T, dtype=np.float64)
    step = max(1, _BLOCK // len(indices))
    for first in range(0, len(output), step):
        rows = features[first : first + step].astype(np.float64)
        # Only what an index names is read: 0 · Inf is NaN by IEEE, but a cell that nobody names spreads nothing.
        output[first : first + step] = add(rows, cells, factors)


def _float64_is_exact(features: Array, weights: Array) -> bool:
    exponent = lattice_exponent(features) + lattice_exponent(weights)
    return sums_are_exact(exponent, largest_magnitude(features) * largest_magnitude(weights), 3)


def _odd_sums(rows: Array, cells: Array, factors: Array) -> Array:
    return odd_sum(*weighted(rows, cells, factors))


def odd_sum(a: Array, b: Array, c: Array) -> Array:
    """a + b + c rounded to odd in float64: narrowing it to float or half rounds as if the exact sum were rounded once.

    53 bits are more than two above the 24 of a float, so the last one, set wherever bits were lost, breaks every tie.
    """
    head, first_error = _two_sum(a, b)
    sums, second_error = _two_sum(head, c)
    errors, lost = _two_sum(first_error, second_error)
    total, error = _two_sum(sums, errors)
    # `lost` is far below the last bit of `error`, unless that is 0: the sign of the sum is right.
    error += lost
    even = (total.view(np.int64) & 1) == 0
    odd = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    rounded = np.where(even & (error != 0), odd, total)
    # Products of floats stay far below the largest float64, so only inputs that are not finite make such sums, and
    # their errors are NaN.
    return np.where(np.isfinite(sums), rounded, sums)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and what the rounding lost, exactly."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def theory(call: OpCall) -> Theory:
    """All four tensors once; three products and two additions per output."""
    tensors = (*call.inputs, *call.outputs)
    output = call.tensor("output")
    return Theory(sum(call.tensor(name).desc.nbytes for name in tensors), 5 * output.desc.count)


# What arithmetic allows: an output is a sum of three products, in any order (§1.2).


def bound(call: OpCall) -> dict[str, Bound]:
    """Σ|weight · feature| of every output; a term meets the rounding of its product and two additions."""
    features, weights = (call.array(name) for name in ("features", "weights"))
    magnitude = np.empty(call.tensor("output").dims, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for batch, indices in enumerate(call.array("indices")):
            interpolate(magnitude[batch], np.abs(features[batch]), indices, np.abs(weights[batch]), blended)
    return {"output": Bound(magnitude, 3, unit=lattice_unit(features, weights), products=True)}


# Mistakes that kernels make about the three terms of a point.


def _terms(call: OpCall) -> Terms:
    features, indices, weights = (call.array(name) for name in ("features", "indices", "weights"))
    batches, points, _ = indices.shape
    rows = features.swapaxes(1, 2)[np.arange(batches)[:, None, None], indices].astype(np.float64)
    products = rows * weights[..., None]
    return Terms(products.reshape(-1, features.shape[1]), np.repeat(np.arange(batches * points), 3), batches * points)


def _shaped(sums: Array, call: OpCall) -> Array:
    batches, channels, points = call.tensor("output").dims
    return sums.reshape(batches, points, channels).swapaxes(1, 2)


def _same_weights(weight: float) -> Suspect:
    return as_read(reference, lambda call: with_inputs(call, weights=np.full_like(call.array("weights"), weight)))


# Named above, or by the place that they leave.
_TOLD_OTHERWISE = {
    "weights_ignored", "mean_of_three", "third_left_out", "repeated_once", "byte_indices", "tile_base_lost",
    "cell_tail", "point_tail",
}  # fmt: skip


def _misread(change: Callable[[Entries], Entries]) -> Suspect:
    """The three cells and weights of every point as a wrong kernel reads them."""

    def read(call: OpCall) -> OpCall:
        entries = change(Entries(call.array("indices"), call.array("weights"), call.tensor("features").dims[2]))
        indices, weights = (np.ascontiguousarray(array) for array in entries[:2])
        return with_inputs(call, indices=indices.astype(call.array("indices").dtype), weights=weights)

    return as_read(reference, read)


SUSPECTS = {
    **lost_terms("output", "cell", "point", _terms, _shaped),
    "every weight is 1/3": _same_weights(1 / 3),
    "every weight is 1": _same_weights(1),
    **{f"it {message}": _misread(change) for name, message, change in WRONG_TRIPLES if name not in _TOLD_OTHERWISE},
}


# One element of output as §1.2 defines it: three products.


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """Σ over t of weights[b, n, t] · features[b, c, indices[b, n, t]]."""
    features, indices, weights = (call.array(name) for name in ("features", "indices", "weights"))

    def output(batch: int, channel: int, point: int) -> Fraction | float:
        named = features[batch, channel, indices[batch, point]]
        return total(products(weights[batch, point], named))

    return {"output": output}


# The kernel that the numpy backend runs: §3.1's split into tiles of points and channels, float32 throughout.


# Points and channels that are on the chip at a time.
POINTS: Final = 4096
CHANNELS: Final = 64


def kernel(call: OpCall) -> Status:
    """Check the call, then interpolate tile by tile."""
    status, computes = interpolation_verdict(call, points="output", cells="features")
    if computes:
        for batch in range(call.tensor("output").dims[0]):
            _interpolate(call, batch)
    return status


def _interpolate(call: OpCall, batch: int) -> None:
    features, output = call.array("features")[batch], call.array("output")[batch]
    indices, weights = call.array("indices")[batch], call.array("weights")[batch].astype(np.float32, copy=False)
    for point in range(0, len(indices), POINTS):
        points = slice(point, point + POINTS)
        for channel in range(0, len(features), CHANNELS):
            channels = slice(channel, channel + CHANNELS)
            tile = features[channels].astype(np.float32, copy=False)
            # Infinite features and weights give what IEEE says; a sum beyond the largest half becomes infinite.
            with np.errstate(over="ignore", invalid="ignore"):
                # §3.1 steps 6 to 9: choose a column per point, scale it, add it; three times.
                total = tile[:, indices[points, 0]] * weights[points, 0]
                for neighbour in (1, 2):
                    total += tile[:, indices[points, neighbour]] * weights[points, neighbour]
                output[channels, points] = total


# With torch: three weighted rows per point are a bag of embeddings; float32 throughout.


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:  # noqa: ARG001 - all operators are called alike
    """Write output; half is computed in float32 and rounded once."""
    from torch.nn.functional import embedding_bag

    batches = zip(*(inputs[name] for name in ("features", "indices", "weights")), outputs["output"], strict=True)
    for features, indices, weights, output in batches:
        cells = features.float().T.contiguous()
        output.copy_(embedding_bag(indices, cells, per_sample_weights=weights.float(), mode="sum").T)


FLOATS = (DType.FLOAT, DType.HALF)

OPERATOR = Operator(
    name="three_interpolate_forward",
    released_name="three_interpolate_forward",
    op_type=("THREE_INTERPOLATE_FORWARD", 2002),
    summary="Interpolates the features of every point from three cells, with a weight each.",
    inputs=(
        TensorSpec("features", "[B, C, M]", FLOATS),
        # §1.4 demands 0 … M − 1. Beyond, the header has the output become 0, the kernel drops the term, and mmcv reads
        # foreign memory. §1.4's limit of 2^23 − 1 is that of a series which is no longer supported.
        TensorSpec("indices", "[B, N, 3]", (DType.INT32,), names="M"),
        TensorSpec("weights", "[B, N, 3]", FLOATS),
    ),
    outputs=(OutputSpec("output", "[B, C, N]", dict.fromkeys(FLOATS, CRITERIA)),),
    axes={
        "points": axis("N", of="output"),
        "cells": axis("M", of="features"),
        "channels": axis("C", of="features"),
        "batches": axis("B", of="features"),
    },
    checks=interpolation_checks("features", "output", points="output", cells="features"),
    subsumed=never_reached("output"),
    not_together=exclusive_checks("features", "output"),
    answered_anyway=ANSWERED_ANYWAY,
    reference=reference,
    kernel=kernel,
    suspects=SUSPECTS,
    theory=theory,
    bound=bound,
    left_open={"subnormal": find_subnormal},
    # The document leaves the order of the three additions open.
    order_free=True,
    c_api=c_function("mluOpThreeInterpolateForward"),
    exact=elements,
    torch_kernel=torch_kernel,
)
