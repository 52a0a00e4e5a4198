"""The simplest set that holds all wrong elements, and of the right ones only those that are right by accident.

Sets are products of sets along axes (some of which may be taken together as one), all but such a product, or what has
a right value of some kind.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.base.frozen import Value
from mluops_gtest.core.explanation import MAX_LISTED, AxisSet, Fitted, LineKind, Where
from mluops_gtest.core.readings import MULTIPLES
from mluops_gtest.core.tensor import Array

# How improbable it must be that chance puts all wrong elements into a part of an output, before the part is told.
CHANCE: Final = 1e-4
# Two indices always have one distance, three seldom by chance.
_MIN_REPEATED = 3
# Masks of which the sets are kept.
_SHORT: Final = 1 << 12


def everything(length: int) -> AxisSet:
    """The whole axis."""
    return AxisSet(length, 0, length)


def axis_set(found: Array) -> AxisSet:
    """The set of a mask along an axis, of which at least one index is in it."""
    return _known_set(found.tobytes()) if len(found) <= _SHORT else _axis_set(found)


@lru_cache(maxsize=1 << 10)
def _known_set(mask: bytes) -> AxisSet:
    """Every law of an output asks for the same masks."""
    return _axis_set(np.frombuffer(mask, bool))


def _axis_set(found: Array) -> AxisSet:
    length, indices = len(found), np.flatnonzero(found)
    first, last = int(indices[0]), int(indices[-1])
    if last - first + 1 == len(indices):
        return AxisSet(length, first, last + 1)
    breaks = np.flatnonzero(np.diff(indices) > 1)
    starts = indices[np.concatenate(([0], breaks + 1))]
    widths = indices[np.concatenate((breaks, [len(indices) - 1]))] - starts + 1
    steps = np.diff(starts)
    # The last block may be cut off by the end of the axis.
    whole = widths[:-1] if last == length - 1 else widths
    are_alike = bool((whole == whole[0]).all()) and widths[-1] <= whole[0]
    if len(starts) >= _MIN_REPEATED and (steps == steps[0]).all() and are_alike:
        return AxisSet(length, first, last + 1, int(steps[0]), int(whole[0]))
    if len(indices) <= MAX_LISTED:
        return AxisSet(length, first, last + 1, listed=tuple(indices.tolist()))
    return _loose_set(length, indices)


def _loose_set(length: int, indices: Array) -> AxisSet:
    """From the first to the last, or of that the blocks of some period that chance would not have kept to."""
    first, last = int(indices[0]), int(indices[-1])
    best = AxisSet(length, first, last + 1, loose=True)
    for period in sorted({int(np.gcd.reduce(np.diff(indices))), *MULTIPLES} - {1}):
        inside = indices % period
        low, width = int(inside.min()), int(np.ptp(inside)) + 1
        start, stop = (one - one % period + low for one in (first, last))
        chance = len(MULTIPLES) * len(indices) * (width / period) ** (len(indices) - 1)
        blocks = AxisSet(length, start, min(stop + width, length), period, width, loose=True)
        # The last block begins behind the one after the first.
        if chance < CHANCE and stop - start >= (_MIN_REPEATED - 1) * period and 2 * blocks.count <= best.count:
            best = blocks
    return best


def indices_of(chosen: AxisSet) -> Array:
    """The indices of the set, of a loose one all that it may have."""
    if chosen.listed:
        return np.array(chosen.listed)
    every: Array = np.arange(chosen.start, chosen.stop)
    return every if chosen.step == 1 else every[(every - chosen.start) % chosen.step < chosen.width]


def selector(chosen: AxisSet) -> slice | Array:
    """What picks these indices from an array: a slice where one does, since it copies nothing."""
    if chosen.listed or chosen.width > 1:
        return indices_of(chosen)
    return slice(chosen.start, chosen.stop, chosen.step)


# From so many elements on axes are taken as they are, or all together.
_LARGE: Final = 1 << 22
# What is not a plain interval must save so many bits against a list of the wrong elements: else it is an accident.
_BITS: Final = 10.0
# An exception of fewer elements than this share of the output is an accident, too.
_EXCEPTION: Final = 0.05
_MAX_OTHERS: Final = 4
# What every n-th, or blocks of them, are told by.
_NUMBERS_OF_STEPS: Final = 4
# The share of the elements of lines that are almost all wrong.
_MOST: Final = 0.9
# Further from what a reader takes in at once than a plain interval.
_COST_OF_STEP: Final = 1.0
_COST_OF_BLOCKS: Final = 2.0
_COST_OF_INDEX: Final = 0.5
_COST_OF_SPANS: Final = 1.5
_COST_OF_FLAT: Final = 0.4
_COST_OF_OUTSIDE: Final = 1.0
_COST_OF_VALUE: Final = 1.2


class _Candidate(Value):
    where: Where
    cost: float
    inside: int


def where_wrong(wrong: Array, allowed: Array, classes: dict[str, Array] | None = None) -> Fitted:
    """The simplest set, as yet without a law; `allowed` has the wrong elements and those that the law leaves right.

    `classes` are sets by the right value. Where nothing fits exactly: a part of the output that surely holds all wrong
    elements, or nothing.
    """
    count = int(np.count_nonzero(wrong))
    all_of_it = _Candidate(Where(tuple(map(everything, wrong.shape))), 0.0, wrong.size)
    sets = [all_of_it] if allowed.all() else [*_products(wrong, allowed), *_outside(wrong, allowed)]
    candidates = [*sets, *_valued(wrong, allowed, classes or {})]
    if candidates:
        best, *others = sorted(candidates, key=lambda candidate: candidate.cost)
        also = [other.where for other in others if not other.where.is_all]
        return Fitted(None, best.where, best.inside, best.inside - count, tuple(also)[:_MAX_OTHERS])
    parts = _parts(wrong, count, classes or {}) if count > 1 else iter(())
    return next(parts, Fitted(None, Where()))


def hull_of(wrong: Array) -> tuple[AxisSet, ...]:
    """Along each axis the indices that wrong elements have."""
    return tuple(map(axis_set, _met(wrong)))


def lines_of(wrong: Array) -> tuple[LineKind | None, ...]:
    """Along each axis how wrong elements lie on its lines; none where nothing is told of any axis."""
    kinds = tuple(_line_kind(wrong, axis) for axis in range(wrong.ndim))
    return kinds if any(kinds) else ()


def _line_kind(wrong: Array, axis: int) -> LineKind | None:
    met = wrong.any(axis)
    if np.array_equal(met, wrong.all(axis)):
        return "whole"
    if np.array_equal(np.logical_or.accumulate(wrong, axis), wrong):
        return "tail"
    return "most" if np.count_nonzero(wrong) >= _MOST * np.count_nonzero(met) * wrong.shape[axis] else None


def _met(wrong: Array) -> Iterator[Array]:
    """Along each axis the mask of these indices; what one axis no longer needs is folded before the next."""
    while wrong.ndim:
        yield np.any(wrong, axis=tuple(range(1, wrong.ndim)))
        wrong = np.any(wrong, axis=0)


def _products(wrong: Array, allowed: Array) -> Iterator[_Candidate]:
    count = int(np.count_nonzero(wrong))
    for spans in _ways_to_span(wrong.shape):
        shape = _spanned(wrong.shape, spans)
        hull, natural = hull_of(wrong.reshape(shape)), len(spans) == wrong.ndim
        for sets in _widened(hull, allowed.reshape(shape)):
            if _is_evident(sets, wrong.size, count) and (natural or all(map(_is_open, sets))):
                most = _extended(sets, allowed.reshape(shape))
                where = Where(sets, () if natural else spans, () if natural else hull, () if most == sets else most)
                yield _Candidate(where, _cost(sets) + _cost_of_spans(spans, wrong.ndim), _size(sets))


def _is_open(one: AxisSet) -> bool:
    """Up to an end of the axis, or repeated: what a loop over several axes at once may leave."""
    return not one.listed and one.width == 1 and (one.step > 1 or one.start == 0 or one.stop == one.length)


def _outside(wrong: Array, allowed: Array) -> Iterator[_Candidate]:
    """All but a product of sets, such as the border of an image."""
    if wrong.ndim < 2:
        return
    hull = hull_of(~allowed)
    # Along one axis alone it is an interval, or two.
    if sum(not one.is_all for one in hull) < 2:
        return
    sets, *_ = _widened(hull, ~wrong) or [()]
    if sum(not one.is_all for one in sets) < 2:
        return
    if all(one.is_interval for one in sets) and _size(sets) >= _EXCEPTION * wrong.size:
        cost = _cost(sets) + _COST_OF_OUTSIDE
        yield _Candidate(Where(sets, outside=True), cost, wrong.size - _size(sets))


def _valued(wrong: Array, allowed: Array, classes: dict[str, Array]) -> Iterator[_Candidate]:
    for value, members in classes.items():
        inside = int(np.count_nonzero(members))
        if inside and not (wrong & ~members).any() and not (members & ~allowed).any():
            yield _Candidate(Where(value=value), _COST_OF_VALUE, inside)  # type: ignore[arg-type]


def _ways_to_span(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Each axis by itself, all together, and where there are few elements every stretch of neighbours together."""
    axes = len(shape)
    yield (1,) * axes
    if axes > 1:
        yield (axes,)
    if axes < 3 or math.prod(shape) > _LARGE:
        return
    for number in range(1, axes - 1):
        for cuts in combinations(range(1, axes), number):
            spans = tuple(np.diff((0, *cuts, axes)).tolist())
            if sum(span > 1 for span in spans) == 1:
                yield spans


