"""The oracle: three products per output, added exactly and rounded once; and the figures for efficiency."""

from collections.abc import Callable
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Baseline, OpCall, Theory
from mluops_gtest.authoring.rows import blended, weighted
from mluops_gtest.authoring.sums import largest_magnitude, lattice_exponent, sums_are_exact

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
