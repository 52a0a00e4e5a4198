"""Values rounded to narrower types: half, bfloat16, and the ten bits of TF32."""

from typing import Final

import numpy as np

from mluops_gtest.model.dtypes import Array

# Significant bits of float32 that are cut off, and those of the type; exponents as frexp has them, of the smallest
# normal number.
_CUT: Final = {"tf32": 13, "bfloat16": 16}
_SIGNIFICANT: Final = {"tf32": (11, -125), "bfloat16": (8, -125), "half": (11, -13)}
# The widest first: what TF32 holds is closer than what bfloat16 does.
NARROW: Final = ("half", "tf32", "bfloat16")
# What is said where the first two would give the same values.
EITHER: Final = "half or tf32"


def narrowed(values: Array, precision: str, *, truncated: bool = False) -> Array:
    """float32 values rounded to the nearest of that type, to even where two are as near; half overflows.

    Or `truncated`, to the next towards zero.
    """
    single = values.astype(np.float32)
    if precision == "half":
        with np.errstate(over="ignore"):
            half = single.astype(np.float16)
            beyond = truncated & np.isfinite(single) & (np.abs(half) > np.abs(single))
            return np.where(beyond, np.nextafter(half, np.float16(0)), half).astype(np.float32)
    bits, cut = single.view(np.uint32), np.uint32(_CUT[precision])
    odd = (bits >> cut) & np.uint32(1)
    up = np.uint32(0) if truncated else (np.uint32(1) << (cut - np.uint32(1))) - np.uint32(1) + odd
    rounded = ((bits + up) >> cut) << cut
    # Rounding the bits of a NaN would make an infinity, or another sign.
    result: Array = np.where(np.isfinite(single), rounded.view(np.float32), single)
    return result


def spacing(values: Array, precision: str) -> Array:
    """The distance of neighbours of that type around the values, in float64."""
    significant, smallest = _SIGNIFICANT[precision]
    _, exponents = np.frexp(values.astype(np.float64))
    distance: Array = np.ldexp(1.0, np.maximum(exponents, smallest) - significant)
    return distance
