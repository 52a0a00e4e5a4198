"""The simplest rule over features that separates cases that fail from cases that pass."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final

from mluops_gtest.explain.features import Scalar
from mluops_gtest.model.headline import Condition, Feature, Rule
from mluops_gtest.value import Value

# Fewer cases on a side say nothing.
MIN_CASES: Final = 3
# More rules that are as simple and as good say nothing either.
MAX_RULES: Final = 3
# How many times over chance would have to try before it found such a rule.
_SAFETY: Final = 20
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
_COST: Final = {"=": 1.0, "≥": 1.0, "≤": 1.0, "multiple": 1.4, "no multiple": 1.4}
_COST_OF_ELEMENTS: Final = 0.3
_COST_OF_UNNAMED: Final = 0.2
_COST_OF_SIZE: Final = 0.2


class _Candidate(Value):
    """A condition that all failing cases keep; `passing` are those passing ones that keep it, as bits."""

    condition: Condition
    passing: int
    cost: float


def rules_for(columns: Mapping[Feature, Sequence[Scalar]], failing: int, passing: int) -> tuple[Rule, ...]:
    """The rules that hold of the failing rows, which come first, and of no passing one, which follow; else of few.

    Equally simple ones that are equally good are all named, or none where they are many. Rows behind these were run as
    well, but say neither.
    """
    if failing < MIN_CASES or passing < MIN_CASES:
        return ()
    judged = {feature: column[: failing + passing] for feature, column in columns.items()}
    candidates = [one for feature, column in judged.items() for one in _candidates(feature, column, failing)]
    tried = len({one.passing for one in candidates})
    ways = _ways(failing + passing, failing)
    alone = [one for one in candidates if one.passing == 0]
    if alone and ways > _SAFETY * tried:
        return _simplest([(one.cost, (one,)) for one in alone], columns, failing, passing)
    pairs = list(_pairs(candidates, passing)) if failing >= _MIN_FOR_PAIRS and ways > _SAFETY * tried**2 else []
    if pairs:
        return _simplest(pairs, columns, failing, passing)
    return _only(candidates, columns, failing, passing, tried)


def _ways(all_cases: int, failing: int) -> float:
    """In how many ways as many cases could have failed."""
    return math.exp(
        min(700.0, math.lgamma(all_cases + 1) - math.lgamma(failing + 1) - math.lgamma(all_cases - failing + 1))
    )


def _candidates(feature: Feature, column: Sequence[Scalar], failing: int) -> Iterator[_Candidate]:
    wrong, right = column[:failing], column[failing:]

    def candidate(sign: str, value: Scalar, holds: Sequence[bool]) -> _Candidate:
        bits = int("".join("1" if one else "0" for one in reversed(holds)) or "0", 2)
        # That few cases have one size in common is mostly how they were declared.
        cost = _COST[sign] + _COST_OF_SIZE * (sign == "=" and feature.kind in ("dim", "elements"))
        cost += _COST_OF_ELEMENTS * (feature.kind == "elements")
        cost += _COST_OF_UNNAMED * (feature.axis is not None)
        return _Candidate(Condition(feature, sign, value), bits, cost)  # type: ignore[arg-type]

    first = wrong[0]
    if _is_named(feature) and all(value == first for value in wrong):
        yield candidate("=", first, [value == first for value in right])
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in column):
        return
    numbers, others = [float(v) for v in wrong], [float(v) for v in right]
    least, most = min(numbers), max(numbers)
    if least < most:
        yield candidate("≥", _plain(least), [value >= least for value in others])
        yield candidate("≤", _plain(most), [value <= most for value in others])
    if _is_named(feature) and all(float(value).is_integer() for value in column) and len({*numbers, *others}) > 2:
        for divisor in _DIVISORS:
            rests = {value % divisor == 0 for value in numbers}
            if len(rests) == 1:
                (whole,) = rests
                holds = [(value % divisor == 0) is whole for value in others]
                yield candidate("multiple" if whole else "no multiple", divisor, holds)


def _plain(number: float) -> Scalar:
    return int(number) if number.is_integer() else number


def _pairs(candidates: Sequence[_Candidate], passing: int) -> Iterator[tuple[float, tuple[_Candidate, ...]]]:
    """Two conditions that separate together; each must keep several cases from the other."""
    everything = (1 << passing) - 1
    useful = [
        one
        for one in candidates
        if (everything & ~one.passing).bit_count() >= MIN_CASES and _is_named(one.condition.feature)
    ]
    for first, second in combinations(useful, 2):
        if first.passing & second.passing:
            continue
        if min(first.passing.bit_count(), second.passing.bit_count()) >= MIN_CASES:
            yield first.cost + second.cost, (first, second)


def _simplest(
    found: Sequence[tuple[float, tuple[_Candidate, ...]]],
    columns: Mapping[Feature, Sequence[Scalar]],
    failing: int,
    passing: int,
) -> tuple[Rule, ...]:
    least = min(cost for cost, _ in found)
    # Two conditions on the same features say the same in other words.
    best: dict[frozenset[Feature], tuple[_Candidate, ...]] = {}
    for cost, parts in found:
        if cost <= least + 1e-9:
            best.setdefault(frozenset(part.condition.feature for part in parts), parts)
    if len(best) > MAX_RULES:
        return ()
    return tuple(_rule(parts, columns, failing, passing) for parts in best.values())


def _rule(
    parts: tuple[_Candidate, ...], columns: Mapping[Feature, Sequence[Scalar]], failing: int, passing: int
) -> Rule:
    inside = parts[0].passing
    for part in parts[1:]:
        inside &= part.passing
    conditions = tuple(part.condition for part in parts)
    if len(conditions) == 1:
        column = columns[conditions[0].feature]
        conditions = (_with_nearest(conditions[0], column[failing : failing + passing], column),)
    return Rule(conditions, inside.bit_count(), passing - inside.bit_count())


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


def _only(
    candidates: Sequence[_Candidate],
    columns: Mapping[Feature, Sequence[Scalar]],
    failing: int,
    passing: int,
    tried: int,
) -> tuple[Rule, ...]:
    """Conditions that some passing cases keep as well, but so few that chance does not explain it."""
    found = []
    # What is small, or even, is so by how cases were declared more often than for a reason.
    asked = [one for one in candidates if one.condition.sign in ("=", "≥")] if failing >= _MIN_FOR_ONLY else []
    for one in asked:
        inside = one.passing.bit_count()
        # That all failing cases are among these by chance.
        chance = _ways(failing + inside, failing) / _ways(failing + passing, failing)
        share = _MOST_OF_KIND if _is_of_kind(one.condition) else _MOST
        if inside and failing >= share * (failing + inside) and chance * tried * _SAFETY_OF_ONLY < 1:
            found.append((one.cost, inside, one))
    if not found:
        return ()
    cost, fewest = min((cost, inside) for cost, inside, _ in found)
    best = [(cost, (one,)) for known, inside, one in found if (known, inside) == (cost, fewest)]
    return _simplest(best, columns, failing, passing)


def _is_of_kind(condition: Condition) -> bool:
    return condition.sign == "=" and condition.feature.kind in ("param", "dtype", "layout")


def _is_named(feature: Feature) -> bool:
    """It has a name of its own, and is no product of others."""
    return feature.kind != "elements" and feature.axis is None
