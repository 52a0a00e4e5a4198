"""The numbers that fill the two factors of a sum of products."""

import math
from typing import Final, Literal

import numpy as np

from mluops_gtest.authoring.random import Stream
from mluops_gtest.core.tensor import Array, DType

# lattice: few enough bits that float64 sums are exact; exact: so few that float32 sums are, and every lost term shows.
# The others have every mantissa bit random:
# full: one exponent; wide: many exponents; cancelling: neighbouring terms nearly cancel; positive: one sign;
# leading: positive, and the first and the last product are so large that half adds no other to them.
# The next two have few bits, and factors that are normal numbers. tiny: products are multiples of the smallest number
# above 0, and no sum reaches the normal ones. quarters: of a quarter of it, for sums of one product, which must be
# rounded up, down and from the middle between two numbers.
# lifted: the first factor is subnormal, the second so large that their products are not.
Values = Literal["lattice", "exact", "full", "wide", "cancelling", "positive", "leading", "tiny", "quarters", "lifted"]
# Those of which a device may lose all.
SUBNORMAL: Final = ("tiny", "quarters", "lifted")

_FLOAT64_BITS: Final = 53
_FLOAT32_BITS: Final = 24
_MANTISSA_BITS: Final = {DType.FLOAT: 24, DType.HALF: 11}
# Products of two such values stay normal and their sums finite.
_WIDE: Final = {DType.FLOAT: (-12, 12), DType.HALF: (-5, 3)}
# Neighbouring factors differ by 1/16 to 1/8, so two products leave about a fifth of one: mild enough that even vector
# lanes that sum the even and the odd terms apart stay far within 1e-5.
_DIFFERENCE: Final = 2.0**-4
# Other products stay below 1/4; from 512 on that is half a step of half. From either end a sum begins there.
_LEADING: Final = {1: 2.0**7, -1: 2.0**6}
# By the sign of the factor: the two exponents add up to that of the smallest number above 0, 2^-149 or 2^-24.
_TINY_SCALE: Final = {DType.FLOAT: {1: 75, -1: 149 - 75}, DType.HALF: {1: 12, -1: 24 - 12}}
# That many of the smallest number make the smallest normal one.
_SUBNORMAL_BITS: Final = {DType.FLOAT: 23, DType.HALF: 10}
# Products of up to 15 · 15 quarters: so small that one step of rounding is some percent of them.
_QUARTERS_BITS: Final = 4
# By the sign of the factor: up to 15 of the smallest number above 0, and what makes normal numbers of them.
_LIFTED_SCALE: Final = {DType.FLOAT: {1: 149, -1: -120}, DType.HALF: {1: 24, -1: -10}}
_LIFTED_BITS: Final = 4


def draw_factor(
    stream: Stream,
    values: Values,
    dtype: DType,
    shape: tuple[int, ...],
    *,
    terms: int,
    axis: int = -1,
    sign: Literal[1, -1] = 1,
) -> Array:
    """One factor of sums of up to `terms` products along `axis`; of the two factors one has sign 1, the other −1."""
    storage = dtype.storage.str
    match values:
        case "lattice" | "exact":
            within = _FLOAT32_BITS if values == "exact" else _FLOAT64_BITS
            return stream.lattice(shape, lattice_bits(dtype, terms, within), dtype=storage)
        case "full":
            return stream.mantissas(shape, dtype=storage)
        case "wide":
            return stream.mantissas(shape, _WIDE[dtype], dtype=storage)
        case "positive":
            return _positive(stream, shape, storage)
        case "leading":
            drawn = _positive(stream, shape, storage)
            np.moveaxis(drawn, axis, -1)[..., [0, -1]] *= drawn.dtype.type(_LEADING[sign])
            return drawn
        case "cancelling":
            drawn = stream.mantissas(shape, dtype=storage)
            _cancel(np.moveaxis(drawn, axis, -1), sign)
            return drawn
        case "tiny":
            bits = (_SUBNORMAL_BITS[dtype] - math.ceil(math.log2(terms))) // 2
            if bits < 1:
                raise ValueError(f"sums of {terms} products of the smallest numbers are normal numbers; give fewer")
            return stream.lattice(shape, bits, _TINY_SCALE[dtype][sign], dtype=storage)
        case "quarters":
            if terms > 1:
                raise ValueError(f"quarters are for sums of one product, not of {terms}: others round on the way")
            return stream.lattice(shape, _QUARTERS_BITS, _TINY_SCALE[dtype][sign] + 1, dtype=storage)
        case "lifted":
            return stream.lattice(shape, _LIFTED_BITS, _LIFTED_SCALE[dtype][sign], dtype=storage)


def lattice_bits(dtype: DType, terms: int, within: int = _FLOAT64_BITS) -> int:
    """The most bits per factor that keep sums of `terms` products exact: 2·bits + ⌈log2 terms⌉ ≤ 53, or `within`."""
    return min(_MANTISSA_BITS[dtype], (within - math.ceil(math.log2(terms))) // 2)


def _positive(stream: Stream, shape: tuple[int, ...], storage: str) -> Array:
    # In [1/4, 1/2), so that thousands of products stay far below the largest half.
    return np.abs(stream.mantissas(shape, (-2, -2), dtype=storage))


def _cancel(values: Array, sign: int) -> None:
    """Let each odd term nearly repeat the even one before it, in the second factor with the opposite sign."""
    pairs = values.shape[-1] // 2
    even, odd = values[..., : 2 * pairs : 2], values[..., 1 : 2 * pairs : 2]
    # Rounded element by element, so the same on every machine.
    odd[...] = sign * even * (1 + values.dtype.type(_DIFFERENCE) * np.abs(odd))
