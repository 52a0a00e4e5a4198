"""What one block says: how many elements differ and where, the largest errors, the sums of diff1 and diff2."""

import math
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeVar

import numpy as np

from mluops_gtest.base.files import let_go
from mluops_gtest.base.native.arrays import CELL, NativeLimits, NativePair, ShareFigures, cell_figures, native_pair
from mluops_gtest.core.tensor import Array
from mluops_gtest.judging import blocks
from mluops_gtest.judging.blocks import EPSILON, NO_SUMS, Blocks, Elements, Scratch, Sums, sums, wide_distance


def max_ulp(evaluated: Array, baseline: Array, scratch: Array, *, one_sign: bool) -> int:
    """The largest number of steps between two finite numbers given as signed bit patterns; −0 is +0.

    `scratch` has the same type and length and is overwritten; `one_sign` promises that no pair differs in sign.
    """
    apart = None if one_sign else np.bitwise_xor(evaluated, baseline, out=scratch) < 0
    # Patterns of one sign are ordered like magnitudes, and their difference cannot overflow.
    np.subtract(evaluated, baseline, out=scratch)
    across = 0
    if apart is not None and apart.any():
        scratch[apart] = 0
        across = _across_zero(evaluated[apart], baseline[apart])
    return max(across, int(scratch[scratch.argmax()]), -int(scratch[scratch.argmin()]))


def _across_zero(evaluated: Array, baseline: Array) -> int:
    """The steps down to zero and up again; unsigned, because their sum may pass the sign bit."""
    magnitude = evaluated.dtype.type(np.iinfo(evaluated.dtype).max)
    unsigned = f"u{evaluated.itemsize}"
    return int(((evaluated & magnitude).view(unsigned) + (baseline & magnitude).view(unsigned)).max())


# Parts at the end of a block that are searched first for the last one that differs.
_NEAR: Final = 1024


class Occurrences(NamedTuple):
    """How many elements, and the first and last of them; indices count parts."""

    number: int = 0
    first: int = -1
    last: int = -1


class Errors(NamedTuple):
    """The largest errors over the finite positions, and the sums behind diff1 and diff2."""

    largest: float = 0.0  # |e−b|
    relative: float = 0.0  # |e−b|/(|b|+1e-9) where |b| is not small
    error: float = 0.0  # diff3
    worst: int = -1  # the first part that has it; −1 where no finite part differs
    ulp: int = 0
    difference: Sums = NO_SUMS
    weight: Sums = NO_SUMS  # of the baseline


class ElementErrors(NamedTuple):
    """How many elements are beyond what arithmetic allows, and the one that is furthest; −1 where there is none."""

    beyond: int = 0
    first: int = -1
    last: int = -1
    worst: int = -1
    # The largest |e−b| over what is allowed there, infinite where nothing is; and what is allowed there.
    ratio: float = 0.0
    allowed: float = 0.0
    # Elements that are beyond what was declared and within what half arithmetic allows, to which the rest is held then.
    as_half: int = 0


NOWHERE: Final = Occurrences()
WITHIN: Final = ElementErrors()
NO_ERRORS: Final = Errors()


class BlockStats(NamedTuple):
    """Everything about one block."""

    bits_unequal: int = 0
    unequal: Occurrences = NOWHERE
    mismatched: Occurrences = NOWHERE  # NaN or Inf that does not meet its like
    errors: Errors = NO_ERRORS
    elements: ElementErrors = WITHIN  # where a bound was given


class _Spread(NamedTuple):
    """What is known of the differences before the errors."""

    largest: float  # |e−b|, NaN or Inf if any number is
    worst: int  # where it is
    lowest: float  # |b|


# What a block with the same bits on both sides says; nothing more was looked at, not even its weight.
EQUAL: Final = BlockStats()


def timing_stats(blocks: Blocks, start: int, scratch: Scratch, want_sums: bool) -> BlockStats:
    """The figures of the block that starts there, with the sums of diff1 and diff2 where they are wanted."""
    elements = blocks.elements
    patterns = blocks.patterns(start)
    unequal = np.not_equal(*patterns, out=scratch.mask)
    bits_unequal = _count(unequal, elements)
    if bits_unequal == 0:
        return EQUAL
    e, b = blocks.numbers(start)
    spread = _differences(e, b, elements, scratch)
    if math.isfinite(spread.largest):
        number = bits_unequal
        # Of finite numbers only +0 and −0 differ in bits alone.
        if spread.lowest == 0 and not elements.exact:
            number = _count(np.not_equal(e, b, out=unequal), elements)
        errors = _errors(patterns, elements, scratch, spread, want_sums)
        return BlockStats(bits_unequal, _places(unequal, number, start), NOWHERE, _placed(errors, start))
    unequal = (e != b) & ~(np.isnan(e) & np.isnan(b))
    # In a block of doubles all may be finite and a difference still overflow: its error is infinite then.
    finite = np.isfinite(e) & np.isfinite(b)
    e, b = (np.where(finite, side, side.dtype.type(0)) for side in (e, b))
    spread = _differences(e, b, elements, scratch)
    evaluated, baseline = (np.where(finite, bits, bits.dtype.type(0)) for bits in patterns)
    errors = _errors((evaluated, baseline), elements, scratch, spread, want_sums)
    mismatched = unequal & ~finite
    return BlockStats(
        bits_unequal,
        _places(unequal, _count(unequal, elements), start),
        _places(mismatched, _count(mismatched, elements), start),
        _placed(errors, start),
    )


