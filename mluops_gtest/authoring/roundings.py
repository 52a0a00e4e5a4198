"""Numbers as arithmetic leaves them that does not round to nearest or has no subnormal numbers; for mutants."""

import numpy as np

from mluops_gtest.model.dtypes import Array


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
