"""Laws that make a wrong value of the right one: zero, a factor, a rounding and the like."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Final, Literal

import numpy as np
from msgspec.structs import replace

from mluops_gtest.explain.narrowing import EITHER, NARROW, narrowed, spacing
from mluops_gtest.explain.where import CHANCE
from mluops_gtest.explain.wrong_output import WrongOutput, same
from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.explanation import (
    KeptPreset,
    Law,
    LostSign,
    MisplacedZeros,
    Negated,
    NeverWritten,
    OffBy,
    OneSided,
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
from mluops_gtest.value import Value


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
        yield Fit(KeptPreset(preset), out.e == preset, lambda: np.full_like(out.baseline, preset))
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
        yield from _kept_narrow(out)
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
    yield from _told_apart(fits)


def _told_apart(fits: dict[str, Fit]) -> Iterator[Fit]:
    """half and TF32 have the same bits; where no exponent tells them apart, both are named before each of them."""
    if "half" in fits and np.array_equal(fits["half"].holds, fits["tf32"].holds):
        law = fits["half"].law
        assert isinstance(law, RoundedTo), "that is what was tried"
        yield replace(fits["half"], law=replace(law, precision=EITHER))
    yield from fits.values()


def _kept_narrow(out: WrongOutput) -> Iterator[Fit]:
    """Values that have no more bits than a narrower type, where the right ones have."""
    fits = {}
    for precision in _narrower(out):
        narrow = same(narrowed(out.e, precision).astype(np.float64), out.e) & np.isfinite(out.e) & (out.e != 0)
        wide = np.count_nonzero(narrowed(out.b, precision).astype(np.float64) != out.b)
        # A few values that occur again and again are narrow by accident.
        many = len(np.unique(out.e[:_MANY])) * 2 >= min(len(out.e), _MANY)
        sure = many and wide >= 2 * _NARROW_ENOUGH and wide * 2 >= len(out.b)
        fits[precision] = Fit(RoundedTo(precision, once=False), narrow, sure=bool(sure))
    yield from _told_apart(fits)


def _narrower(out: WrongOutput) -> tuple[str, ...]:
    """Types with fewer bits than the output's own."""
    return tuple(name for name in NARROW if out.epsilon < _unit(name))


def _unit(precision: str) -> float:
    """The unit in the last place of 1."""
    return float(spacing(np.ones(1), precision)[0])
