"""Integers as counters and indices leave them that are too narrow; for mutants."""

from collections.abc import Callable
from typing import Final

import numpy as np

from mluops_gtest.core.tensor import Array


def wrapped(bits: int) -> Callable[[Array], Array]:
    """Integers as a signed number of that many bits keeps them."""
    half = 1 << (bits - 1)
    return lambda values: (values + half) % (1 << bits) - half


def through(dtype: type[np.floating]) -> Callable[[Array], Array]:
    """Integers rounded to that type; what it cannot hold becomes the integer next to its largest number."""

    def rounded(values: Array) -> Array:
        largest = float(np.finfo(dtype).max)
        kept = np.clip(values.astype(np.float64), -largest, largest).astype(dtype)
        return kept.astype(np.float64).astype(values.dtype)

    return rounded


# Name, what the integers are kept in, and what remains of them.
NARROW: Final = (
    ("int8", "8 bits", wrapped(8)),
    ("int16", "16 bits", wrapped(16)),
    ("half", "half, as values are", through(np.float16)),
    ("float", "float", through(np.float32)),
)
