"""Exact numbers beside stored ones: what an exact value is in a data type, and how far a stored one is from it."""

import math
from fractions import Fraction
from typing import Final

import numpy as np

from mluops_gtest.criteria.elements import widened
from mluops_gtest.model.dtypes import DType
from mluops_gtest.model.exact_element import ExactValue

# Significant bits, and the exponents of the smallest and the largest normal number (2^e ≤ x < 2^(e+1)).
_FORMATS: Final = {
    DType.HALF: (11, -14, 15),
    DType.BFLOAT16: (8, -126, 127),
    DType.FLOAT: (24, -126, 127),
    DType.DOUBLE: (53, -1022, 1023),
}


def stored_number(value: object, dtype: DType) -> ExactValue:
    """A stored element as the number that it is."""
    scalar = widened(np.asarray(value), dtype)
    if scalar.dtype.kind != "f":
        return int(scalar)
    number = float(scalar)
    return Fraction(number) if math.isfinite(number) else number


def ulp(value: ExactValue, dtype: DType) -> Fraction:
    """The distance of neighbouring numbers of that type around the value; 1 for integers."""
    if dtype not in _FORMATS:
        return Fraction(1)
    bits, smallest, largest = _FORMATS[dtype]
    if not math.isfinite(value):
        return Fraction(2) ** (largest - bits + 1)
    return Fraction(2) ** (min(max(_exponent(Fraction(value)), smallest), largest) - bits + 1)


def rounded(value: ExactValue, dtype: DType) -> ExactValue:
    """The value as that type has it: to the nearest number, ties to even, infinite beyond the largest one."""
    if dtype not in _FORMATS or not math.isfinite(value):
        return value
    bits, _, largest = _FORMATS[dtype]
    unit = ulp(value, dtype)
    nearest = round(Fraction(value) / unit) * unit
    if abs(nearest) > (2 - Fraction(2) ** (1 - bits)) * Fraction(2) ** largest:
        return math.copysign(math.inf, nearest)
    return nearest


def error(value: ExactValue, exact: ExactValue) -> Fraction | float:
    """|value − exact|; infinite where a NaN or an infinity does not meet its like, 0 where it does."""
    if math.isfinite(value) and math.isfinite(exact):
        return abs(Fraction(value) - Fraction(exact))
    both_nan = math.isnan(value) and math.isnan(exact)
    return Fraction(0) if both_nan or value == exact else math.inf


def _exponent(value: Fraction) -> int:
    """The e with 2^e ≤ |value| < 2^(e+1); of 0 that of the smallest numbers there are."""
    if value == 0:
        return -(1 << 20)
    guess = abs(value.numerator).bit_length() - value.denominator.bit_length()
    return guess if abs(value) >= Fraction(2) ** guess else guess - 1
