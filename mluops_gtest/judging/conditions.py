"""What cases that fail have in common: sets of elements, and the simplest rule that separates them from the others."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import chain, combinations, islice, product
from typing import Any, Final, Literal, get_args

from mluops_gtest.base.frozen import Value
from mluops_gtest.core.explanation import AxisSet, Explanation, Fitted, LineKind, Where
from mluops_gtest.core.readings import (
    EVERYTHING,
    AxisReading,
    Condition,
    Feature,
    LinePattern,
    Rule,
    WhereReading,
    axis_readings,
)
from mluops_gtest.core.result import CaseInfo, CaseResult

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
    for axes in islice(product(*names), _MAX_OF_CASE):
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


# [batch_size, num_points, 3]: words between brackets; what follows the brackets is for people.
_SYMBOLS: Final = re.compile(r"\[([^\]]*)\]")
_SYMBOL: Final = re.compile(r"[A-Za-z_]\w*")
# Components of a list that are looked at one by one.
_MAX_COMPONENTS: Final = 4
# In which order names are taken for what is the same in all cases.
_BEST_FIRST: Final = ("param", "dtype", "layout", "dim", "elements")

Scalar = int | float | str | bool
# Operator → tensor → shape in symbols.
Shapes = Mapping[str, Mapping[str, str]]


def features_of(results: Sequence[CaseResult], shapes: Mapping[str, str]) -> dict[Feature, list[Scalar]]:
    """Feature → its value in every case; only what all cases have, what varies, and of equal columns the first."""
    rows = [dict(_declared_values(result.info, shapes)) for result in results]
    common = [key for key in rows[0] if all(key in row for row in rows)]
    common.sort(key=lambda key: (_BEST_FIRST.index(key[0]), key[2] is not None))
    columns: dict[Feature, list[Scalar]] = {}
    seen: set[tuple[Scalar, ...]] = set()
    for key in common:
        column = [row[key] for row in rows]
        values = tuple(column)
        if len({*map(repr, column)}) > 1 and values not in seen:
            seen.add(values)
            columns[Feature(*key)] = column
    return columns


# A feature's fields: a plain tuple is hashed much faster.
_FeatureKey = tuple[Literal["param", "dim", "dtype", "layout", "elements"], str, int | None]


def _declared_values(info: CaseInfo, shapes: Mapping[str, str]) -> Iterator[tuple[_FeatureKey, Scalar]]:
    """What the case declares, each value under the name of its feature."""
    for name, value in info.params.items():
        if isinstance(value, int | float | str):
            yield ("param", name, None), value
        elif _is_short_list(value):
            for index, one in enumerate(value):
                yield ("param", f"{name}[{index}]", None), one
            yield ("param", f"max({name})", None), max(value)
            yield ("param", f"min({name})", None), min(value)
    for tensor in (*info.outputs, *info.inputs):
        symbols = symbols_of(shapes.get(tensor.id, ""))
        yield ("dtype", tensor.id, None), tensor.dtype
        yield ("layout", tensor.id, None), tensor.layout
        for axis, length in enumerate(tensor.dims):
            symbol = symbols[axis] if len(symbols) == len(tensor.dims) else ""
            yield ("dim", symbol, None) if symbol else ("dim", tensor.id, axis), length
        yield ("elements", tensor.id, None), math.prod(tensor.dims)


def _is_short_list(value: Any) -> bool:
    """A few numbers."""
    return (
        isinstance(value, list | tuple)
        and 0 < len(value) <= _MAX_COMPONENTS
        and all(isinstance(one, int | float) for one in value)
    )


@cache
def symbols_of(shape: str) -> tuple[str, ...]:
    """The symbol of every axis; empty for an axis that has none of its own, such as C·kernel_h or 3."""
    found = _SYMBOLS.search(shape)
    words = found[1].split(",") if found else ()
    return tuple(word.strip() if _SYMBOL.fullmatch(word.strip()) else "" for word in words)


# Fewer cases on a side say nothing.
MIN_CASES: Final = 3
# More rules that are as simple and as good say nothing either.
MAX_RULES: Final = 3
# How many times over chance would have to try before it found such a rule.
_SAFETY: Final = 20
# A number that has no more values than these over all cases may be a mode, of which one value is a condition.
_MAX_MODES: Final = 4
# Numbers that are multiples of 4 are so by chance where there are fewer.
_MIN_MULTIPLES: Final = 3
# For a rule that passing cases keep, too: and of those that keep it most must fail.
_SAFETY_OF_ONLY: Final = 1e4
_MOST: Final = 0.9
# A type, a layout or a mode halves the cases by itself.
_MOST_OF_KIND: Final = 0.5
_MIN_FOR_ONLY: Final = 8
# Two conditions fit any few cases that were declared together.
_MIN_FOR_PAIRS: Final = 5
_DIVISORS: Final = (2, 3, 4, 8, 16, 32, 64, 128, 256)
# Divisibility, products of dims and numbers of elements are further from what a reader thinks of.
_RULES_COST: Final = {"=": 1.0, "≥": 1.0, "≤": 1.0, "multiple": 1.4, "no multiple": 1.4}
_COST_OF_ELEMENTS: Final = 0.3
_COST_OF_UNNAMED: Final = 0.2


class _Candidate(Value):
    """Conditions that all failing cases keep; `passing` are those passing ones that keep them, as bits."""

    conditions: tuple[Condition, ...]
    passing: int
    cost: float


class _Cases(Value):
    """All rows, and how many of them, in this order, fail for the cause at hand, pass, and fail for another one."""

    columns: Mapping[Feature, Sequence[Scalar]]
    failing: int
    passing: int
    others: int


def rules_for(
    columns: Mapping[Feature, Sequence[Scalar]], failing: int, passing: int, others: int = 0
) -> tuple[Rule, ...]:
    """The rules that hold of the failing rows, which come first, and of no passing one, which follow; else of few.

    Equally simple ones that are equally good are all named, or none where they are many. Behind these stand rows that
    fail for `others` causes, which are counted; rows behind those were run as well, but say neither.
    """
    cases = _Cases(columns, failing, passing, others)
    rows = list(zip(*columns.values(), strict=True))
    # Cases of which features say the same are one observation.
    failing_rows, passing_rows = dict.fromkeys(rows[:failing]), dict.fromkeys(rows[failing : failing + passing])
    failing, passing = len(failing_rows), len(passing_rows)
    if failing < MIN_CASES or passing < MIN_CASES:
        return ()
    judged = dict(zip(columns, zip(*failing_rows, *passing_rows, strict=True), strict=True))
    candidates = [one for feature, column in judged.items() for one in _candidates(feature, column, failing)]
    tried = len({one.passing for one in candidates})
    ways = _ways(failing + passing, failing)
    alone = [one for one in candidates if one.passing == 0]
    if alone and ways > _SAFETY * tried:
        return _simplest(alone, cases)
    pairs = list(_pairs(candidates, passing)) if failing >= _MIN_FOR_PAIRS and ways > _SAFETY * tried**2 else []
    if pairs:
        return _simplest(pairs, cases)
    return _simplest(_only(candidates, failing, passing, tried), cases)


def _ways(all_cases: int, failing: int) -> float:
    """In how many ways as many cases could have failed."""
    return math.exp(
        min(700.0, math.lgamma(all_cases + 1) - math.lgamma(failing + 1) - math.lgamma(all_cases - failing + 1))
    )


def _candidates(feature: Feature, column: Sequence[Scalar], failing: int) -> Iterator[_Candidate]:
    wrong, right = column[:failing], column[failing:]

    def candidate(sign: Literal["=", "≥", "≤", "multiple", "no multiple"], value: Scalar) -> _Candidate:
        condition = Condition(feature, sign, value)
        bits = sum(1 << place for place, one in enumerate(right) if _holds(condition, one))
        cost = _RULES_COST[sign] + _COST_OF_ELEMENTS * (feature.kind == "elements")
        return _Candidate((condition,), bits, cost + _COST_OF_UNNAMED * (feature.axis is not None))

    if _is_mode(feature, column) and len(set(wrong)) == 1:
        yield candidate("=", wrong[0])
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in column):
        return
    numbers = {float(value) for value in wrong}
    if len(numbers) > 1:
        yield candidate("≥", _plain(min(numbers)))
        yield candidate("≤", _plain(max(numbers)))
    if _is_basic(feature) and len(numbers) >= _MIN_MULTIPLES and all(float(value).is_integer() for value in column):
        for divisor in _DIVISORS:
            if len(rests := {value % divisor == 0 for value in numbers}) == 1:
                yield candidate("multiple" if rests.pop() else "no multiple", divisor)


def _is_mode(feature: Feature, column: Sequence[Scalar]) -> bool:
    """It has few values, each a kind of its own; that cases share one of many numbers is how they were declared."""
    values = set(column)
    return feature.kind in ("dtype", "layout") or (
        feature.kind == "param"
        and not any(isinstance(value, float) for value in values)
        and (len(values) <= _MAX_MODES or any(isinstance(value, str) for value in values))
    )


def _holds(condition: Condition, value: Scalar) -> bool:
    limit: Any = condition.value
    number: Any = value
    match condition.sign:
        case "≥":
            return bool(number >= limit)
        case "≤":
            return bool(number <= limit)
        case "multiple" | "no multiple":
            return (number % limit == 0) is (condition.sign == "multiple")
    return bool(number == limit)


def _plain(number: float) -> Scalar:
    return int(number) if number.is_integer() else number


def _pairs(candidates: Sequence[_Candidate], passing: int) -> Iterator[_Candidate]:
    """Two conditions that separate together; each must keep several cases from the other."""
    # Of the passing cases each lets some through and keeps some out.
    useful = [
        one
        for one in candidates
        if MIN_CASES <= one.passing.bit_count() <= passing - MIN_CASES and _is_basic(one.conditions[0].feature)
    ]
    for first, second in combinations(useful, 2):
        if not first.passing & second.passing:
            yield _Candidate(first.conditions + second.conditions, 0, first.cost + second.cost)


def _simplest(found: Sequence[_Candidate], cases: _Cases) -> tuple[Rule, ...]:
    least = min((one.cost for one in found), default=0.0)
    # Two conditions on the same features say the same in other words.
    best: dict[frozenset[Feature], tuple[Condition, ...]] = {}
    for one in found:
        if one.cost <= least + 1e-9:
            best.setdefault(frozenset(part.feature for part in one.conditions), one.conditions)
    if len(best) > MAX_RULES:
        return ()
    return tuple(_rule(conditions, cases) for conditions in best.values())


def _rule(conditions: tuple[Condition, ...], cases: _Cases) -> Rule:
    columns = [cases.columns[one.feature] for one in conditions]
    kept = [all(map(_holds, conditions, row)) for row in zip(*columns, strict=True)]
    behind = cases.failing + cases.passing
    inside, others = sum(kept[cases.failing : behind]), sum(kept[behind : behind + cases.others])
    if len(conditions) == 1:
        conditions = (_with_nearest(conditions[0], columns[0][cases.failing : behind], columns[0]),)
    return Rule(conditions, inside, cases.passing - inside, others, cases.others - others)


def _with_nearest(condition: Condition, right: Sequence[Scalar], everything: Sequence[Scalar]) -> Condition:
    """The condition with the nearest value on its other side, where it has one."""
    limit = condition.value
    if condition.sign not in ("≥", "≤") or isinstance(limit, str):
        return condition
    sign = 1 if condition.sign == "≥" else -1
    numbers = [value for value in right if not isinstance(value, str) and sign * value < sign * limit]
    nearest = max(numbers, key=lambda value: sign * value, default=None)
    if nearest is None:
        return condition
    between = [v for v in everything if not isinstance(v, str) and sign * nearest < sign * v < sign * limit]
    adjacent = isinstance(limit, int) and abs(limit - nearest) <= 1
    return Condition(condition.feature, condition.sign, limit, nearest, not between and not adjacent)


def _only(candidates: Sequence[_Candidate], failing: int, passing: int, tried: int) -> list[_Candidate]:
    """Conditions that some passing cases keep as well, but so few that chance does not explain it."""
    found: dict[tuple[float, int], list[_Candidate]] = defaultdict(list)
    for one in candidates if failing >= _MIN_FOR_ONLY else ():
        (condition,), inside = one.conditions, one.passing.bit_count()
        # What is small, or even, is so by how cases were declared more often than for a reason.
        if not inside or condition.sign not in ("=", "≥"):
            continue
        # That all failing cases are among these by chance.
        chance = _ways(failing + inside, failing) / _ways(failing + passing, failing)
        share = _MOST_OF_KIND if condition.sign == "=" else _MOST
        if failing >= share * (failing + inside) and chance * tried * _SAFETY_OF_ONLY < 1:
            found[one.cost, inside].append(one)
    return found[min(found)] if found else []


def _is_basic(feature: Feature) -> bool:
    """It has a name of its own, and is no product of others."""
    return feature.kind != "elements" and feature.axis is None
