"""The numbers that fill features and output_grad, and the proof that right kernels can meet the criterion."""

import math
from typing import Final, Literal

import numpy as np

from mluops_gtest.authoring import Array, Criterion, Draw, DType, Stream, diff1_and_diff2
from mluops_gtest.authoring.sums import assert_conditioned, exact_sums

from .._shared.connections import Connections
from .._shared.products import Values as Factors
from .._shared.products import draw_factor, lattice_bits
from .reference import Operands, float64_is_exact, products

# §1.5.1
CRITERIA: Final[dict[DType, tuple[Criterion, ...]]] = {
    DType.FLOAT: diff1_and_diff2(1e-5),
    DType.HALF: diff1_and_diff2(3e-3),
}

# Beside what all sums of products share, huge: positive, and one product in the middle is a thousand times any other.
Values = Literal[Factors, "huge"]

# The longest float sums of wide lattices. Signed products cancel by chance, so that a sequential float32 sum of more
# may use a quarter of 1e-5, and one of a quarter of a million nearly all of it.
LONGEST: Final = 1_000
_FLOAT32_BITS: Final = 24
# Half ends at 65504; partial sums in another order may be larger than the sum.
_HALF_LIMIT: Final = 3e4
# Products of 256 to 1024 among others below 1/4.
_HUGE: Final = 2.0**6
# What is looked at for conditioning: small cases wholly, network cases by their longest offsets.
_CONDITION_PRODUCTS: Final = 1 << 20


def draw_operands(
    draw: Draw, values: Values, dtype: DType, connections: Connections, channels: tuple[int, int]
) -> Operands:
    """features [L, Ci] and output_grad [Y, Co] of that kind, and the pairs that multiply them.

    What is said of the order of terms holds for the pairs of the first offset.
    """
    terms = max(1, *connections.counts)
    in_rows, out_rows = connections.used[0]
    features = _drawn(draw.stream("features"), values, dtype, (connections.rows_in, channels[0]), terms, 1)
    grads = _drawn(draw.stream("output_grad"), values, dtype, (connections.rows_out, channels[1]), terms, -1)
    return Operands(_placed(features, in_rows), _placed(grads, out_rows), connections.used)


def _placed(in_order: Array, named: Array) -> Array:
    """The rows where the first offset names them one after the other, the others behind in ascending order."""
    by_row = np.empty_like(in_order)
    by_row[named] = in_order[: len(named)]
    by_row[np.setdiff1d(np.arange(len(in_order)), named)] = in_order[len(named) :]
    return by_row


def _drawn(
    stream: Stream, values: Values, dtype: DType, shape: tuple[int, int], terms: int, sign: Literal[1, -1]
) -> Array:
    match values:
        case "lattice":
            return stream.lattice(shape, bits_per_factor(dtype, terms), dtype=dtype.storage.str)
        case "huge":
            drawn = draw_factor(stream, "positive", dtype, shape, terms=terms)
            drawn[terms // 2] *= drawn.dtype.type(_HUGE)
            return drawn
    return draw_factor(stream, values, dtype, shape, terms=terms, axis=0, sign=sign)


def bits_per_factor(dtype: DType, terms: int) -> int:
    """The bits of lattice values: the most that keep float64 sums exact, in long float sums those of float32.

    3 bits at 248636 terms, because 7 · 7 · 248636 < 2^24: exact in float32 in any order, so no order is unlucky.
    """
    if dtype is DType.FLOAT and terms > LONGEST:
        return int(math.log2(math.isqrt(2**_FLOAT32_BITS // terms) + 1))
    return lattice_bits(dtype, terms)


def refuse_unless_sound(operands: Operands, values: Values, dtype: DType) -> None:
    """Lattice sums are exact in float64, half sums finite, float32 sums in any order far within the criterion."""
    if values == "lattice" and not float64_is_exact(operands):
        raise ValueError("the lattice is too fine: float64 sums of these products round")
    terms = _longest_sums(operands)
    if not terms.size:
        return
    sums = exact_sums(terms)
    if dtype is DType.HALF and np.abs(sums).max() > _HALF_LIMIT:
        raise ValueError(f"a sum is beyond {_HALF_LIMIT:.0f}, too near to the largest half")
    assert_conditioned(terms, sums, CRITERIA[dtype])


def _longest_sums(operands: Operands) -> Array:
    """The products of the longest offsets as columns [T, n], padded with zeros."""
    longest, channels_out = operands.longest, operands.shape[2]
    columns = min(max(1, _CONDITION_PRODUCTS // max(1, longest)), math.prod(operands.shape))
    lengths = [pairs.shape[1] for pairs in operands.pairs]
    found, filled = np.zeros((longest, columns)), 0
    for offset in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if filled == columns:
            break
        few = slice(0, math.ceil((columns - filled) / channels_out))
        terms = products(operands, offset, few)[:, : columns - filled]
        found[: len(terms), filled : filled + terms.shape[1]] = terms
        filled += terms.shape[1]
    return found
