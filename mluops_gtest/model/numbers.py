"""Numbers that a backend tells: looked at before they are used, and told in few letters when they cannot be."""

from typing import Any, Final

import numpy as np

from mluops_gtest.model.notes import cut_text

# Longer than anybody waits for a call.
MAX_SECONDS: Final = 1e6
_MAX_BITS: Final = 256
_MAX_LETTERS: Final = 200


def checked_seconds(what: str, value: Any, most: float = MAX_SECONDS) -> float:
    """A time as a float, or an error that says what came instead; nothing takes longer than `most`."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{what} {short(value)}; it must be a number of seconds.")
    # Compared before it is converted: an int may be too large for a float. NaN is in no order.
    if not 0 <= value <= most:
        raise ValueError(f"{what} {short(value)}; it must be a number of seconds from 0 to {most:g}.")
    return float(value)


def short(value: Any) -> str:
    """A value in few letters, however large it is."""
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return f"an int of {value.bit_length()} bits"
    return cut_text(repr(value), _MAX_LETTERS)
