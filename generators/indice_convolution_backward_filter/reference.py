"""The oracle: §3.1's products of gathered rows with sums that are exact in float64, rounded once."""

import math
from typing import Final, NamedTuple

import numpy as np

from mluops_gtest.authoring import Array, Baseline, Bound, OpCall
from mluops_gtest.authoring.rows import wide_rows
from mluops_gtest.authoring.sums import exact_sums, largest_magnitude, lattice_exponent, sums_are_exact

from .._shared.connections import pairs_in_use
from .._shared.products import each

# Pairs whose rows are gathered at a time: 2 MiB of float64 for each side at 128 channels.
_BLOCK_PAIRS: Final = 1 << 11
_LARGEST_EXPONENT: Final = 1023


class Operands(NamedTuple):
    """What the formula reads: features [L, Ci], output_grad [Y, Co] and per offset its (input, output) rows."""

    features: Array
    output_grad: Array
    pairs: tuple[Array, ...]

    @classmethod
    def of(cls, call: OpCall) -> "Operands":
        """The operands of a valid call."""
        # Only the first indice_num[k] entries are read: whatever stands behind them is legal. Row 0 of a pair is the
        # input, row 1 the output.
        used = pairs_in_use(call.array("indice_pairs"), call.param("indice_num"))
        return cls(call.array("features"), call.array("output_grad"), used)

    @property
    def shape(self) -> tuple[int, int, int]:
        """K, Ci and Co."""
        return len(self.pairs), self.features.shape[1], self.output_grad.shape[1]

    @property
    def longest(self) -> int:
        """The most products that any element of filters_grad sums."""
        return max((pairs.shape[1] for pairs in self.pairs), default=0)

    @property
    def unit_exponent(self) -> int:
        """Every product is a multiple of 2 to this power."""
        return lattice_exponent(self.features) + lattice_exponent(self.output_grad)


def reference(call: OpCall) -> Baseline:
    """filters_grad, the same bits on every machine."""
    # sub_m does not occur here. The released code does not even look at it; mmcv multiplies all rows for its middle
    # offset, which is the same, because there every row meets itself.
    operands = Operands.of(call)
    # Sums beyond the largest half become infinite, and infinite inputs may make NaN: answers, not accidents.
    with np.errstate(over="ignore", invalid="ignore"):
        sums = by_matrix_products(operands) if float64_is_exact(operands) else _one_by_one(operands)
        by_offset = sums.astype(operands.features.dtype)
    # Which NaN an operation gives differs between processors.
    by_offset[np.isnan(by_offset)] = np.nan
    # §1.4: whatever layout the descriptor names, the axes are [Kd,]Kh,Kw,Ci,Co, and offsets count through the kernel
    # with its width running fastest. (§1.4's "get_indice_pairs only supports conv2D" is a slip: it is 3-D.)
    return Baseline({"filters_grad": by_offset.reshape(call.tensor("filters_grad").dims)})


def bound(call: OpCall) -> dict[str, Bound]:
    """What arithmetic allows: sums of products in any order."""
    operands = Operands.of(call)
    *kernel, channels_in, channels_out = call.tensor("filters_grad").dims
    magnitudes = operands._replace(features=np.abs(operands.features), output_grad=np.abs(operands.output_grad))
    with np.errstate(over="ignore", invalid="ignore"):
        sums = by_matrix_products(magnitudes).astype(np.float32)
    terms = np.array([pairs.shape[1] for pairs in operands.pairs]).reshape(*kernel, 1, 1)
    # Where all inputs are 0 the exponent is beyond that of any float.
    unit = 2.0 ** min(operands.unit_exponent, _LARGEST_EXPONENT)
    return {"filters_grad": Bound(sums.reshape(*kernel, channels_in, channels_out), terms, unit=unit, products=True)}


def float64_is_exact(operands: Operands) -> bool:
    """Every sum is exact in float64 in any order, so BLAS may choose one."""
    largest = largest_magnitude(operands.features) * largest_magnitude(operands.output_grad)
    return sums_are_exact(operands.unit_exponent, largest, operands.longest)


def products(operands: Operands, offset: int, channels_in: slice) -> Array:
    """What the offset sums for these input channels: float64 [n, channels · Co], all exact."""
    inputs, outputs = operands.pairs[offset]
    features = operands.features[inputs, channels_in].astype(np.float64)
    # The product of two float32 values has at most 48 bits, and float64 holds 53.
    terms: Array = features[:, :, None] * operands.output_grad[outputs][:, None]
    return terms.reshape(len(terms), math.prod(terms.shape[1:]))


def by_matrix_products(operands: Operands) -> Array:
    """The sums [K, Ci, Co] in float64, in an order that BLAS chooses."""
    # §3.1 step 1 clears filters_grad, so offsets without pairs are +0.
    sums = np.zeros(operands.shape, np.float64)
    sides = [values.astype(np.float32, copy=False) for values in (operands.features, operands.output_grad)]

    def product(block: tuple[int, int]) -> Array:
        offset, first = block
        used = operands.pairs[offset][:, first : first + _BLOCK_PAIRS]
        features, grads = (wide_rows(rows, chosen) for rows, chosen in zip(sides, used, strict=True))
        return np.asarray(features.T @ grads)

    blocks = [(k, first) for k, pairs in enumerate(operands.pairs) for first in range(0, pairs.shape[1], _BLOCK_PAIRS)]
    much = sum(pairs.shape[1] for pairs in operands.pairs) > _BLOCK_PAIRS
    for (offset, _), part in zip(blocks, each(product, blocks) if much else map(product, blocks), strict=True):
        sums[offset] += part
    return sums


def _one_by_one(operands: Operands) -> Array:
    sums = np.zeros(operands.shape, np.float64)
    for offset, channel_in in np.ndindex(operands.shape[:2]):
        sums[offset, channel_in] = exact_sums(products(operands, offset, slice(channel_in, channel_in + 1)))
    return sums
