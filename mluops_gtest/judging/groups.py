"""The id of a cause: a hash of operator, output, law and place, and what it says of a single result.

Failures by what causes them: cases of one operator with the same law of wrong values at the same place.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Final, get_args

import msgspec
from msgspec.structs import replace

from mluops_gtest.base.frozen import Value
from mluops_gtest.core.call import Status
from mluops_gtest.core.explanation import AsIf, BelongElsewhere, Explanation, Law, MisplacedZeros, OneSided
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.readings import Headline, LinePattern, Rule, WhereReading
from mluops_gtest.core.report import TalliedResults
from mluops_gtest.core.result import CaseResult
from mluops_gtest.judging.conditions import (
    MIN_CASES,
    Shapes,
    common_lines,
    cost_of,
    features_of,
    fits,
    has_lines,
    holds,
    places_of,
    readings_of,
    rules_for,
)

VERSION: Final = "v3"
_LENGTH: Final = 12


class PlacedLaw(Value):
    """A law of wrong values at a place of an output, in words that fit outputs of any size."""

    operator: str
    output: str
    law: Law
    where: WhereReading

    def holds_of(self, result: CaseResult) -> bool:
        """All wrong elements of the output obey the law, and the result itself calls their place so."""
        if result.outcome is not Outcome.FAILED or result.operator != self.operator:
            return False
        found = ((one, one.holding(self.law)) for one in result.explained if one.output == self.output)
        return any(fit is not None and self.where in readings_of(one, fit) for one, fit in found)


def mark(operator: str, output: str, law: Law | None, where: WhereReading | None) -> str:
    """A short name of a cause: the same in every run, whatever the values and the sizes."""
    words = msgspec.json.encode([operator, output, law, where])
    return f"{VERSION}:{hashlib.sha256(words).hexdigest()[:_LENGTH]}"


def read_marks(marks: Collection[str], results: Iterable[CaseResult]) -> dict[str, PlacedLaw]:
    """What these ids stand for; those that no result names in its own words are left out.

    A hash cannot be undone: every law of a result at every reading of its own places is hashed and looked up.
    """
    named = {
        PlacedLaw(result.operator, one.output, fitted.law, where): None
        for result in results
        for one in result.explained
        for fitted in one.fitted
        if fitted.law is not None and fitted.lawful == one.wrong
        for where in readings_of(one, fitted)
    }
    ids = ((mark(one.operator, one.output, one.law, one.where), one) for one in named)
    return {name: one for name, one in ids if name in marks}


# The share of the cases at hand that a law at a place must explain to be a cause of its own.
_OWN_CAUSE: Final = 0.3
# The share for a law that has no place in common, and for a law of few words.
_OWN_LAW: Final = 0.5
# How many more cases a law or a place is worth, as a share.
_TOLD: Final = 0.5
# What holds of almost all cases of a group is told of it, with the number.
_MOST: Final = 0.9
# Laws that hold of mistakes of many kinds: told where no other law is.
_VAGUE: Final = (BelongElsewhere, MisplacedZeros, OneSided)
# Places that tell causes with one law apart.
_MAX_PLACES: Final = 4


class CauseGroup(Value):
    """Cases that fail for one cause, the smallest first; without a headline they share a fingerprint or an outcome."""

    # Empty: they are of several.
    operator: str
    members: tuple[CaseResult, ...]
    mark: str
    # Those that show what the headline says: first where it is told of the case itself, then the smallest.
    examples: tuple[CaseResult, ...]
    headline: Headline | None = None

    @property
    def example(self) -> CaseResult:
        return self.examples[0]

    @property
    def placed_law(self) -> PlacedLaw | None:
        """The law and the place that the id stands for; None where one is missing, and no waiver can name it."""
        head = self.headline
        if head is None or head.law is None or head.where is None:
            return None
        return PlacedLaw(head.operator, head.output, head.law, head.where)


class _Split(Value):
    """Some cases of an output with what they share."""

    chosen: tuple[int, ...]
    law: Law | None
    where: WhereReading | None = None
    # Without a place: the lines that wrong elements fill.
    lines: LinePattern | None = None


def cause_groups(
    failing: Iterable[CaseResult], everything: Iterable[CaseResult], shapes: Shapes
) -> tuple[CauseGroup, ...]:
    """The groups of these failures, the largest first; `everything` are the results of the run."""
    explained: dict[str, list[CaseResult]] = defaultdict(list)
    others: dict[Hashable, list[CaseResult]] = defaultdict(list)
    for result in failing:
        if result.explained:
            explained[result.operator].append(result)
        else:
            others[result.fingerprint or (result.outcome, result.causes)].append(result)
    by_operator = defaultdict(list)
    is_lazy = isinstance(everything, TalliedResults)
    for result in everything if explained else ():
        if result.operator in explained:
            by_operator[result.operator].append(_declared(result) if is_lazy else result)
    groups = [
        group
        for operator, results in explained.items()
        for group in _of_operator(operator, results, by_operator[operator], shapes.get(operator, {}))
    ]
    for same in map(_ordered, others.values()):
        operators = {result.operator for result in same}
        groups.append(CauseGroup("" if len(operators) > 1 else same[0].operator, same, same[0].fingerprint, same))
    return tuple(sorted(groups, key=lambda group: (-len(group.members), group.members[0].case)))


def _declared(result: CaseResult) -> CaseResult:
    """What rules ask for: of results that are read when they are asked for no more is kept."""
    return replace(result, explained=(), profile=None, perf=None, causes=(), repro="", notes=(), output="")


def _ordered(results: Iterable[CaseResult]) -> tuple[CaseResult, ...]:
    return tuple(sorted(results, key=lambda result: (result.info.elements, result.case)))


def _of_operator(
    operator: str, failing: Sequence[CaseResult], everything: Sequence[CaseResult], shapes: Mapping[str, str]
) -> Iterable[CauseGroup]:
    left = list(_ordered(failing))
    causes: dict[tuple[str, _Split], list[CaseResult]] = defaultdict(list)
    while left:
        output, split, members = _next_cause(left)
        cases = {result.case for result in members}
        left = [result for result in left if result.case not in cases]
        causes[output, replace(split, chosen=())] += members
    for (output, split), members in causes.items():
        yield _group(operator, output, split, _ordered(members), everything, shapes)


def _also(output: str, members: Sequence[CaseResult]) -> tuple[str, ...]:
    """Other outputs that are wrong in most of the cases."""
    also = Counter(one.output for result in members for one in result.explained if one.output != output)
    return tuple(name for name, count in also.items() if 2 * count > len(members))


def _next_cause(results: Sequence[CaseResult]) -> tuple[str, _Split, list[CaseResult]]:
    """The largest set of cases with a common cause in one output; of sets alike the one of the first output."""
    having: dict[str, list[CaseResult]] = defaultdict(list)
    for result in results:
        for output in dict.fromkeys(one.output for one in _leading(result)):
            having[output].append(result)
    splits = {output: _split([_of(result, output) for result in cases]) for output, cases in having.items()}
    output = max(splits, key=lambda output: _weight(splits[output]))
    return output, splits[output], [having[output][index] for index in splits[output].chosen]


def _weight(split: _Split) -> float:
    """How many cases it has; one with a law or a place says more than a larger heap without."""
    return len(split.chosen) * (1 + _TOLD * ((split.law is not None) + (split.where is not None)))


def _leading(result: CaseResult) -> Sequence[Explanation]:
    """The outputs that others follow from: a number that is wrong, unless the mistake behind it has a name."""
    numbers = [one for one in result.explained if not one.dims]
    is_named = any(isinstance(one.law, AsIf) for one in result.explained)
    return result.explained if is_named or not numbers else numbers


def _of(result: CaseResult, output: str) -> Explanation:
    return next(one for one in result.explained if one.output == output)


def _split(cases: Sequence[Explanation]) -> _Split:
    """The part of the cases that has most in common; all of them where no part stands out."""
    number = len(cases)
    laws = {law: lawful for law, lawful in _laws(cases).items() if law is None or _is_supported(law, cases)}
    found = []
    for law, lawful in laws.items():
        split = _of_law(cases, law, lawful)
        share = _OWN_CAUSE if split.where is not None and not split.where.is_all else _OWN_LAW
        if isinstance(law, _VAGUE):
            share = _MOST
        if (law is not None or split.where is not None) and _stands_out(len(split.chosen), number, share):
            found.append(split)
    if not found:
        return _in_lines(cases, None, tuple(range(number)))
    found = [split for split in found if not isinstance(split.law, _VAGUE)] or found
    most = max(len(split.chosen) for split in found)
    # A law that says more may leave out a few cases that are too small to show it.
    telling = [split for split in found if len(split.chosen) >= _MOST * most]
    return max(telling, key=lambda split: (_rank(split.law), len(split.chosen)))


def _of_law(cases: Sequence[Explanation], law: Law | None, lawful: tuple[int, ...]) -> _Split:
    """The cases of a law, or those of them at one place where places tell several causes apart."""
    fitted = [(cases[index], found) for index in lawful if (found := cases[index].holding(law)) is not None]
    places = list(places_of(fitted))
    left = set(range(len(fitted)))
    apart: list[tuple[WhereReading, set[int]]] = []
    while left and len(apart) < _MAX_PLACES:
        shared = [(reading, left.intersection(fitting)) for reading, fitting in places]
        reading, inside = max(shared, key=lambda one: (len(one[1]), -cost_of(one[0])), default=(None, set()))
        if reading is None or not _stands_out(len(inside), len(left), _OWN_CAUSE):
            break
        inside |= {index for index in left if holds(reading, fitted[index][0])}
        if len(inside) >= _MOST * len(fitted):
            return _Split(tuple(lawful[index] for index in sorted(inside)), law, reading)
        left -= inside
        apart.append((reading, inside))
    told = len(fitted) - len(left) >= _MOST * len(fitted)
    # Places that small outputs fill as a whole tell nothing apart, nor do those that hold more than what is wrong.
    vague = any(reading.is_all for reading, _ in apart)
    exact = (fits(reading, *fitted[index]) for reading, inside in apart for index in inside)
    if told and apart and not vague and all(exact):
        reading, inside = apart[0]
        return _Split(tuple(lawful[index] for index in sorted(inside)), law, reading)
    return _in_lines(cases, law, lawful)


def _in_lines(cases: Sequence[Explanation], law: Law | None, lawful: tuple[int, ...]) -> _Split:
    """The cases of a law that have no place in common; those of them with the lines that almost all have."""
    lines = common_lines([cases[index] for index in lawful])
    having = lawful if lines is None else tuple(index for index in lawful if has_lines(lines, cases[index]))
    return _Split(having, law, None, lines)


def _stands_out(count: int, number: int, share: float) -> bool:
    return count == number or (count >= MIN_CASES and count >= share * number)


def _laws(cases: Sequence[Explanation]) -> dict[Law | None, tuple[int, ...]]:
    """Law → the cases that it holds of, wholly; none: those of which no law certainly holds."""
    found: dict[Law | None, list[int]] = defaultdict(list)
    for index, case in enumerate(cases):
        for one in case.fitted:
            certain = case.is_certain and not isinstance(case.law, OneSided)
            if one.lawful == case.wrong and (one.law is not None or not certain):
                found[one.law].append(index)
    return {law: tuple(members) for law, members in found.items()}


def _rank(law: Law | None) -> int:
    """Which of two laws that hold alike says more: the order in which they are declared."""
    return -_ORDER[type(law)] if law is not None else -len(_ORDER)


_ORDER: Final = {law: place for place, law in enumerate(get_args(Law))}


def _group(
    operator: str,
    output: str,
    split: _Split,
    members: tuple[CaseResult, ...],
    everything: Sequence[CaseResult],
    shapes: Mapping[str, str],
) -> CauseGroup:
    law, where = split.law, split.where
    having = [(result, _of(result, output)) for result in members]
    cases = [case for _, case in having]
    fitted = [(case, found) for case in cases if (found := case.holding(law)) is not None]
    wrong, size = ({case.wrong for case in cases}, {case.size for case in cases})
    headline = Headline(
        operator=operator,
        output=output,
        cases=len(members),
        law=law,
        where=where,
        fills=where is not None and all(fits(where, *one) for one in fitted),
        also=_also(output, members),
        rules=_rules(output, members, everything, shapes),
        wrong=wrong.pop() if len(wrong) == 1 else 0,
        size=size.pop() if len(size) == 1 else 0,
        percent=(min(100 * c.wrong // c.size for c in cases), max(-(-100 * c.wrong // c.size) for c in cases)),
        lines=split.lines,
    )
    # Where what is told of a case is what is told of all, it is seen at once.
    examples = tuple(result for result, case in sorted(having, key=lambda one: one[1].law != law))
    return CauseGroup(operator, members, mark(operator, output, law, where), examples, headline)


def _is_supported(law: Law, cases: Sequence[Explanation]) -> bool:
    """Some case shows it beyond chance, or several cases do together."""
    holding = [case for case in cases if case.holding(law) is not None]
    return any(case.law == law for case in holding) or len(holding) >= MIN_CASES


def _rules(
    output: str, members: Sequence[CaseResult], everything: Sequence[CaseResult], shapes: Mapping[str, str]
) -> tuple[Rule, ...]:
    passing = [result for result in everything if _passes(result, output)]
    if len(members) < MIN_CASES or len(passing) < MIN_CASES:
        return ()
    known = {result.case for result in (*members, *passing)}
    rest = [result for result in everything if result.case not in known and _is_of_values(result)]
    # What fails for another reason fails all the same, waived or not.
    rest.sort(key=lambda result: result.outcome.passes)
    others = sum(not result.outcome.passes for result in rest)
    columns = features_of([*members, *passing, *rest], shapes)
    return rules_for(columns, len(members), len(passing), others) if columns else ()


def _is_of_values(result: CaseResult) -> bool:
    """It was called and should have computed."""
    return result.outcome.was_called and bool(result.info.outputs) and result.expected_status is Status.SUCCESS


def _passes(result: CaseResult, output: str) -> bool:
    """It compared the output, and no element is beyond what arithmetic allows: criteria may be blind to a few."""
    return (
        result.outcome is Outcome.PASSED
        and any(reading.output == output for reading in result.readings)
        and not any(reading.output == output and reading.beyond for reading in result.elements)
    )
