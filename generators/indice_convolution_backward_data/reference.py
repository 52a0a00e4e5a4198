"""The oracle: the formula of §1.2.2 with sums that are exact in float64, rounded once."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from mluops_gtest.authoring import Array, Baseline, OpCall
from mluops_gtest.authoring.sums import exact_sums, largest_magnitude, lattice_exponent, sums_are_exact

from .filters import weights_by_offset

# Sums in progress: 2 MiB of float64 stay near the cache while all kernel offsets add to the same rows; with less the
# matrix products become so short that the threads of BLAS wait for each other.
_BLOCK_SUMS: Final = 1 << 18


class Operands(NamedTuple):
    """What the formula reads: output_grad [Y, Co], weights [K, Ci, Co] and per offset its (input, output) rows."""

    output_grad: Array
    weights: Array
    pairs: tuple[Array, ...]
    rows: int

    @classmethod
    def of(cls, call: OpCall) -> "Operands":
        """The operands of a valid call."""
        filters, pairs = call.tensor("filters"), call.array("indice_pairs")
        # Only the first indice_num[k] entries are read: whatever stands behind them is legal.
        used = tuple(pairs[k, :, :count] for k, count in enumerate(call.param("indice_num")))
        weights = weights_by_offset(call.array("filters"), filters.layout)
        return cls(call.array("output_grad"), weights, used, pairs.shape[2])

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of input_grad."""
        return self.rows, self.weights.shape[1]

    @property
    def products_per_sum(self) -> int:
        """The most products that any element of input_grad sums."""
        received = np.zeros(self.rows, np.int64)
        for inputs, _ in self.pairs:
            received += np.bincount(inputs, minlength=self.rows)
        channels: int = self.weights.shape[2]
        return int(received.max()) * channels


def reference(call: OpCall) -> Baseline:
    """input_grad, the same bits on every machine."""
    # sub_m does not occur here: it changes only the checks, never the arithmetic.
    operands = Operands.of(call)
    # Sums beyond the largest half become infinite, and infinite inputs may make NaN: answers, not accidents.
    with np.errstate(over="ignore", invalid="ignore"):
        input_grad = _by_matrix_products(operands) if float64_is_exact(operands) else _one_by_one(operands)
    # Which NaN an operation gives differs between processors.
    input_grad[np.isnan(input_grad)] = np.nan
    return Baseline({"input_grad": input_grad})


def float64_is_exact(operands: Operands) -> bool:
    """Every sum is exact in float64 in any order, so BLAS may choose one."""
    factors = operands.output_grad, operands.weights
    largest = largest_magnitude(factors[0]) * largest_magnitude(factors[1])
    exponent = lattice_exponent(factors[0]) + lattice_exponent(factors[1])
    return sums_are_exact(exponent, largest, operands.products_per_sum)


def terms_by_row(operands: Operands) -> Iterator[tuple[int, Array]]:
    """Per input row that receives anything, ascending: the row and its products as float64 [T, Ci], all exact."""
    offsets = np.repeat(np.arange(len(operands.pairs)), [pair.shape[1] for pair in operands.pairs])
    inputs, outputs = np.concatenate([np.empty((2, 0), np.int64), *operands.pairs], axis=1)
    order = np.argsort(inputs, kind="stable")
    ascending = inputs[order]
    rows = np.unique(ascending)
    starts, ends = (np.searchsorted(ascending, rows, side) for side in ("left", "right"))
    for row, start, end in zip(rows, starts, ends, strict=True):
        part = order[start:end]
        grads = operands.output_grad[outputs[part]].astype(np.float64)
        weights = operands.weights[offsets[part]].transpose(0, 2, 1)
        # The product of two float32 values has at most 48 bits, and float64 holds 53.
        yield int(row), (grads[:, :, None] * weights).reshape(-1, weights.shape[2])


def _by_matrix_products(operands: Operands) -> Array:
    rows, channels = operands.shape
    result = np.empty(operands.shape, operands.output_grad.dtype)
    step = max(1, _BLOCK_SUMS // channels)
    pairs_by_offset = [_ascending(pairs) for pairs in operands.pairs]
    bounds = [np.searchsorted(pairs[0], range(0, rows + step, step)) for pairs in pairs_by_offset]
    factors = operands.weights.swapaxes(1, 2).astype(np.float64)
    for block, start in enumerate(range(0, rows, step)):
        sums = np.zeros((min(step, rows - start), channels), np.float64)
        for pairs, bound, factor in zip(pairs_by_offset, bounds, factors, strict=True):
            inputs, outputs = pairs[:, bound[block] : bound[block + 1]]
            _add_rows(sums, inputs - start, operands.output_grad[outputs].astype(np.float64) @ factor)
        result[start : start + step] = sums
    return result


def _ascending(pairs: Array) -> Array:
    """The pairs by input row; get_indice_pairs leaves them so, and then nothing is copied."""
    inputs = pairs[0]
    return pairs if (inputs[1:] >= inputs[:-1]).all() else pairs[:, np.argsort(inputs, kind="stable")]


def _add_rows(sums: Array, rows: Array, part: Array) -> None:
    # An indexed += adds only once to a row that occurs twice.
    if (rows[1:] > rows[:-1]).all():
        sums[rows] += part
    else:
        np.add.at(sums, rows, part)


def _one_by_one(operands: Operands) -> Array:
    result = np.zeros(operands.shape, operands.output_grad.dtype)
    for row, terms in terms_by_row(operands):
        result[row] = exact_sums(terms)
    return result
