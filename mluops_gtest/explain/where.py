"""The simplest set that holds all wrong elements, and of the right ones only those that are right by accident.

Sets are products of sets along axes (some of which may be taken together as one), all but such a product, or what has
a right value of some kind.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final

import numpy as np

from mluops_gtest.explain.axis_sets import axis_set, everything, selector
from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.explanation import AxisSet, Where
from mluops_gtest.value import Value

# From so many elements on axes are taken as they are, or all together.
_LARGE: Final = 1 << 22
# How improbable it must be that chance puts all wrong elements into a part of an output, before the part is told.
_CHANCE: Final = 1e-4
# What is not a plain interval must save so many bits against a list of the wrong elements: else it is an accident.
_BITS: Final = 10.0
# An exception of fewer elements than this share of the output is an accident, too.
_EXCEPTION: Final = 0.05
_MAX_OTHERS: Final = 4
# Further from what a reader takes in at once than a plain interval.
_COST_OF_STEP: Final = 1.0
_COST_OF_BLOCKS: Final = 2.0
_COST_OF_INDEX: Final = 0.5
_COST_OF_SPANS: Final = 1.5
_COST_OF_FLAT: Final = 0.4
_COST_OF_OUTSIDE: Final = 1.0
_COST_OF_VALUE: Final = 1.2


class Found(Value):
    """A set, how many elements it has, how many of these are right, and other words where it is exact."""

    where: Where
    inside: int = 0
    agreeing: int = 0
    also: tuple[Where, ...] = ()


class _Candidate(Value):
    where: Where
    cost: float
    inside: int


def where_wrong(wrong: Array, allowed: Array, classes: dict[str, Array] | None = None) -> Found:
    """The simplest description; `allowed` has the wrong elements and those that the law leaves right.

    `classes` are sets by the right value. Where nothing fits exactly: a part of the output that surely holds all wrong
    elements, or nothing.
    """
    count = int(np.count_nonzero(wrong))
    sets = _everything(wrong) if allowed.all() else [*_products(wrong, allowed), *_outside(wrong, allowed)]
    candidates = [*sets, *_valued(wrong, allowed, classes or {})]
    if candidates:
        best, *others = sorted(candidates, key=lambda candidate: candidate.cost)
        also = [other.where for other in others if not other.where.is_all]
        return Found(best.where, best.inside, best.inside - count, tuple(also)[:_MAX_OTHERS])
    part = _part(wrong) if count > 1 else None
    return Found(Where()) if part is None else Found(part, _size(part.axes))


def hull_of(wrong: Array) -> tuple[AxisSet, ...]:
    """Along each axis the indices that wrong elements have."""
    return tuple(map(axis_set, _met(wrong)))


def _met(wrong: Array) -> Iterator[Array]:
    """Along each axis the mask of these indices; what one axis no longer needs is folded before the next."""
    while wrong.ndim:
        yield np.any(wrong, axis=tuple(range(1, wrong.ndim)))
        wrong = np.any(wrong, axis=0)


def _others(axes: int, axis: int) -> tuple[int, ...]:
    return tuple(other for other in range(axes) if other != axis)


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


def _everything(wrong: Array) -> list[_Candidate]:
    """Where all is allowed."""
    return [_Candidate(Where(tuple(map(everything, wrong.shape))), 0.0, wrong.size)]


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


def _part(wrong: Array) -> Where | None:
    """The intervals that hold all wrong elements, where chance would not have put them there; None else."""
    sets = []
    for axis, length in enumerate(wrong.shape):
        indices = np.flatnonzero(np.any(wrong, axis=_others(wrong.ndim, axis)))
        interval = AxisSet(length, int(indices[0]), int(indices[-1]) + 1)
        # That so many different indices keep to such a stretch.
        chance = len(indices) * (interval.count / length) ** (len(indices) - 1) if len(indices) > 1 else 1 / length
        sets.append(interval if chance < (_CHANCE if len(indices) > 1 else 1) else everything(length))
    return None if all(one.is_all for one in sets) else Where(tuple(sets))