def weight_of(blocks: Blocks, start: int, scratch: Scratch) -> Sums:
    """Σ|b| and Σb² over the finite parts of the baseline of a block."""
    magnitude = scratch.magnitude
    np.copyto(magnitude, blocks.numbers(start)[1])
    np.abs(magnitude, out=magnitude)
    if not math.isfinite(_peak(magnitude)[0]):
        magnitude[~np.isfinite(magnitude)] = 0.0
    return sums(scratch.rows[1:], 1)[0]


def merged(figures: Iterable[BlockStats]) -> BlockStats:
    """The figures of all blocks; sums stay per block, to be added exactly."""
    differing = [f for f in figures if f is not EQUAL]
    if len(differing) <= 1:
        return differing[0] if differing else EQUAL
    errors = [f.errors for f in differing]
    worst = max(errors, key=lambda e: e.error)
    held = [f.elements for f in differing]
    number, first, last = _joined(Occurrences(one.beyond, one.first, one.last) for one in held)
    return BlockStats(
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
        elements=max(held, key=lambda one: one.ratio)._replace(beyond=number, first=first, last=last),
    )


def _joined(places: Iterable[Occurrences]) -> Occurrences:
    present = [p for p in places if p.number]
    if not present:
        return NOWHERE
    return Occurrences(sum(p.number for p in present), present[0].first, present[-1].last)


def _placed(errors: Errors, start: int) -> Errors:
    return errors._replace(worst=start + errors.worst) if start and errors.worst >= 0 else errors


def _count(mask: Array, elements: Elements) -> int:
    """Elements of which any part is marked."""
    return int(np.count_nonzero(mask if elements.parts == 1 else mask[0::2] | mask[1::2]))


def _places(mask: Array, number: int, start: int) -> Occurrences:
    if number == 0:
        return NOWHERE
    # The last one by way of bytes: numpy would first turn the mask around. Mostly it is near the end.
    behind = max(0, len(mask) - _NEAR)
    last = mask[behind:].tobytes().rfind(1)
    last = behind + last if last >= 0 else mask.tobytes().rfind(1)
    return Occurrences(number, start + int(mask.argmax()), start + last)


def _peak(x: Array) -> tuple[float, int]:
    """The maximum, NaN if there is one, and its first position; cheaper than max()."""
    at = int(x.argmax())
    return float(x[at]), at


def _differences(e: Array, b: Array, elements: Elements, scratch: Scratch) -> _Spread:
    """|e−b| and |b| in float64 into the scratch; a difference is NaN or Inf where a number is."""
    difference, magnitude = scratch.difference, scratch.magnitude
    np.copyto(magnitude, b)
    if elements.wide:
        np.copyto(difference, wide_distance(e, b))
    else:
        np.copyto(difference, e)
        np.subtract(difference, magnitude, out=difference)
    np.abs(scratch.both, out=scratch.both)
    return _Spread(*_peak(difference), float(magnitude[magnitude.argmin()]))


def _errors(
    patterns: tuple[Array, Array], elements: Elements, scratch: Scratch, spread: _Spread, want_sums: bool
) -> Errors:
    """The errors of finite parts, of which |e−b| and |b| are in the scratch; overwrites the scratch."""
    difference, weight = sums(scratch.rows, 2) if want_sums else (NO_SUMS, NO_SUMS)
    largest, worst, lowest = spread
    if elements.small is None:
        return Errors(largest, 0.0, largest, worst, 0, difference, weight)
    relative, error, worst = _relative(scratch, elements.small, lowest)
    # Opposite signs mean an error of at least |b|.
    one_sign = lowest >= elements.small and relative < 0.5
    evaluated, baseline = patterns
    ulp = max_ulp(evaluated, baseline, scratch.difference.view(elements.pattern)[: len(baseline)], one_sign=one_sign)
    return Errors(largest, relative, error, worst if error > 0 else -1, ulp, difference, weight)