def _spanned(shape: Sequence[int], spans: Sequence[int]) -> tuple[int, ...]:
    ends = np.cumsum(spans).tolist()
    return tuple(math.prod(shape[end - span : end]) for end, span in zip(ends, spans, strict=True))


def _widened(sets: tuple[AxisSet, ...], allowed: Array) -> list[tuple[AxisSet, ...]]:
    """Products in fewer words that hold the given one and nothing but what is allowed; none where there is none.

    What one axis is widened by may keep another from it, so each axis is the first one once.
    """
    solid = tuple(replace_loose(one) for one in sets)
    if not _fits(solid, allowed):
        return []
    narrow = [axis for axis, one in enumerate(solid) if not one.is_all]
    found = [_widened_along((*narrow[turn:], *narrow[:turn]), solid, allowed) for turn in range(max(1, len(narrow)))]
    return list(dict.fromkeys(found))


def _widened_along(axes: Iterable[int], sets: tuple[AxisSet, ...], allowed: Array) -> tuple[AxisSet, ...]:
    for axis in axes:
        for simpler in _simpler(sets[axis]):
            tried = (*sets[:axis], simpler, *sets[axis + 1 :])
            if _fits(tried, allowed):
                sets = tried
                break
    return sets


def _extended(sets: tuple[AxisSet, ...], allowed: Array) -> tuple[AxisSet, ...]:
    """Intervals as far as nothing but what is allowed comes in, one axis after the other."""
    for axis, one in enumerate(sets):
        if one.is_all or not one.is_interval:
            continue
        picked = allowed
        for other, chosen in enumerate(sets):
            if other != axis:
                picked = picked[(slice(None),) * other + (selector(chosen),)]
        picked = np.moveaxis(picked, axis, 0)
        # Most are as far as they can be: the next index says so.
        start = one.start - _reach(picked[: one.start][::-1])
        stop = one.stop + _reach(picked[one.stop :])
        sets = (*sets[:axis], AxisSet(one.length, start, stop), *sets[axis + 1 :])
    return sets


