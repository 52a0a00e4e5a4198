"""What col may hold: the operator copies bits, so every bit pattern is legal data."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType


@dataclass(frozen=True, slots=True)
class _Format:
    """The fields of a float type as masks, and the exponents of its normal numbers."""

    sign: int
    exponent: int
    mantissa: int
    normal: tuple[int, int]


_FORMATS = {
    DType.FLOAT: _Format(1 << 31, 0xFF << 23, (1 << 23) - 1, (-126, 127)),
    DType.HALF: _Format(1 << 15, 0x1F << 10, (1 << 10) - 1, (-14, 15)),
}
_NEAR_ONE = (-8, 8)

# Each kind of values mixes these sorts of bit patterns; a sort that stands there twice is drawn twice as often.
KINDS = {
    "full": ("near_one",),
    "wide": ("normal",),
    "any_bits": ("any",),
    "denormal": ("denormal", "denormal", "denormal", "zero"),
    "nan": ("near_one", "near_one", "nan"),
    "inf": ("near_one", "near_one", "inf"),
    "nan_inf": ("near_one", "nan", "inf"),
    "nan_only": ("nan",),
}


def column_values(draw: Draw, dtype: DType, shape: tuple[int, int], kind: str) -> Array:
    """col with values of that kind, none of which has the bits that mark unwritten memory."""
    if kind not in KINDS:
        raise ValueError(f"unknown kind of values {kind!r}; known: {', '.join(KINDS)}")
    sorts = KINDS[kind]
    drawn = draw.stream("sorts").integers(0, len(sorts), shape)
    bits = np.empty(shape, dtype.bits)
    for number, sort in enumerate(sorts):
        here = drawn == number
        # With other seeds, too, a case that is about NaN holds one.
        if len(sorts) > 1 and not here.any():
            raise ValueError(f"no value of the sort {sort!r} was drawn; make col larger")
        bits[here] = _SORTS[sort](draw, dtype, shape)[here]
    bits[bits == int.from_bytes(dtype.poison, "little")] ^= 1
    return bits.view(dtype.storage)


def _near_one(draw: Draw, dtype: DType, shape: tuple[int, int]) -> Array:
    """Every mantissa bit in use, magnitudes around 1."""
    return draw.stream("col").mantissas(shape, _NEAR_ONE, dtype.storage.str).view(dtype.bits)


def _normal(draw: Draw, dtype: DType, shape: tuple[int, int]) -> Array:
    """Every mantissa bit in use, over all normal exponents."""
    return draw.stream("col").mantissas(shape, _FORMATS[dtype].normal, dtype.storage.str).view(dtype.bits)


def _any(draw: Draw, dtype: DType, shape: tuple[int, int]) -> Array:
    return draw.stream("bits").lanes(math.prod(shape)).astype(dtype.bits).reshape(shape)


def _denormal(draw: Draw, dtype: DType, shape: tuple[int, int]) -> Array:
    """Denormals of both signs; the mantissa is never 0, which would be a zero."""
    form = _FORMATS[dtype]
    return _any(draw, dtype, shape) & (form.sign | form.mantissa) | 1


def _zero(draw: Draw, dtype: DType, shape: tuple[int, int]) -> Array:
    return _any(draw, dtype, shape) & _FORMATS[dtype].sign


def _inf(draw: Draw, dtype: DType, shape: tuple[int, int]) -> Array:
    return _zero(draw, dtype, shape) | _FORMATS[dtype].exponent


def _nan(draw: Draw, dtype: DType, shape: tuple[int, int]) -> Array:
    """Quiet and signalling NaN of both signs; the payload is never 0, which would be an infinity."""
    return _any(draw, dtype, shape) | _FORMATS[dtype].exponent | 1


_SORTS: dict[str, Callable[[Draw, DType, tuple[int, int]], Array]] = {
    "near_one": _near_one,
    "normal": _normal,
    "any": _any,
    "denormal": _denormal,
    "zero": _zero,
    "inf": _inf,
    "nan": _nan,
}