def _relative(scratch: Scratch, small: float, lowest: float) -> tuple[float, float, int]:
    """The largest |e−b|/(|b|+1e-9) where |b| is not small; diff3, which takes |e−b| where it is; and its place."""
    difference, magnitude = scratch.difference, scratch.magnitude
    not_small = None
    relevant = difference
    if lowest < small:
        # Masks multiply: assigning by mask costs a mispredicted branch per element.
        not_small = magnitude >= small
        relevant = np.multiply(difference, not_small, out=scratch.spare)
    np.add(magnitude, EPSILON, out=magnitude)
    relative, at = _peak(np.divide(relevant, magnitude, out=magnitude))
    if not_small is None:
        return relative, relative, at
    absolute, absolute_at = _peak(np.multiply(difference, ~not_small, out=difference))
    if absolute == relative:
        return relative, relative, min(at, absolute_at)
    # An overflowed difference is infinite at a |b| that is not small; it is NaN here and loses the comparison.
    return (relative, absolute, absolute_at) if absolute > relative else (relative, relative, at)


# Cells that are looked through at once for a first difference.
_SCANNED: Final = 64

_T = TypeVar("_T")


class NativePass:
    """Two arrays that the C library compares."""

    def __init__(self, arrays: NativePair, baseline: Array) -> None:
        self._arrays = arrays
        self._baseline = baseline
        self._limits: NativeLimits | None = None

    @staticmethod
    def over(evaluated: Array, baseline: Array, elements: Elements) -> "NativePass | None":
        """None where there is no library."""
        arrays = native_pair(evaluated, baseline, elements.native, parts=elements.parts, small=elements.small)
        return None if arrays is None else NativePass(arrays, baseline)

    def differs(self) -> bool:
        """Some bit does."""
        for first in range(0, self._arrays.cells, _SCANNED):
            cells = min(_SCANNED, self._arrays.cells - first)
            if self._arrays.differs(first, cells):
                return True
            self._let_go(first, cells)
        return False

    def hold_to(self, limits: NativeLimits) -> None:
        """Let `stats` say, too, which elements are beyond these."""
        self._arrays.hold_to(limits)
        self._limits = limits

    def stats(self) -> BlockStats:
        """The figures of the whole."""
        found = self._each(self._figures)
        return _stats(found[0]) if len(found) == 1 else merged(map(_stats, found))

    def sums(self) -> tuple[Sums, Sums]:
        """Of the differences and of the baseline, after `stats`."""
        if self._arrays.has_equal_cells:
            self._each(self._arrays.weigh)
        difference, difference_squared, weight, weight_squared = self._arrays.sums()
        return (difference, difference_squared), (weight, weight_squared)

    def weights(self) -> tuple[Sums, int]:
        """Σ|b| and Σb² over the finite parts of the baseline, and how many they are."""
        finite = sum(self._each(lambda first, cells: self._arrays.weigh(first, cells, all_cells=True)))
        _, _, weight, weight_squared = self._arrays.sums()
        return (weight, weight_squared), finite

    def beyond(self, threshold: float, scale: float) -> int:
        """Elements with |e−b| > threshold · max(|b|, scale)."""
        return sum(self._each(lambda first, cells: self._arrays.beyond(first, cells, threshold, scale)))

    def _figures(self, first: int, cells: int) -> ShareFigures:
        figures = self._arrays.figures(first, cells)
        self._let_go(first, cells)
        return figures

    def _let_go(self, first: int, cells: int) -> None:
        """Of a mapped file no more is kept in memory than is being read: a share of many goes when it was."""
        if cells == self._arrays.cells:
            return
        parts = self._baseline.reshape(-1).view(np.uint8).reshape(self._arrays.count, -1)
        let_go(parts[first * CELL : (first + cells) * CELL])
        if self._limits is not None:
            magnitude, repeat = self._limits.arrays[0]
            let_go(magnitude[first * CELL // repeat : (first + cells) * CELL // repeat])

    def _each(self, work: Callable[[int, int], _T]) -> list[_T]:
        """`work` on shares of the cells, in order."""
        cells = self._arrays.cells
        if self._arrays.count < blocks.SHARED_FROM:
            return [work(0, cells)] if cells else []
        return blocks.in_shares(lambda share: work(share.start, len(share)), range(cells))


def small_stats(evaluated: Array, baseline: Array, elements: Elements) -> tuple[BlockStats, Sums, Sums] | None:
    """The figures of a few parts of which some differ, and their sums; None where there is no library."""
    found = cell_figures(evaluated, baseline, elements.native, parts=elements.parts, small=elements.small)
    if found is None:
        return None
    figures, (difference, difference_squared, weight, weight_squared) = found
    return _stats(figures), ([difference], [difference_squared]), ([weight], [weight_squared])


def _stats(figures: ShareFigures) -> BlockStats:
    bits_unequal, mismatches, furthest = figures[0], figures[4], figures[15]
    if not bits_unequal:
        return EQUAL
    return BlockStats(
        bits_unequal,
        Occurrences(*figures[1:4]),
        Occurrences(*figures[4:7]) if mismatches else NOWHERE,
        Errors(*figures[7:12]),
        ElementErrors(*figures[12:]) if furthest >= 0 else WITHIN,
    )
