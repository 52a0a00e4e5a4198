"""The numbers that fill output_grad and the weights, and the proof that right kernels can meet the criterion."""

import math
from typing import Final, Literal

import numpy as np

from mluops_gtest.authoring import Array, Criterion, Draw, DType, Stream, diff1_and_diff2
from mluops_gtest.authoring.sums import assert_conditioned, exact_sums

from .reference import Operands, float64_is_exact, terms_by_row

# §1.5.1
CRITERIA: Final[dict[DType, tuple[Criterion, ...]]] = {
    DType.FLOAT: diff1_and_diff2(1e-5),
    DType.HALF: diff1_and_diff2(3e-3),
}

# lattice: few enough bits that float64 sums are exact. The others have every mantissa bit random:
# full: one exponent; wide: many exponents; cancelling: neighbouring channels nearly cancel; positive: one sign;
# leading: positive, and the products of the first and the last channel are so large that half adds no other to them.
Values = Literal["lattice", "full", "wide", "cancelling", "positive", "leading"]

_FLOAT64_BITS: Final = 53
_MANTISSA_BITS: Final = {DType.FLOAT: 24, DType.HALF: 11}
# Products of two such values stay normal and their sums finite.
_WIDE: Final = {DType.FLOAT: (-12, 12), DType.HALF: (-5, 3)}
# Neighbouring factors differ by 1/16 to 1/8, so two products leave about a fifth of one: mild enough that even vector
# lanes that sum the even and the odd channels apart stay far within 1e-5.
_DIFFERENCE: Final = 2.0**-4
# Other products stay below 1/4; from 512 on that is half a step of half. From either end a sum begins there.
_LEADING: Final = {1: 2.0**7, -1: 2.0**6}
# What is looked at for conditioning: small cases wholly, network cases by their first rows.
_CONDITION_ROWS: Final = 1024
_CONDITION_PRODUCTS: Final = 1 << 20


def draw_operands(
    draw: Draw, values: Values, dtype: DType, grad_shape: tuple[int, int], weights_shape: tuple[int, int, int]
) -> tuple[Array, Array]:
    """output_grad [Y, Co] and weights [K, Ci, Co] of that kind."""
    grad, weights = draw.stream("output_grad"), draw.stream("filters")
    # Within one offset an input row occurs at most once, so that many products at most meet in one sum.
    terms = weights_shape[0] * weights_shape[2]
    return _drawn(grad, values, dtype, grad_shape, terms), _drawn(weights, values, dtype, weights_shape, terms, sign=-1)


def _drawn(stream: Stream, values: Values, dtype: DType, shape: tuple[int, ...], terms: int, sign: int = 1) -> Array:
    storage = dtype.storage.str
    match values:
        case "lattice":
            return stream.lattice(shape, lattice_bits(dtype, terms), dtype=storage)
        case "full":
            return stream.mantissas(shape, dtype=storage)
        case "wide":
            return stream.mantissas(shape, _WIDE[dtype], dtype=storage)
        case "positive":
            # In [1/4, 1/2), so that thousands of products stay far below the largest half.
            return np.abs(stream.mantissas(shape, (-2, -2), dtype=storage))
        case "leading":
            drawn = np.abs(stream.mantissas(shape, (-2, -2), dtype=storage))
            drawn[..., [0, -1]] *= drawn.dtype.type(_LEADING[sign])
            return drawn
        case "cancelling":
            return _cancelling(stream.mantissas(shape, dtype=storage), sign)


def _cancelling(values: Array, sign: int) -> Array:
    """Each odd channel nearly repeats the even one before it, in the weights with the opposite sign."""
    pairs = values.shape[-1] // 2
    even, odd = values[..., : 2 * pairs : 2], values[..., 1 : 2 * pairs : 2]
    # Rounded element by element, so the same on every machine.
    odd[...] = sign * even * (1 + values.dtype.type(_DIFFERENCE) * np.abs(odd))
    return values


def lattice_bits(dtype: DType, terms: int) -> int:
    """The most bits per factor that keep float64 sums of `terms` products exact: 2·bits + ⌈log2 terms⌉ ≤ 53."""
    return min(_MANTISSA_BITS[dtype], (_FLOAT64_BITS - math.ceil(math.log2(terms))) // 2)


def refuse_unless_sound(operands: Operands, values: Values, dtype: DType) -> None:
    """Lattice data must be exact in float64, and any order of float32 additions must stay far within the criterion."""
    if values == "lattice" and not float64_is_exact(operands):
        raise ValueError("the lattice is too fine: float64 sums of these products round")
    terms = _leading_terms(operands)
    if terms.size:
        assert_conditioned(terms, exact_sums(terms), CRITERIA[dtype])


def _leading_terms(operands: Operands) -> Array:
    """The products of the first rows as columns [T, n], padded with zeros."""
    longest = operands.products_per_sum
    first = min(_CONDITION_ROWS, max(1, _CONDITION_PRODUCTS // max(1, longest * operands.shape[1])))
    leading = operands._replace(pairs=tuple(pairs[:, pairs[0] < first] for pairs in operands.pairs))
    padded = [np.pad(terms, ((0, longest - len(terms)), (0, 0))) for _, terms in terms_by_row(leading)]
    return np.concatenate([np.empty((longest, 0)), *padded], axis=1)
