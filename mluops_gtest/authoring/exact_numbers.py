"""Numbers without rounding: what the literal definitions of elements (`exact.py` of an operator) are written in."""

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Final

import numpy as np

from mluops_gtest.core.call import ExactElement, ExactElements, ExactValue
from mluops_gtest.core.tensor import Array, Layout

__all__ = [
    "ExactElement",
    "ExactElements",
    "ExactValue",
    "as_integers",
    "fraction",
    "offset_weights",
    "overflows",
    "pairs_naming",
    "products",
    "squared_distances_to",
    "total",
]

# Bits of a float64's mantissa, and how it is cut so that float64 sums of the pieces are exact below 2^26 terms.
_MANTISSA: Final = 53
_LOWER: Final = 26
_LOWER_BITS: Final = (1 << _LOWER) - 1
# The smallest number that rounds to infinity: half a unit in the last place above the largest one.
_OVERFLOW: Final = {2: Fraction(2**12 - 1) * 2**4, 4: Fraction(2**25 - 1) * 2**103}


def fraction(value: "np.floating | float") -> Fraction | float:
    """A stored number as what it is; NaN and infinities as floats."""
    number = float(value)
    return Fraction(number) if math.isfinite(number) else number


def products(left: Array, right: Array) -> Array:
    """Products of halves or floats in float64, which holds them all: 48 bits, and exponents far from its ends."""
    with np.errstate(invalid="ignore"):  # 0 · Inf is NaN
        return left.astype(np.float64) * right.astype(np.float64)


def total(terms: Iterable[Array] | Array) -> Fraction | float:
    """The sum of float64 values, an array or several vectors, without any rounding; NaN and infinities follow IEEE."""
    values = np.concatenate([np.zeros(0), *((terms.ravel(),) if isinstance(terms, np.ndarray) else terms)])
    special = values[~np.isfinite(values)]
    if special.size:
        with np.errstate(invalid="ignore"):  # Inf − Inf is NaN
            return float(special.sum())
    mantissas, exponents = np.frexp(values)
    integers = np.ldexp(mantissas, _MANTISSA).astype(np.int64)
    lowest = int(exponents.min(initial=0))
    # Sums of the pieces by exponent, whole numbers that float64 holds.
    high, low = (np.bincount(exponents - lowest, piece) for piece in (integers >> _LOWER, integers & _LOWER_BITS))
    whole = sum((((int(h) << _LOWER) + int(w)) << place) for place, (h, w) in enumerate(zip(high, low, strict=True)))
    return whole * Fraction(2) ** (lowest - _MANTISSA)


def as_integers(values: Array) -> tuple[Array, int]:
    """Finite numbers as Python integers times 2^exponent: an object array and the exponent."""
    mantissas, exponents = np.frexp(values.astype(np.float64))
    integers = np.ldexp(mantissas, _MANTISSA).astype(np.int64).astype(object)
    lowest = int(exponents.min(initial=0))
    return integers << (exponents - lowest).astype(object), lowest - _MANTISSA


def squared_distances_to(points: Array) -> Callable[[Array], list[Fraction | None]]:
    """Between a point [3] and each of `points` [M, 3]: Σ(u − k)²; None where a coordinate is NaN or infinite."""
    finite = np.isfinite(points).all(axis=1)
    known, exponent = as_integers(points[finite])

    def distances(point: Array) -> list[Fraction | None]:
        found: list[Fraction | None] = [None] * len(points)
        if not np.isfinite(point).all():
            return found
        own, own_exponent = as_integers(point)
        unit = min(exponent, own_exponent)
        apart = (own << (own_exponent - unit)) - (known << (exponent - unit))
        squares, scale = (apart * apart).sum(axis=1), Fraction(2) ** (2 * unit)
        for place, square in zip(np.flatnonzero(finite).tolist(), squares.tolist(), strict=True):
            found[place] = square * scale
        return found

    return distances


def overflows(value: Fraction, itemsize: int) -> bool:
    """Rounded to a half or a float (2 or 4 bytes) that number is infinite."""
    return abs(value) >= _OVERFLOW[itemsize]


def offset_weights(filters: Array, layout: Layout) -> Array:
    """W [K, Ci, Co] of filters whose axes are named by the layout; ARRAY is [D,]H,W,Ci,Co."""
    axes = "DHWCN"[-filters.ndim :] if layout is Layout.ARRAY else layout.value
    order = [axes.index(axis) for axis in "DHWCN" if axis in axes]
    ordered = filters.transpose(order)
    return ordered.reshape(-1, *ordered.shape[-2:])


def pairs_naming(row: int, side: int, pairs: Array, counts: Iterable[int]) -> Iterator[tuple[int, int]]:
    """(k, row on the other side) of every pair in use, l < indice_num[k], whose side (0: input, 1: output) is `row`."""
    for offset, count in enumerate(counts):
        for place in np.flatnonzero(pairs[offset, side, :count] == row).tolist():
            yield offset, int(pairs[offset, 1 - side, place])
