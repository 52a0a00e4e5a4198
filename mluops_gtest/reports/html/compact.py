"""Values in few characters: the page of 2000 results must stay small enough to attach to a change."""

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from mluops_gtest.model.result import Profile, Reading

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
ABSENT = "."
NON_FINITE = "!"


class Pool:
    """Distinct values, each kept once; rows name them by number."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    @property
    def values(self) -> list[Any]:
        """The values in the order of their numbers."""
        return list(self._numbers)

    def number(self, value: Hashable) -> int:
        """The number under which the page finds this value, a text or a tuple."""
        return self._numbers.setdefault(value, len(self._numbers))


def digit(number: int) -> str:
    """A number below 36 as one character."""
    return _DIGITS[number]


def number(value: float, digits: int = 4) -> float | int | str:
    """The value as a reader needs it: few digits, and words where JSON has no number."""
    if not math.isfinite(value):
        return str(value)
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded


def largest_ratio(readings: Iterable[Reading]) -> float | int | str | None:
    """The largest reading as a multiple of its threshold, of which 0 allows only 0; None where nothing was read."""
    ratios = [_ratio(reading.value, reading.threshold) for reading in readings]
    return number(max(ratios)) if ratios else None


def _ratio(value: float, threshold: float) -> float:
    if not math.isfinite(value):
        return math.inf
    if threshold > 0:
        return value / threshold
    return math.inf if value > 0 else 0.0


def shortened(text: str, most: int) -> str:
    """The end of a long text: what a program says last tells why it stopped."""
    return text if len(text) <= most else "… " + text[-most:]


def kept(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without what is absent or empty."""
    return {key: value for key, value in record.items() if value not in (None, "", [])}


def error_class(error: float, bins: int) -> str:
    """A relative error as one character: absent where equal, else the bin of the profile's histogram it falls into."""
    if not math.isfinite(error):
        return NON_FINITE
    if error <= 0.0:
        return ABSENT
    # frexp: error = m · 2^e with 0.5 ≤ m < 1, so the binary exponent is e − 1; bin i starts at 2^(i−30).
    return digit(min(max(math.frexp(error)[1] + 29, 0), bins - 1))


def profile_record(profile: Profile) -> dict[str, Any]:
    """A profile with its map as one character per cell, in the classes of its histogram."""
    bins = len(profile.histogram)
    # Most cells have one of a few values.
    signs = {cell: error_class(cell, bins) for cell in set(profile.cells)}
    record = {
        "output": profile.output,
        "bins": list(profile.histogram),
        "rows": profile.rows,
        "columns": profile.columns,
        "cells": "".join(map(signs.__getitem__, profile.cells)),
    }
    return {**record, "width": profile.width} if profile.width else record
