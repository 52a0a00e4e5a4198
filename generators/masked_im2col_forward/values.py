"""What a feature may hold: the operator copies bits, so every bit pattern is legal data."""

import math
from collections.abc import Callable

from mluops_gtest.authoring import Array, Draw, DType

Shape = tuple[int, ...]

# Sign, exponent and mantissa as masks, and the exponents of all normal numbers.
_FIELDS = {DType.FLOAT: (1 << 31, 0xFF << 23, (1 << 23) - 1), DType.HALF: (1 << 15, 0x1F << 10, (1 << 10) - 1)}
_NORMAL = {DType.FLOAT: (-126, 127), DType.HALF: (-14, 15)}


def feature(draw: Draw, dtype: DType, shape: Shape, kind: str) -> Array:
    """A feature of that kind of values, none of which has the bits that mark unwritten memory."""
    if kind not in KINDS:
        raise ValueError(f"unknown kind of values {kind!r}; known: {', '.join(KINDS)}")
    values = KINDS[kind](draw, dtype, shape)
    bits = values.view(dtype.bits)
    bits[bits == int.from_bytes(dtype.poison, "little")] ^= 1
    return values


def full(draw: Draw, dtype: DType, shape: Shape) -> Array:
    """Every mantissa bit in use, magnitudes around 1."""
    return draw.stream("feature").mantissas(shape, (-8, 8), dtype.storage.str)


def wide(draw: Draw, dtype: DType, shape: Shape) -> Array:
    """Every mantissa bit in use, over all normal exponents."""
    return draw.stream("feature").mantissas(shape, _NORMAL[dtype], dtype.storage.str)


def any_bits(draw: Draw, dtype: DType, shape: Shape) -> Array:
    """Any bit pattern at all."""
    return _bits(draw, dtype, shape).view(dtype.storage)


def denormal(draw: Draw, dtype: DType, shape: Shape) -> Array:
    """Denormals of both signs, and in every fourth place or so a zero of either sign."""
    sign, _, mantissa = _FIELDS[dtype]
    bits = _bits(draw, dtype, shape) & (sign | mantissa)
    bits[_one_in(4, draw, shape, 0)] &= sign
    return bits.view(dtype.storage)


def nan(draw: Draw, dtype: DType, shape: Shape) -> Array:
    """NaN in every third place or so."""
    return _mixed(draw, dtype, shape, {0: _nan_bits})


def inf(draw: Draw, dtype: DType, shape: Shape) -> Array:
    """Infinities of both signs in every third place or so."""
    return _mixed(draw, dtype, shape, {0: _inf_bits})


def nan_inf(draw: Draw, dtype: DType, shape: Shape) -> Array:
    """NaN, infinities and finite numbers, a third each or so."""
    return _mixed(draw, dtype, shape, {0: _nan_bits, 1: _inf_bits})


def nan_only(draw: Draw, dtype: DType, shape: Shape) -> Array:
    """NaN everywhere."""
    return _nan_bits(draw, dtype, shape).view(dtype.storage)


KINDS: dict[str, Callable[[Draw, DType, Shape], Array]] = {
    kind.__name__: kind for kind in (full, wide, any_bits, denormal, nan, inf, nan_inf, nan_only)
}


def _mixed(draw: Draw, dtype: DType, shape: Shape, specials: dict[int, Callable[[Draw, DType, Shape], Array]]) -> Array:
    bits = full(draw, dtype, shape).view(dtype.bits)
    for third, special in specials.items():
        where = _one_in(3, draw, shape, third)
        bits[where] = special(draw, dtype, shape)[where]
    return bits.view(dtype.storage)


def _one_in(parts: int, draw: Draw, shape: Shape, part: int) -> Array:
    chosen: Array = draw.stream("special").integers(0, parts, shape) == part
    return chosen


def _bits(draw: Draw, dtype: DType, shape: Shape) -> Array:
    return draw.stream("bits").lanes(math.prod(shape)).astype(dtype.bits).reshape(shape)


def _inf_bits(draw: Draw, dtype: DType, shape: Shape) -> Array:
    sign, exponent, _ = _FIELDS[dtype]
    return (_bits(draw, dtype, shape) & sign) | exponent


def _nan_bits(draw: Draw, dtype: DType, shape: Shape) -> Array:
    """Quiet and signalling NaN of any payload and sign."""
    _, exponent, mantissa = _FIELDS[dtype]
    bits = _bits(draw, dtype, shape) | exponent
    # Without a payload it would be an infinity.
    bits[bits & mantissa == 0] |= 1
    return bits
