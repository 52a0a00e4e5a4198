"""Numbers as arithmetic leaves them that does not round to nearest or has no subnormal numbers; for mutants."""

from collections.abc import Callable
from typing import Final

import numpy as np

from mluops_gtest.core.tensor import Array


def flushed(values: Array) -> Array:
    """0 in place of every subnormal number of the array's type."""
    smallest = np.finfo(values.dtype).smallest_normal
    return np.where(np.abs(values) < smallest, values.dtype.type(0), values)


def truncated_to_half(values: Array) -> Array:
    """Rounded to half toward 0; what rounding to nearest makes infinite is so here, too."""
    with np.errstate(over="ignore"):
        nearest = values.astype(np.float16)
    beyond = np.isfinite(nearest) & (np.abs(nearest.astype(np.float64)) > np.abs(values.astype(np.float64)))
    return (nearest.view(np.uint16) - beyond.astype(np.uint16)).view(np.float16)


def rounded_up_to_half(values: Array) -> Array:
    """Rounded to the nearest half, from the middle between two of them away from 0."""
    toward = truncated_to_half(values)
    away = (toward.view(np.uint16) + np.uint16(1)).view(np.float16)
    exact, low, high = (np.abs(array.astype(np.float64)) for array in (values, toward, away))
    with np.errstate(invalid="ignore"):  # beside an infinity
        goes_up = exact - low >= high - exact
    return np.where(np.isfinite(values) & goes_up, away, toward)


def flushing(dtype: type[np.generic]) -> Callable[[Array, Array], None]:
    """Writes sums to an output of that type without its subnormal numbers, to another one as they are."""

    def write(output: Array, sums: Array) -> None:
        output[...] = sums
        if output.dtype == dtype:
            output[...] = flushed(output)

    return write


def rounding_halves(rounded: Callable[[Array], Array]) -> Callable[[Array, Array], None]:
    """Writes sums rounded in that way to an output of halves, to one of floats as they are."""

    def write(output: Array, sums: Array) -> None:
        output[...] = rounded(sums) if output.dtype == np.float16 else sums

    return write


def nan_cleared(values: Array) -> Array:
    """0 in place of NaN."""
    return np.where(np.isnan(values), values.dtype.type(0), values)


def clamped(values: Array) -> Array:
    """The type's largest number in place of an infinity."""
    return np.where(np.isinf(values), np.copysign(np.finfo(values.dtype).max, values), values)


def through_half(values: Array) -> Array:
    """Rounded to half and back."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(values.dtype)


# Name, message and how float32 sums are written to the output.
WRONG_WRITES: Final = (
    ("tiny_halves_flushed", "writes 0 for subnormal halves", flushing(np.float16)),
    ("halves_truncated", "rounds to half toward 0", rounding_halves(truncated_to_half)),
    ("half_ties_up", "rounds to half away from 0 from the middle", rounding_halves(rounded_up_to_half)),
)

# Right, since a device may have no subnormal floats.
FLUSHED_WRITE: Final = ("tiny_floats_flushed", "writes 0 for subnormal floats", flushing(np.float32))

# Name, message and what becomes of values that should be copied bit by bit.
WRONG_COPIES: Final = (
    ("drops_nan", "NaN becomes 0", nan_cleared),
    ("clamps_infinity", "infinities become the largest number", clamped),
    ("flushes_denormals", "denormals become 0", flushed),
    ("through_half", "values rounded to half", through_half),
)