def _reach(allowed: Array) -> int:
    """How many indices, from the first one on, have nothing but what is allowed."""
    if not len(allowed) or not allowed[0].all():
        return 0
    barred = np.flatnonzero(~allowed.all(axis=tuple(range(1, allowed.ndim))))
    return int(barred[0]) if barred.size else len(allowed)


def replace_loose(one: AxisSet) -> AxisSet:
    """All that a loose set may have."""
    return AxisSet(one.length, one.start, one.stop) if one.loose else one


def _simpler(one: AxisSet) -> Iterator[AxisSet]:
    """Sets that hold this one in fewer words, the simplest first."""
    if one.is_all:
        return
    yield everything(one.length)
    if one.start > 0:
        yield AxisSet(one.length, one.start, one.length)
    yield AxisSet(one.length, 0, one.stop)
    if not one.is_interval:
        yield AxisSet(one.length, one.start, one.stop)


def _is_evident(sets: Sequence[AxisSet], size: int, count: int) -> bool:
    """Intervals are; what has more numbers must be shorter than a list of the wrong elements."""
    if all(one.is_interval for one in sets):
        return True
    numbers = sum(math.log2(one.length) * (len(one.listed) or 2 + (one.step > 1) + (one.width > 1)) for one in sets)
    choices = (math.lgamma(size + 1) - math.lgamma(count + 1) - math.lgamma(size - count + 1)) / math.log(2)
    return choices - numbers >= _BITS


