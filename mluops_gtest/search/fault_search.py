"""What faulty draws aim at: calls in which a check that is forgotten, comes too late or at another place would show.

Faults that together reach an aim, looked for on a few valid calls: they follow from the seed, not from the draws.

Which classes have been drawn together: pairs of them, and of the checks that do not hold.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache, cached_property
from itertools import chain, combinations, islice, pairwise, product
from random import Random
from typing import Final, NamedTuple

from msgspec.structs import replace

from mluops_gtest.base.frozen import Value
from mluops_gtest.catalog.make import unchecked_layout
from mluops_gtest.catalog.violations import is_beyond_arrays
from mluops_gtest.core.buffers import ask_about_call, bind_values
from mluops_gtest.core.call import OpCall
from mluops_gtest.core.case import Case
from mluops_gtest.core.declaration import Check
from mluops_gtest.core.operator import Operator
from mluops_gtest.search.faults import SIZE_KINDS, STRIDES, Fault
from mluops_gtest.search.status_mutants import can_be_written
from mluops_gtest.search.symbolic_call import never_written


class Shows(Enum):
    """What a call shows of the check that answers it."""

    ANSWERED = "answered"
    TOLD = "told"
    WRITTEN = "written"


class Broken(Value):
    """What the ordered checks say of a call: those that do not hold, the first of which answers."""

    checks: tuple[str, ...] = ()
    # Whoever forgets the first answers otherwise.
    told: bool = False
    # The call has an output that can be written.
    written: bool = False

    def shows(self, what: Shows) -> bool:
        """The call shows this of the check that answers it."""
        return bool(self.checks) and (what is Shows.ANSWERED or (self.told if what is Shows.TOLD else self.written))


class Aim(Value):
    """A call that `check` answers and that shows this of it; with `later` one that breaks that check as well."""

    check: str
    shows: Shows = Shows.ANSWERED
    later: str | None = None

    def misses(self, broken: Broken) -> int | None:
        """How many checks are in the way; None where the checks of the aim hold."""
        if self.check not in broken.checks or (self.later is not None and self.later not in broken.checks):
            return None
        before = broken.checks.index(self.check)
        if before or broken.shows(self.shows):
            return before * len(broken.checks)
        return max(1, len(broken.checks) - 1)


def aims_of(operator: Operator) -> tuple[list[Aim], list[Aim]]:
    """What every check and every two neighbours of different statuses should be seen in; and all other such pairs."""
    reachable = [check for check in operator.checks if check.subsumed is None]
    near = list(pairwise(reachable))
    first = [
        *(Aim(check.name) for check in reachable),
        *(Aim(check.name, Shows.TOLD) for check in reachable if check.name not in operator.answered_anyway),
        *(Aim(check.name, Shows.WRITTEN) for check in reachable if _can_be_late(operator, check)),
        *_in_order(operator, near),
    ]
    return first, list(_in_order(operator, [pair for pair in combinations(reachable, 2) if pair not in near]))


def _can_be_late(operator: Operator, check: Check) -> bool:
    """Outputs may have been written before it is asked, and then that shows."""
    return not check.writes and not never_written(operator, check)


def _in_order(operator: Operator, pairs: list[tuple[Check, Check]]) -> Iterator[Aim]:
    for one, other in pairs:
        if one.status != other.status and other.name not in operator.not_together.get(one.name, ()):
            yield Aim(one.name, later=other.name)


def broken_by(case: Case, operator: Operator, defined: Callable[[OpCall], bool] | None) -> Broken | None:
    """What the checks say of the call; None for a call that is none, or that computes without its memory."""
    if any(is_beyond_arrays(tensor.desc) for tensor in case.tensors) or unchecked_layout(case, operator) is not None:
        return None
    call = bind_values(case, operator)
    if defined is not None and not defined(call):
        return None
    verdict = ask_about_call(operator, operator.reference, operator.answer, call, "a drawn call")
    answer = None if verdict.check is None else operator.check(verdict.check)
    bare = any(tensor.data is None and not tensor.desc.is_empty for tensor in case.inputs)
    # An early success may owe outputs before pointers are looked at: without a buffer nobody defines what it does.
    nowhere = any(tensor.id in case.expect.null_pointer for tensor in case.outputs)
    if (bare or nowhere) and (answer is None or answer.writes):
        return None
    if answer is None:
        return Broken()
    broken, raised = [answer], False
    for check in operator.checks[operator.checks.index(answer) + 1 :]:
        try:
            holds = check.holds(call)
        except Exception:
            # A check relies on those before it, and one of them does not hold.
            raised = True
            break
        if not holds:
            broken.append(check)
    written = can_be_written(replace(case, expect=replace(case.expect, check=answer.name)))
    return Broken(
        tuple(check.name for check in broken), _is_status_different(broken, raised=raised, written=written), written
    )


def _is_status_different(broken: list[Check], *, raised: bool, written: bool) -> bool:
    """Without the first the next one answers, or the call computes, or what nobody refused ends it."""
    first, *others = broken
    if others:
        return first.status != others[0].status or (first.writes != others[0].writes and written)
    return raised or first.status != 0 or written


Faults = tuple[str, ...]
# What the checks say of a call with faults; None where there is no such call.
Judge = Callable[[Case], Broken | None]

# So many sets of faults are taken further at a time, by so many more faults.
_WIDTH: Final = 4
_FURTHER: Final = 3
# So often each fault is tried alone on each call.
_TRIES: Final = 4
# Of the later checks of two so many are broken as if they were the first.
_CLEAN: Final = 0.7


class _Reached(NamedTuple):
    """How many checks are still in the way of an aim, and by lot among equals: the faults, and the call with them."""

    left: int
    lot: float
    names: Faults
    call: Case


class Ways:
    """The sets of faults that reach an aim on one of the calls."""

    def __init__(
        self, faults: Mapping[str, Fault], calls: Callable[[], Sequence[Case]], judge: Judge, seed: str
    ) -> None:
        self.calls = calls
        self._faults, self._judge, self._seed = faults, judge, seed
        self.to = cache(self._to)

    def prepare(self) -> None:
        """Try each fault alone, now and not where it is needed first."""
        _ = self._alone

    def together(self, aim: Aim, random: Random) -> Faults | None:
        """Faults that should reach the aim: a way for each of its checks; None where none is known."""
        ways = self.to(Aim(aim.check, aim.shows))
        if not ways:
            return None
        way = random.choice(ways)
        if aim.later is None:
            return way
        # Where it may answer itself, nothing but what is wanted comes before it.
        others = self.to(Aim(aim.later)) if random.random() < _CLEAN else self._breaking(aim.later)
        return self.in_order((*way, *random.choice(others)), random) if others else None

    def in_order(self, names: Faults, random: Random) -> Faults:
        """Any order, but strides last: a new length makes a tensor contiguous again."""
        once = list(dict.fromkeys(names))
        if random.random() < 1 / 2:
            once.reverse()
        return tuple(sorted(once, key=lambda name: self._faults[name].kind == STRIDES))

    def applied(self, case: Case, names: Faults, random: Random) -> Case | None:
        """The call with the faults; None where it cannot have them."""
        spoilt: Case | None = case
        for name in names:
            spoilt = None if spoilt is None else self._faults[name].apply(spoilt, random)
        return spoilt

    @cached_property
    def _alone(self) -> dict[Faults, list[Broken]]:
        """What each fault breaks alone in each of the calls."""
        random = self._random("alone")
        # A fault chooses among values, of which some are right.
        return {(name,): [one for _ in range(_TRIES) for one in self._break((name,), random)] for name in self._faults}

    @cached_property
    def _sizes_together(self) -> dict[Faults, list[Broken]]:
        """The same of two sizes that change everywhere: products of them are large where neither is."""
        random = self._random("sizes")
        sizes = [name for name, fault in self._faults.items() if fault.kind in SIZE_KINDS and fault.everywhere]
        return {names: self._break(names, random, 1) for names in combinations(sizes, 2)}

    def _breaking(self, check: str) -> list[Faults]:
        """Ways that break this check, and maybe others."""
        return self._starts(Aim(check), self._alone) or self._starts(Aim(check), self._sizes_together)

    def _to(self, aim: Aim) -> list[Faults]:
        """One fault where one is enough, else the first set that a bounded search finds on one of the calls."""
        enough = [names for names, seen in self._alone.items() if any(aim.misses(one) == 0 for one in seen)]
        if enough:
            return enough
        alone = ((call, self._starts(aim, self._alone)) for call in self.calls())
        sizes = ((call, self._starts(aim, self._sizes_together)) for call in self.calls())
        random = self._random(str(aim))
        searches = (self._search(aim, call, starts, random) for call, starts in chain(alone, sizes))
        return list(islice((way for way in searches if way is not None), 1))

    def _search(self, aim: Aim, call: Case, starts: Sequence[Faults], random: Random) -> Faults | None:
        """From sets that break the check, fault by fault towards one with which nothing is in the way."""
        beam: list[_Reached] = []
        for names in starts:
            beam.extend(self._reached(aim, self.applied(call, names, random), names, random))
        for _ in range(_FURTHER):
            beam = sorted(beam, key=lambda one: (one.left, one.lot))[:_WIDTH]
            if beam and beam[0].left == 0:
                return beam[0].names
            further: list[_Reached] = []
            for one, name in product(beam, self._faults):
                spoilt = self._faults[name].apply(one.call, random)
                for found in self._reached(aim, spoilt, (*one.names, name), random):
                    if found.left == 0:
                        return found.names
                    further.append(found)
            beam = further
        return None

    def _reached(self, aim: Aim, call: Case | None, names: Faults, random: Random) -> "Iterator[_Reached]":
        broken = None if call is None else self._judge(call)
        left = None if broken is None else aim.misses(broken)
        if call is not None and left is not None:
            yield _Reached(left, random.random(), names, call)

    def _starts(self, aim: Aim, known: Mapping[Faults, Sequence[Broken]]) -> list[Faults]:
        return [names for names, seen in known.items() if any(aim.misses(one) is not None for one in seen)]

    def _break(self, names: Faults, random: Random, calls: int | None = None) -> list[Broken]:
        spoilt = (self.applied(call, names, random) for call in self.calls()[:calls])
        return [broken for one in spoilt if one is not None and (broken := self._judge(one)) is not None]

    def _random(self, what: str) -> Random:
        return Random(f"{self._seed}/{what}")


# A pair is a number: the places of its two features, the lower one first, in a table that never changes.
Pairs = frozenset[int]

_FAULT, _ONE, _CHECK = "fault", "one fault", "check"
SOUND = "none"


def _feature(check: str, shows: Shows) -> tuple[str, str]:
    return shows.value, check


class Features:
    """Everything that a draw may have: a class of each axis, a kind of fault, the faults, the checks they break.

    Of the check that answers also what the draw shows.
    """

    def __init__(self, axes: Mapping[str, Sequence[str]], faults: Mapping[str, str], checks: Sequence[str]) -> None:
        """`axes` gives the names of the classes of each, `faults` the kind of each fault by its name."""
        kinds = (SOUND, *dict.fromkeys(faults.values()))
        columns = {**axes, _FAULT: kinds}
        shown = tuple(_feature(name, shows) for name in checks for shows in Shows)
        alone = (*((_ONE, name) for name in faults), *((_CHECK, name) for name in checks), *shown)
        features = [(axis, name) for axis, names in columns.items() for name in names]
        self._faults, self.count = faults, len(features) + len(alone)
        self._places = {feature: place for place, feature in enumerate((*features, *alone))}
        sizes = [len(names) for names in columns.values()]
        pairs = sum(a * b for a, b in itertools.combinations(sizes, 2))
        self.total = pairs + len(faults) + len(checks) * (len(checks) + 1) // 2 + len(shown)

    def of_classes(self, classes: Mapping[str, str]) -> Pairs:
        """The pairs that a draw of these classes covers, whatever is wrong with it."""
        count = self.count
        return frozenset([low * count + high for low, high in itertools.combinations(self._axes(classes), 2)])

    def of_faults(self, classes: Mapping[str, str], faults: Sequence[str], broken: Broken) -> Pairs:
        """What such a draw covers beside that with these faults, which break these checks."""
        kinds = [self._places[_FAULT, kind] for kind in {self._faults[name] for name in faults} or {SOUND}]
        count = self.count
        pairs = frozenset([place * count + kind for place in self._axes(classes) for kind in kinds])
        return pairs | self.of_checks(faults, broken)

    def of_checks(self, faults: Sequence[str], broken: Broken) -> Pairs:
        """Each fault, and the checks that do not hold, in order: the first meets the others, or itself if alone."""
        wrong = [self._places[_ONE, name] for name in faults]
        return frozenset([*(place * self.count + place for place in wrong), *self._of_answer(broken)])

    def of_aim(self, aim: Aim) -> int:
        """The pair that a draw covers which reaches the aim."""
        if aim.later is not None:
            return self._places[_CHECK, aim.check] * self.count + self._places[_CHECK, aim.later]
        return self._places[_feature(aim.check, aim.shows)] * (self.count + 1)

    def _of_answer(self, broken: Broken) -> Iterable[int]:
        if not broken.checks:
            return
        first, *others = broken.checks
        for other in others or (first,):
            yield self._places[_CHECK, first] * self.count + self._places[_CHECK, other]
        for shows in Shows:
            if broken.shows(shows):
                yield self.of_aim(Aim(first, shows))

    def _axes(self, classes: Mapping[str, str]) -> list[int]:
        return [self._places[feature] for feature in classes.items()]


class Coverage:
    """The pairs that have been drawn."""

    def __init__(self, features: Features, seen: Iterable[int] = ()) -> None:
        self.features = features
        self.seen = set(seen)

    def new(self, pairs: Pairs) -> int:
        """How many of these have not been drawn."""
        return len(pairs - self.seen)

    def add(self, pairs: Pairs) -> None:
        """These have been drawn now."""
        self.seen |= pairs

    def to_text(self) -> str:
        """The pairs as the digits of one number, bit by bit."""
        return f"{sum(1 << pair for pair in self.seen):x}"

    @staticmethod
    def from_text(features: Features, text: str) -> "Coverage":
        """The coverage that `to_text` wrote."""
        number = int(text or "0", 16)
        return Coverage(features, (place for place, bit in enumerate(reversed(f"{number:b}")) if bit == "1"))
