"""Values rounded to narrower types: half, bfloat16, and the ten bits of TF32.

An output with wrong elements, and their values beside the right ones in a type to compute with.

Laws that make a wrong value of the right one: zero, a factor, a rounding and the like.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Final, Literal

import numpy as np
from msgspec.structs import replace

from mluops_gtest.base.frozen import Value
from mluops_gtest.core.explanation import (
    Law,
    LostSign,
    MisplacedZeros,
    Negated,
    NeverWritten,
    OffBy,
    OneSided,
    PresetUnchanged,
    RoundedTo,
    SaturatedAt,
    ScaledBy,
    TurnedConstant,
    TurnedInfinite,
    TurnedNan,
    TurnedZero,
    WithinUlp,
    WrappedTo,
)
from mluops_gtest.core.tensor import Array
from mluops_gtest.judging.where import CHANCE

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
        if self.chosen is not None:
            return self.chosen
        places = np.flatnonzero(self.wrong)
        # An odd step meets every remainder of the powers of two that tiles and vectors have.
        return places if len(places) <= MAX_TRIED else places[:: -(-len(places) // MAX_TRIED) | 1]

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

    @cached_property
    def right_values(self) -> tuple[Array, Array]:
        """The values that belong in the output, sorted, and which share of it each has."""
        values, counts = np.unique(self.baseline, return_counts=True)
        return values, counts / self.baseline.size

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
    def allowance(self) -> Array:
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
        return sum(int(dataclasses.replace(self, chosen=part).near(_computable(values[part])).sum()) for part in parts)

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


def same(values: Array, others: Array) -> Array:
    """Equal, or both NaN."""
    equal: Array = values == others
    return equal if values.dtype.kind not in "fc" else equal | (np.isnan(values) & np.isnan(others))


def _computable(values: Array) -> Array:
    """float64 for what float64 holds; other types as they are."""
    kind: Any = values.dtype.kind
    return values.astype(np.float64) if kind == "f" or (kind in "iu" and values.dtype.itemsize < 8) else values


class Fit(Value):
    """Of which wrong elements a law holds, in the order of `places`."""

    law: Law
    holds: Array
    # The whole output by the law; None where it speaks of wrong elements alone.
    predicted: Callable[[], Array] | None = None
    # Chance does not explain that it holds.
    sure: bool = True
    # It explains the right elements as well: what it gives is the whole output.
    whole: bool = False


# A number that is read off the values needs others to confirm it.
_CONFIRMED: Final = 3
# So many errors on one side are no accident: 1 in 512.
_ONE_SIDED: Final = 10
# Bits of a narrower type are no accident in so many values.
_NARROW_ENOUGH: Final = 3
_MANY: Final = 64
# Together as many bits of them are.
_ENOUGH_BITS: Final = 24
# What two right orders of a few operations differ by. Four are told as rounding to bfloat16, where halves are.
_FEW_ULPS: Final = 3
_WRAPPED: Final = ((8, True), (8, False), (16, True), (16, False))
_FEW_DECIMALS: Final = 3
_DECIMALS: Final = 7
_DENOMINATORS: Final = 64


def rounding(out: WrongOutput) -> list[Fit]:
    """That all is within a few units in the last place, the least number first; nothing where something is not."""
    if not out.epsilon or out.held_to == "written":
        return []
    most = out.ulps_within(_FEW_ULPS)
    # What is within fewer is within more as well, which other cases of one cause may need.
    ulps = range(most, _FEW_ULPS + 1) if most else ()
    return [Fit(WithinUlp(ulp), np.ones(len(out.places), bool), whole=True) for ulp in ulps]


def value_laws(out: WrongOutput) -> Iterator[Fit]:
    """Every law that may hold, the most telling first; it is for the caller to see of how many elements it does."""
    if out.held_to == "written":
        yield Fit(NeverWritten(), np.ones(len(out.places), bool))
        return
    if out.preset is not None:
        preset = out.preset
        yield Fit(PresetUnchanged(preset), out.e == preset, lambda: np.full_like(out.baseline, preset))
    if out.evaluated.dtype.kind in "fc":
        yield Fit(TurnedNan(), np.isnan(out.e) & ~np.isnan(out.b), lambda: np.full_like(out.baseline, np.nan))
        yield Fit(TurnedInfinite(), np.isinf(out.e) & np.isfinite(out.b))
    yield Fit(TurnedZero(), out.e == 0, lambda: np.zeros_like(out.baseline))
    if not out.is_real:
        return
    yield from _constant(out)
    if not out.is_float:
        confirmed = len(out.e) >= _CONFIRMED
        yield from (_elementwise(out, WrappedTo(*how), _wrapping(*how), sure=confirmed) for how in _WRAPPED)
    for law, made in ((Negated(), np.negative), (LostSign(), np.abs)):
        yield _elementwise(out, law, made)
    yield from _scaled(out)
    yield from _off(out)
    if out.is_float:
        for truncated in (False, True):
            yield from _rounded(out, truncated=truncated)


def last_resorts(out: WrongOutput) -> Iterator[Fit]:
    """Laws that say something where no other holds."""
    if not out.is_real:
        return
    e, b = out.e, out.b
    if out.is_float:
        yield from _narrow_values(out)
        sure = float(np.mean(out.baseline == 0)) ** len(e) < CHANCE
        yield Fit(MisplacedZeros(), (e == 0) | (b == 0), sure=sure)
    sides: dict[Literal["nearer to zero", "further from zero", "smaller", "larger"], Array] = {}
    if (b > 0).any() and (b < 0).any():
        sides = {"nearer to zero": np.abs(e) < np.abs(b), "further from zero": np.abs(e) > np.abs(b)}
    for side, holds in (sides | {"smaller": e < b, "larger": e > b}).items():
        # Of most it is an accident.
        one_sided = holds & np.isfinite(e) & np.isfinite(b)
        yield Fit(OneSided(side), one_sided, sure=len(e) >= _ONE_SIDED and bool(one_sided.all()))


def _elementwise(
    out: WrongOutput, law: Law, made: Callable[[Array], Array], *, sure: bool = True, gain: float = 1.0
) -> Fit:
    """The law that an element is what `made` makes of the right one."""

    def predicted() -> Array:
        return made(out.baseline.astype(np.float64))

    return Fit(law, out.near(made(out.b), gain), predicted, sure)


def _constant(out: WrongOutput) -> Iterator[Fit]:
    value = out.e[0]
    if np.isnan(value):
        return
    yield from _saturated(out, abs(value))
    sure = len(out.e) >= _CONFIRMED and len(np.unique(out.b[:64])) > 1
    yield Fit(TurnedConstant(_text(out, value)), out.e == value, lambda: np.full_like(out.baseline, value), sure)


def _saturated(out: WrongOutput, limit: float) -> Iterator[Fit]:
    """Magnitudes beyond a limit are cut off there; where others are not, it takes more of them to believe it."""
    if limit == 0 or not (np.abs(out.b) > limit).all():
        return
    others = bool((np.abs(out.baseline[~out.wrong]) > limit).any())
    holds = out.e == np.copysign(limit, out.b)
    largest = out.is_float and limit == np.finfo(out.evaluated.dtype).max
    yield Fit(
        SaturatedAt(_text(out, limit)),
        holds,
        lambda: np.clip(out.baseline.astype(np.float64), -limit, limit),
        bool(largest) or len(holds) >= (_ONE_SIDED if others else _CONFIRMED),
    )


def _text(out: WrongOutput, value: float) -> str:
    return str(out.evaluated.dtype.type(value))


def _scaled(out: WrongOutput) -> Iterator[Fit]:
    finite = np.isfinite(out.e) & np.isfinite(out.b) & (out.b != 0)
    if not finite.any():
        return
    # The largest magnitudes tell the factor best; a middle one is not misled by a few others.
    e, b = out.e[finite], out.b[finite]
    chosen = np.argsort(-np.abs(b), kind="stable")[:63]
    factor = float(np.median(e[chosen] / b[chosen]))
    if not math.isfinite(factor) or factor in (0.0, 1.0, -1.0):
        return
    sure = len(out.e) >= _CONFIRMED and len(np.unique(np.abs(b))) > 1
    plain = _plain(factor, lambda one: out.near(out.b * one, abs(one)))
    yield _elementwise(out, ScaledBy(plain), lambda values: values * plain, sure=sure, gain=abs(plain))


def _off(out: WrongOutput) -> Iterator[Fit]:
    finite = np.isfinite(out.e) & np.isfinite(out.b)
    if not finite.any():
        return
    amount = float(np.median((out.e - out.b)[finite]))
    if not math.isfinite(amount) or amount == 0.0:
        return
    # Integers are told apart by less: an index that is one too large is no other constant.
    sure = len(out.e) >= _CONFIRMED and (not out.is_float or len(np.unique(out.b[finite])) > 1)
    plain = _plain(amount, lambda one: out.near(out.b + one))
    yield _elementwise(out, OffBy(plain), lambda values: values + plain, sure=sure)


def _plain(number: float, near: Callable[[float], Array]) -> float:
    """The number in a few digits, as a small fraction, or in more digits: the first that holds of as many elements."""
    most = max(1, int(np.count_nonzero(near(number))))
    digits = [float(f"{number:.{places}g}") for places in range(1, _DECIMALS + 1)]
    fraction = float(Fraction(number).limit_denominator(_DENOMINATORS))
    tried = (*digits[:_FEW_DECIMALS], fraction, *digits[_FEW_DECIMALS:])
    return next((one for one in tried if one and np.count_nonzero(near(one)) >= most), number)


def _wrapping(bits: int, signed: bool) -> Callable[[Array], Array]:
    base = 2.0 ** (bits - 1) if signed else 0.0
    return lambda values: np.mod(values + base, 2.0**bits) - base


def _rounded(out: WrongOutput, *, truncated: bool) -> Iterator[Fit]:
    fits = {}
    slack = out.slack(out.places)
    for precision in _narrower(out):
        rounded = narrowed(out.b, precision, truncated=truncated).astype(np.float64)
        # A neighbour will do where what is rounded was summed in another order.
        room = slack + spacing(out.b, precision) * (1 if truncated else 0.5)
        beside = same(narrowed(out.e, precision).astype(np.float64), out.e) & (np.abs(out.e - out.b) <= room)
        if truncated:
            beside &= np.abs(out.e) <= np.abs(out.b) + slack
        holds = (same(out.e, rounded) | beside) & (rounded != out.b)
        bits = len(out.e) * math.log2(_unit(precision) / out.epsilon)
        sure = len(out.e) >= _NARROW_ENOUGH and bits >= _ENOUGH_BITS
        law = RoundedTo(precision, is_truncated=truncated)
        fits[precision] = Fit(law, holds, partial(narrowed, out.baseline, precision, truncated=truncated), sure)
    yield from _with_joint_precision(fits)


def _with_joint_precision(fits: dict[str, Fit]) -> Iterator[Fit]:
    """half and TF32 have the same bits; where no exponent tells them apart, both are named before each of them."""
    if "half" in fits and np.array_equal(fits["half"].holds, fits["tf32"].holds):
        law = fits["half"].law
        assert isinstance(law, RoundedTo), "that is what was tried"
        yield replace(fits["half"], law=replace(law, precision=EITHER))
    yield from fits.values()


def _narrow_values(out: WrongOutput) -> Iterator[Fit]:
    """Values that have no more bits than a narrower type, where the right ones have."""
    fits = {}
    for precision in _narrower(out):
        narrow = same(narrowed(out.e, precision).astype(np.float64), out.e) & np.isfinite(out.e) & (out.e != 0)
        wide = np.count_nonzero(narrowed(out.b, precision).astype(np.float64) != out.b)
        # A few values that occur again and again are narrow by accident.
        many = len(np.unique(out.e[:_MANY])) * 2 >= min(len(out.e), _MANY)
        sure = many and wide >= 2 * _NARROW_ENOUGH and wide * 2 >= len(out.b)
        fits[precision] = Fit(RoundedTo(precision, once=False), narrow, sure=bool(sure))
    yield from _with_joint_precision(fits)


def _narrower(out: WrongOutput) -> tuple[str, ...]:
    """Types with fewer bits than the output's own."""
    return tuple(name for name in NARROW if out.epsilon < _unit(name))


def _unit(precision: str) -> float:
    """The unit in the last place of 1."""
    return float(spacing(np.ones(1), precision)[0])