def _fits(sets: Iterable[AxisSet], allowed: Array) -> bool:
    picked = allowed
    for axis, one in enumerate(sets):
        picked = picked[(slice(None),) * axis + (selector(one),)]
    return bool(picked.all())


def _size(sets: Iterable[AxisSet]) -> int:
    return math.prod(one.count for one in sets)


def _cost(sets: Iterable[AxisSet]) -> float:
    return sum(map(_cost_of, sets))


def _cost_of(one: AxisSet) -> float:
    if one.is_all:
        return 0.0
    if one.listed:
        return 1.0 + _COST_OF_INDEX * len(one.listed)
    step = 0.0 if one.step == 1 else _COST_OF_BLOCKS if one.width > 1 else _COST_OF_STEP
    open_ended = one.start == 0 or one.stop == one.length or one.count == 1
    return 1.0 + step + (0.0 if open_ended else 0.2)


def _cost_of_spans(spans: tuple[int, ...], axes: int) -> float:
    if len(spans) == axes:
        return 0.0
    return _COST_OF_FLAT if len(spans) == 1 else _COST_OF_SPANS


def _parts(wrong: Array, count: int, classes: dict[str, Array]) -> Iterator[Fitted]:
    """Sets that hold all wrong elements and that chance would not have put them into: by axes, value, or memory."""
    sets = tuple(_regular(met, count) for met in _met(wrong))
    if not all(one.is_all for one in sets):
        yield Fitted(None, Where(sets), _size(sets))
    for value, members in classes.items():
        if float(np.mean(members)) ** count < CHANCE and not (wrong & ~members).any():
            yield Fitted(None, Where(value=value), int(np.count_nonzero(members)))  # type: ignore[arg-type]
    in_memory = _regular(wrong.reshape(-1), count)
    # Elements of a row are wrong together, which makes long stretches of them less improbable than they seem.
    if 2 * in_memory.count <= wrong.size:
        yield Fitted(None, Where((in_memory,), (wrong.ndim,)), in_memory.count)


def _regular(met: Array, count: int) -> AxisSet:
    """The set along one axis that holds the indices of all wrong elements, where chance does not explain it."""
    one, number, length = axis_set(met), int(np.count_nonzero(met)), len(met)
    if one.loose and one.step > 1:
        return replace(one, loose=False)
    if one.listed or one.step > 1:
        # That so many elements have so few indices, whichever these are.
        logarithm = (len(one.listed) or _NUMBERS_OF_STEPS) * math.log(length) + count * math.log(number / length)
        return one if logarithm < math.log(CHANCE) else everything(length)
    interval = replace_loose(one)
    # That so many different indices keep to such a stretch.
    chance = number * (interval.count / length) ** (number - 1)
    return interval if chance < CHANCE or 1 == number < length else everything(length)
