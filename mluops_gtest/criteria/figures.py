"""What one block says: how many elements differ and where, the largest errors, the sums of diff1 and diff2."""

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from mluops_gtest.criteria.blocks import Blocks, Scratch
from mluops_gtest.criteria.elements import Elements
from mluops_gtest.criteria.sums import NO_SUMS, Sums, sums
from mluops_gtest.criteria.ulp import max_ulp
from mluops_gtest.model.dtypes import Array

# The formulas' guard against a division by zero.
EPSILON: Final = 1e-9


class Places(NamedTuple):
    """How many elements, and the first and last of them; indices count parts."""

    number: int = 0
    first: int = -1
    last: int = -1


class Errors(NamedTuple):
    """The largest errors over the finite positions, and the sums behind diff1 and diff2."""

    largest: float = 0.0  # |e−b|
    relative: float = 0.0  # |e−b|/(|b|+1e-9) where |b| is not small
    error: float = 0.0  # diff3
    worst: int = -1  # the part that has it; −1 where no finite part differs
    ulp: int = 0
    difference: Sums = NO_SUMS
    weight: Sums = NO_SUMS  # of the baseline


class Figures(NamedTuple):
    """Everything about one block."""

    bits_unequal: int = 0
    unequal: Places = Places()
    mismatched: Places = Places()  # NaN or Inf that does not meet its like
    errors: Errors = Errors()


# What a block with the same bits on both sides says; nothing more was looked at, not even its weight.
EQUAL: Final = Figures()


def figures_of(blocks: Blocks, start: int, scratch: Scratch, want_sums: bool) -> Figures:
    """The figures of the block that starts there, with the sums of diff1 and diff2 where they are wanted."""
    elements = blocks.elements
    evaluated, baseline = blocks.parts(start)
    unequal = scratch.mask[: len(baseline)]
    np.not_equal(evaluated.view(elements.bits), baseline.view(elements.bits), out=unequal)
    bits_unequal = _count(unequal, elements)
    if bits_unequal == 0:
        return EQUAL
    e, b = elements.values(evaluated), elements.values(baseline)
    _differences(e, b, elements, scratch)
    if math.isfinite(_peak(scratch.difference[: len(b)])[0]):
        # Of finite numbers only +0 and −0 differ in bits alone.
        if not elements.exact and scratch.magnitude[: len(b)].min() == 0:
            np.not_equal(e, b, out=unequal)
        errors = _errors(evaluated, baseline, elements, scratch, want_sums)
        return Figures(bits_unequal, _places(unequal, elements, start), Places(), _placed(errors, start))
    unequal = (e != b) & ~(np.isnan(e) & np.isnan(b))
    finite = np.isfinite(e) & np.isfinite(b)
    errors = Errors()
    # In a block of doubles all may be finite and a difference still overflow: its error is infinite then.
    if finite.any():
        _differences(e[finite], b[finite], elements, scratch)
        errors = _errors(evaluated[finite], baseline[finite], elements, scratch, want_sums)
        if errors.worst >= 0:
            errors = errors._replace(worst=int(np.flatnonzero(finite)[errors.worst]))
    mismatched = _places(unequal & ~finite, elements, start)
    return Figures(bits_unequal, _places(unequal, elements, start), mismatched, _placed(errors, start))


def weight_of(blocks: Blocks, start: int, scratch: Scratch) -> Sums:
    """Σ|b| and Σb² over the finite positions of a block whose two sides are equal."""
    baseline = blocks.numbers(start)[1]
    magnitude = scratch.magnitude[: len(baseline)]
    np.copyto(magnitude, baseline)
    np.abs(magnitude, out=magnitude)
    if not math.isfinite(_peak(magnitude)[0]):
        magnitude[~np.isfinite(magnitude)] = 0.0
    return sums(magnitude)


