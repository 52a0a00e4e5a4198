"""Sets of elements that several cases of different sizes have in common."""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain, product
from typing import Final, get_args

from mluops_gtest.model.explanation import AxisSet, Explanation, Fitted, LineKind, Where
from mluops_gtest.model.readings import EVERYTHING, AxisReading, LinePattern, WhereReading, axis_readings

# Combinations of one case, and sets that are tried on all of them.
_MAX_OF_CASE: Final = 128
_MAX_TRIED: Final = 200
# The plainest words first.
_COST: Final = {
    "all": 0.0,
    "at": 1.0,
    "from": 1.01,
    "below": 1.02,
    "last": 1.1,
    "but last": 1.12,
    "behind": 1.3,
    "between": 1.4,
    "every": 1.5,
    "blocks": 2.0,
    "listed": 2.5,
}
_COST_OF_FLAT: Final = 0.5
_COST_OF_SPANS: Final = 1.0
# A set that leaves out less says little of where wrong elements are.
_GOOD_PART: Final = 0.6
# So many wrong elements stand beside another one of their line before lines are no accident.
_MIN_BESIDE: Final = 8
_MOST_CASES: Final = 0.9


def places_of(cases: Sequence[tuple[Explanation, Fitted]]) -> Iterator[tuple[WhereReading, tuple[int, ...]]]:
    """Every set that fits some of the cases, with the numbers of the cases that it fits; the simplest sets first."""
    # Cases with the same sets on the same dims are asked once.
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for number, (case, fitted) in enumerate(cases):
        alike[case.dims, case.hull, fitted.where, fitted.also, case.is_exact(fitted)].append(number)
    offered: Counter[WhereReading] = Counter()
    for numbers in alike.values():
        offered.update(dict.fromkeys(readings_of(*cases[numbers[0]]), len(numbers)))
    tried = sorted(offered, key=lambda reading: (-offered[reading], cost_of(reading), repr(reading)))[:_MAX_TRIED]
    for reading in sorted(tried, key=lambda reading: (cost_of(reading), repr(reading))):
        agreeing = [numbers for numbers in alike.values() if agrees(reading, *cases[numbers[0]])]
        yield reading, tuple(sorted(chain.from_iterable(agreeing)))


def readings_of(case: Explanation, fitted: Fitted) -> tuple[WhereReading, ...]:
    """What the set of one case may be called; empty where it is scattered."""
    exact = _sets(case, fitted) if case.is_exact(fitted) else ()
    sets = exact or (() if fitted.where.is_scattered else (fitted.where,))
    names = [reading for where in sets for reading in _names(where, case.hull)]
    return tuple(dict.fromkeys(names))


def cost_of(reading: WhereReading) -> float:
    """How many words it takes."""
    if reading.value:
        return 1.2
    spans = 0.0 if not reading.spans else _COST_OF_FLAT if len(reading.spans) == 1 else _COST_OF_SPANS
    return sum(_COST[axis.kind] for axis in reading.axes) + spans + reading.outside


def agrees(reading: WhereReading, case: Explanation, fitted: Fitted) -> bool:
    """The set is that of the case, or holds all its wrong elements where these fill no simple set."""
    if case.is_exact(fitted) or reading.value:
        return _is_one_of(reading, case, fitted)
    return holds(reading, case)


def fits(reading: WhereReading, case: Explanation, fitted: Fitted) -> bool:
    """The set has all wrong elements of the case, and besides them only such as are right by accident."""
    return case.is_exact(fitted) and _is_one_of(reading, case, fitted)


def holds(reading: WhereReading, case: Explanation) -> bool:
    """All wrong elements of the case are in the set, which leaves out a good part of the output."""
    if reading.is_all or reading.spans or reading.outside or len(reading.axes) != len(case.dims):
        return False
    named = [axis.of(length) for axis, length in zip(reading.axes, case.dims, strict=True)]
    if not all(one is not None and is_within(least, one) for one, least in zip(named, case.hull, strict=True)):
        return False
    return math.prod(one.count for one in named if one is not None) <= _GOOD_PART * case.size


