"""Values for operators that copy bits: every bit pattern is legal data."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Format:
    """The fields of a float type as masks, and the exponents of its normal numbers."""

    sign: int
    exponent: int
    mantissa: int
    normal: tuple[int, int]


_FORMATS: Final = {
    DType.FLOAT: _Format(1 << 31, 0xFF << 23, (1 << 23) - 1, (-126, 127)),
    DType.HALF: _Format(1 << 15, 0x1F << 10, (1 << 10) - 1, (-14, 15)),
    DType.BFLOAT16: _Format(1 << 15, 0xFF << 7, (1 << 7) - 1, (-126, 127)),
}

# Each kind of values mixes these sorts of bit patterns; a sort that stands there twice is drawn twice as often.
KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "full": ("near_one",),
    "wide": ("normal",),
    "any_bits": ("any",),
    "denormal": ("odd_denormal", "odd_denormal", "odd_denormal", "zero"),
    "nan": ("near_one", "near_one", "odd_nan"),
    "inf": ("near_one", "near_one", "inf"),
    "nan_inf": ("near_one", "odd_nan", "inf"),
    "nan_only": ("odd_nan",),
}


@dataclass(frozen=True, slots=True)
class BitPatterns:
    """Draws a tensor from two streams: its values, and which sort of bit pattern stands where."""

    values: str
    sorts: str
    kinds: Mapping[str, tuple[str, ...]]

    def drawn(self, draw: Draw, dtype: DType, shape: Shape, kind: str) -> Array:
        """Values of that kind, none of which has the bits that mark unwritten memory."""
        if kind not in self.kinds:
            raise ValueError(f"unknown kind of values {kind!r}; known: {', '.join(self.kinds)}")
        first, *others = self.kinds[kind]
        # A choice among one sort alone would take 64 bits an element.
        bits = self._mixed((first, *others), draw, dtype, shape) if others else self._of_sort(first, draw, dtype, shape)
        bits[bits == int.from_bytes(dtype.poison, "little")] ^= 1
        return bits.view(dtype.storage)

    def _mixed(self, sorts: tuple[str, ...], draw: Draw, dtype: DType, shape: Shape) -> Array:
        drawn = draw.stream(self.sorts).integers(0, len(sorts), shape)
        bits = np.empty(shape, dtype.bits)
        for number, sort in enumerate(sorts):
            here = drawn == number
            # With other seeds, too, a case that is about NaN holds one.
            if not here.any():
                raise ValueError(f"no value of the sort {sort!r} was drawn; make the tensor larger")
            bits[here] = self._of_sort(sort, draw, dtype, shape)[here]
        return bits

    def _of_sort(self, sort: str, draw: Draw, dtype: DType, shape: Shape) -> Array:
        form = _FORMATS[dtype]
        if sort in ("near_one", "normal"):
            # Every mantissa bit in use; magnitudes around 1, or over all normal exponents.
            exponents = (-8, 8) if sort == "near_one" else form.normal
            return draw.stream(self.values).mantissas(shape, exponents, dtype.storage.str).view(dtype.bits)
        return _SORTS[sort](draw.stream("bits").lanes(math.prod(shape)).astype(dtype.bits).reshape(shape), form)


def _nan(bits: Array, form: _Format) -> Array:
    # Without a payload it would be an infinity.
    payload: Array = bits | ((bits & form.mantissa) == 0)
    return np.bitwise_or(payload, form.exponent)


# What any bits become; NaN are quiet and signalling, and an odd pattern is neither 0 nor an infinity.
_SORTS: Final[Mapping[str, Callable[[Array, _Format], Array]]] = {
    "any": lambda bits, _: bits,
    "zero": lambda bits, form: bits & form.sign,
    "denormal": lambda bits, form: bits & (form.sign | form.mantissa),
    "odd_denormal": lambda bits, form: bits & (form.sign | form.mantissa) | 1,
    "inf": lambda bits, form: bits & form.sign | form.exponent,
    "nan": _nan,
    "odd_nan": lambda bits, form: bits | form.exponent | 1,
}