def merged(figures: Iterable[Figures]) -> Figures:
    """The figures of all blocks; sums stay per block, to be added exactly."""
    differing = [f for f in figures if f is not EQUAL]
    if len(differing) <= 1:
        return differing[0] if differing else EQUAL
    errors = [f.errors for f in differing]
    worst = max(errors, key=lambda e: e.error)
    return Figures(
        bits_unequal=sum(f.bits_unequal for f in differing),
        unequal=_joined(f.unequal for f in differing),
        mismatched=_joined(f.mismatched for f in differing),
        errors=Errors(
            largest=max(e.largest for e in errors),
            relative=max(e.relative for e in errors),
            error=worst.error,
            worst=worst.worst,
            ulp=max(e.ulp for e in errors),
        ),
    )


def _joined(places: Iterable[Places]) -> Places:
    present = [p for p in places if p.number]
    if not present:
        return Places()
    return Places(sum(p.number for p in present), present[0].first, present[-1].last)


def _placed(errors: Errors, start: int) -> Errors:
    return errors._replace(worst=start + errors.worst) if start and errors.worst >= 0 else errors


def _count(mask: Array, elements: Elements) -> int:
    """Elements of which any part is marked."""
    return int(np.count_nonzero(mask if elements.parts == 1 else mask[0::2] | mask[1::2]))


def _places(mask: Array, elements: Elements, start: int) -> Places:
    number = _count(mask, elements)
    if number == 0:
        return Places()
    return Places(number, start + int(mask.argmax()), start + len(mask) - 1 - int(mask[::-1].argmax()))


def _peak(x: Array) -> tuple[float, int]:
    """The maximum, NaN if there is one, and its first position; much cheaper than max() on short arrays."""
    at = int(x.argmax())
    return float(x[at]), at


def _differences(e: Array, b: Array, elements: Elements, scratch: Scratch) -> None:
    """|e−b| and |b| in float64 into the scratch; a difference is NaN or Inf where a number is."""
    difference, magnitude = scratch.difference[: len(b)], scratch.magnitude[: len(b)]
    np.copyto(magnitude, b)
    if elements.wide:
        # Unsigned subtraction wraps to the true distance, which may need all 64 bits.
        np.copyto(difference, np.maximum(e, b).view(np.uint64) - np.minimum(e, b).view(np.uint64))
    else:
        np.copyto(difference, e)
        np.subtract(difference, magnitude, out=difference)
        np.abs(difference, out=difference)
    np.abs(magnitude, out=magnitude)


def _errors(evaluated: Array, baseline: Array, elements: Elements, scratch: Scratch, want_sums: bool) -> Errors:
    """The errors of finite parts, of which |e−b| and |b| are in the scratch; overwrites the scratch."""
    size = len(baseline)
    difference, magnitude, quotient = scratch.difference[:size], scratch.magnitude[:size], scratch.quotient[:size]
    in_sum, weight = (sums(difference), sums(magnitude)) if want_sums else (NO_SUMS, NO_SUMS)
    largest, worst = _peak(difference)
    relative, error, ulp = 0.0, largest, 0
    if elements.small is not None:
        signed = f"i{baseline.itemsize}"
        ulp = max_ulp(evaluated.view(signed), baseline.view(signed), quotient.view(signed)[:size])
        relative, error, worst = _relative(difference, magnitude, quotient, elements.small)
    return Errors(largest, relative, error, worst if error > 0 else -1, ulp, in_sum, weight)


def _relative(difference: Array, magnitude: Array, quotient: Array, small: float) -> tuple[float, float, int]:
    """The largest |e−b|/(|b|+1e-9) where |b| is not small; diff3, which takes |e−b| where it is; and its place."""
    not_small = None
    if magnitude.min() < small:
        # Masks multiply: assigning by mask costs a mispredicted branch per element.
        not_small = magnitude >= small
        np.multiply(difference, not_small, out=quotient)
    magnitude += EPSILON
    np.divide(difference if not_small is None else quotient, magnitude, out=quotient)
    relative, at = _peak(quotient)
    if not_small is None:
        return relative, relative, at
    np.multiply(difference, ~not_small, out=difference)
    absolute, absolute_at = _peak(difference)
    # An overflowed difference is infinite at a |b| that is not small; it is NaN here and loses the comparison.
    return (relative, absolute, absolute_at) if absolute > relative else (relative, relative, at)