def common_lines(cases: Sequence[Explanation]) -> LinePattern | None:
    """How wrong elements lie on the lines along one axis, in almost all cases; the kind that says most."""
    for kind, axis in product(get_args(LineKind), range(min(len(case.dims) for case in cases))):
        lines = LinePattern(kind, axis)
        telling = [case for case in cases if has_lines(lines, case) and case.dims[axis] > 1 and case.wrong < case.size]
        beside = sum(case.wrong - case.wrong // case.dims[axis] for case in telling)
        having = sum(has_lines(lines, case) for case in cases)
        if beside >= _MIN_BESIDE and 2 * len(telling) >= len(cases) and having >= _MOST_CASES * len(cases):
            return lines
    return None


def has_lines(lines: LinePattern, case: Explanation) -> bool:
    """Wrong elements lie so in that case; whole lines have an end, and most of their elements, too."""
    kind = case.lines[lines.axis] if case.lines else None
    return kind in ("whole", lines.kind)


def is_within(inner: AxisSet, outer: AxisSet) -> bool:
    """Every index that the inner set may have is for certain in the outer one."""
    if outer.is_all or (inner == outer and not outer.loose):
        return True
    if outer.loose or inner.start < outer.start or inner.stop > outer.stop:
        return False
    return outer.is_interval or all(_has(outer, index) for index in _indices(inner))


def _indices(chosen: AxisSet) -> Iterator[int]:
    """The indices of the set, of a loose one all that it may have."""
    return iter(chosen.listed or filter(partial(_has, chosen), range(chosen.start, chosen.stop)))


def _has(chosen: AxisSet, index: int) -> bool:
    return index in chosen.listed if chosen.listed else (index - chosen.start) % chosen.step < chosen.width


def _names(where: Where, hull: tuple[AxisSet, ...]) -> Iterator[WhereReading]:
    if where.value:
        yield WhereReading(value=where.value)
        return
    if where.is_all:
        yield EVERYTHING
        return
    names = [_axis_names(*of_axis) for of_axis in zip(where.axes, *_limits(where, hull), strict=True)]
    for number, axes in enumerate(product(*names)):
        if number == _MAX_OF_CASE:
            return
        yield WhereReading(axes, where.spans, where.outside)


def _is_one_of(reading: WhereReading, case: Explanation, fitted: Fitted) -> bool:
    spans = reading.spans
    # Most sets differ in their spans already.
    return any(where.spans == spans and _is(reading, where, case) for where in _sets(case, fitted))


def _sets(case: Explanation, fitted: Fitted) -> tuple[Where, ...]:
    """The words for the set; one element is also one in memory."""
    if fitted.inside != 1 or len(case.first) < 2:
        return fitted.where, *fitted.also
    flat = sum(index * math.prod(case.dims[axis + 1 :]) for axis, index in enumerate(case.first))
    return fitted.where, *fitted.also, Where((AxisSet(case.size, flat, flat + 1),), (len(case.dims),))


def _is(reading: WhereReading, where: Where, case: Explanation) -> bool:
    if reading.outside != where.outside or reading.value != where.value:
        return False
    if reading.value:
        return True
    if reading.is_all:
        return where.is_all or (bool(where.most) and all(one.is_all for one in where.most))
    if len(reading.axes) != len(where.axes):
        return False
    if where.outside:
        return all(axis.of(known.length) == known for axis, known in zip(reading.axes, where.axes, strict=True))
    return all(map(_is_between, reading.axes, *_limits(where, case.hull)))


@lru_cache(maxsize=1 << 16)
def _is_between(axis: AxisReading, least: AxisSet, most: AxisSet) -> bool:
    one = axis.of(most.length)
    return one is not None and is_within(least, one) and is_within(one, most)


def _limits(where: Where, hull: tuple[AxisSet, ...]) -> tuple[tuple[AxisSet, ...], tuple[AxisSet, ...]]:
    """Between which sets another one is as true; of what is told as an exception nothing else is."""
    if where.outside:
        return where.axes, where.axes
    return where.least or (where.axes if where.spans else hull), where.most or where.axes


def _axis_names(told: AxisSet, least: AxisSet, most: AxisSet) -> tuple[AxisReading, ...]:
    solid = (one for one in (told, most, least) if not one.loose)
    return tuple(dict.fromkeys(name for one in solid for name in axis_readings(one)))
