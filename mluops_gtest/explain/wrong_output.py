"""An output with wrong elements, and their values beside the right ones in a type to compute with."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np

from mluops_gtest.model.dtypes import Array

# Laws are tried on at most so many wrong elements, taken evenly.
MAX_TRIED: Final = 1 << 18
# Whole outputs are computed by a law up to this many elements; beyond, only wrong elements are looked at.
MAX_COMPUTED: Final = 1 << 24
# Larger outputs are not searched for values from other places.
MAX_SEARCHED: Final = 1 << 20
# At a time, so that float64 copies stay small.
_BLOCK: Final = 1 << 20
# How far a law that computes may be off by its own rounding, in units of the last place.
_ULPS: Final = 4

HeldTo = Literal["bound", "tolerance", "equality", "written"]


@dataclass(frozen=True)
class WrongOutput:
    """What the backend left and what belongs there: real numbers that numpy computes with, in the output's shape."""

    evaluated: Array
    baseline: Array
    # At least one element is.
    wrong: Array
    held_to: HeldTo
    # What arithmetic allows each element to be off by; None: not known.
    allowed: Array | None = None
    # The unit in the last place of 1 in the output's own type; 0 for integers.
    epsilon: float = 0.0
    # What the caller preset; None: poison.
    preset: int | None = None
    # Elements that a right kernel need not write; None: there are none.
    kept: Array | None = None
    # Flat indices of wrong elements that laws are tried on; None: all of them, of very many an even choice.
    chosen: Array | None = None

    @cached_property
    def places(self) -> Array:
        """Flat indices of the wrong elements that laws are tried on."""
        return tried_places(self.wrong) if self.chosen is None else self.chosen

    @cached_property
    def count(self) -> int:
        return int(np.count_nonzero(self.wrong))

    @cached_property
    def e(self) -> Array:
        """The wrong values that laws are tried on."""
        return _computable(self.evaluated.reshape(-1)[self.places])

    @cached_property
    def b(self) -> Array:
        """What belongs there."""
        return _computable(self.baseline.reshape(-1)[self.places])

    @property
    def is_float(self) -> bool:
        return self.evaluated.dtype.kind == "f"

    @property
    def is_real(self) -> bool:
        """Numbers that float64 holds, so that laws may compute."""
        return self.is_float or (self.evaluated.dtype.kind in "iu" and self.evaluated.dtype.itemsize < 8)

    def slack(self, places: Array) -> Array | float:
        """What arithmetic allows at these flat indices; nothing beside what is not finite."""
        if self.allowed is None:
            return 0.0
        allowed = self.allowed.reshape(-1)[places]
        return np.where(np.isfinite(allowed), allowed, 0.0)

    @cached_property
    def room(self) -> Array:
        """How far each of the wrong values may be from a number that a law gives for it."""
        return self._rounding(self.e) + self.slack(self.places)

    def _rounding(self, values: Array) -> Array:
        """What a few units in the last place of these values are; none beside an infinite one."""
        tiny = np.finfo(self.evaluated.dtype).tiny if self.is_float else 0.0
        rounding: Array = _ULPS * self.epsilon * np.maximum(np.abs(values), tiny)
        return np.where(np.isinf(values), 0.0, rounding)

    def near(self, predicted: Array, gain: float = 1.0, sources: Array | None = None) -> Array:
        """Which of the wrong values are what a law says, within what rounding explains, and not what is right as well.

        The law multiplies what rounding does by `gain`; or it takes values from `sources`, flat indices. Where most of
        what it says lies as near to the right values as rounding does, it explains nothing: none are.
        """
        exact = same(self.e, predicted)
        if not self.is_real:
            return exact
        rounding = self._rounding(predicted)
        room = rounding + gain * self.slack(self.places if sources is None else sources)
        # Beside NaN and infinities, of which a distance is no number, all is apart.
        off, apart = np.abs(self.e - predicted), np.abs(predicted - self.b)
        nearer = ~(np.abs(self.e - self.b) <= off) & ~(apart <= rounding)
        near: Array = exact | (np.isfinite(predicted) & (off <= room) & nearer)
        decisive = near & ~(apart <= room)
        return near if 2 * np.count_nonzero(decisive) >= np.count_nonzero(near) else np.zeros_like(near)

    def lawful(self, predicted: Array) -> int:
        """How many of all wrong elements are what a law says, which gives these values."""
        places, values = np.flatnonzero(self.wrong), predicted.reshape(-1)
        parts = (places[start : start + MAX_TRIED] for start in range(0, len(places), MAX_TRIED))
        return sum(int(replace(self, chosen=part).near(_computable(values[part])).sum()) for part in parts)

    def ulps_within(self, limit: int) -> int | None:
        """How many units in the last place elements are off by at most, right ones included; None beyond the limit."""
        scale = float(np.finfo(self.evaluated.dtype).eps) / self.epsilon  # bfloat16 is seen as float
        integers = np.dtype(f"i{self.evaluated.itemsize}")
        most = 0.0
        for start in range(0, self.wrong.size, _BLOCK):
            sides = [array.reshape(-1)[start : start + _BLOCK] for array in (self.evaluated, self.baseline)]
            differing = ~same(*sides)
            e, b = (side[differing] for side in sides)
            # Patterns ascend with magnitudes, so that those of negative numbers are turned round.
            ranks = [np.where((bits := one.view(integers)) < 0, np.iinfo(integers).min - bits, bits) for one in (e, b)]
            most = max(most, scale * float(np.abs(ranks[0] - ranks[1]).max(initial=0)))
            if most > limit or not (np.isfinite(e) & np.isfinite(b)).all():
                return None
        return math.ceil(most)

    def agreeing(self, predicted: Array) -> Array:
        """Which elements of the whole output are what a law says; right ones as near to it as to what is right."""
        agreeing = np.empty(self.wrong.size, bool)
        sides = [array.reshape(-1) for array in (self.evaluated, self.baseline, predicted)]
        wrong = self.wrong.reshape(-1)
        for start in range(0, len(agreeing), _BLOCK):
            part = slice(start, start + _BLOCK)
            e, b, p = (_computable(side[part]) for side in sides)
            if not self.is_real:
                agreeing[part] = same(e, p)
                continue
            room = self._rounding(p) + np.abs(e - b)
            if self.allowed is not None:
                room = np.maximum(room, self.allowed.reshape(-1)[part])
            agreeing[part] = same(e, p) | (~wrong[part] & np.isfinite(p) & (np.abs(p - b) <= room))
        return agreeing.reshape(self.wrong.shape)


def tried_places(wrong: Array) -> Array:
    """Flat indices of wrong elements, of very many an even choice."""
    places = np.flatnonzero(wrong)
    # An odd step meets every remainder of the powers of two that tiles and vectors have.
    return places if len(places) <= MAX_TRIED else places[:: -(-len(places) // MAX_TRIED) | 1]


def same(values: Array, others: Array) -> Array:
    """Equal, or both NaN."""
    equal: Array = values == others
    return equal if values.dtype.kind not in "fc" else equal | (np.isnan(values) & np.isnan(others))


def _computable(values: Array) -> Array:
    """float64 for what float64 holds; other types as they are."""
    kind: Any = values.dtype.kind
    return values.astype(np.float64) if kind == "f" or (kind in "iu" and values.dtype.itemsize < 8) else values
