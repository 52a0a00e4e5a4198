"""What faulty draws aim at: calls in which a check that is forgotten, comes too late or at another place would show.

Kinds of violation that together reach an aim are those that cases are derived from, looked for on a few valid calls:
they follow from the seed, not from the draws.

Which classes have been drawn together: pairs of them, and of the checks that do not hold.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache, cached_property, partial
from itertools import combinations, pairwise
from random import Random
from typing import Final

from msgspec.structs import replace

from mluops_gtest.base.frozen import Value
from mluops_gtest.catalog.number_ranges import put_nram
from mluops_gtest.catalog.violation_search import Kinds, Look, Search
from mluops_gtest.catalog.violations import CATEGORIES, STRIDED, Kind, apply_kinds
from mluops_gtest.core.call import Space
from mluops_gtest.core.case import Case
from mluops_gtest.core.declaration import Check
from mluops_gtest.core.operator import Operator
from mluops_gtest.search.status_mutants import RefusedCall, can_be_written, is_told_if_forgotten


class Shows(Enum):
    """What a call shows of the check that answers it."""

    ANSWERED = "answered"
    TOLD = "told"
    WRITTEN = "written"


class Aim(Value):
    """A call that `check` answers and that shows this of it; with `later` one that breaks that check as well."""

    check: str
    shows: Shows = Shows.ANSWERED
    later: str | None = None


Aims = frozenset[Aim]


def aims_of(operator: Operator) -> tuple[list[Aim], list[Aim]]:
    """What every check and every two neighbours of different statuses should be seen in; and all other such pairs.

    Some of them no call can reach.
    """
    reachable = [check for check in operator.checks if check.subsumed is None]
    near = list(pairwise(reachable))
    first = [
        *(Aim(check.name) for check in reachable),
        *(Aim(check.name, Shows.TOLD) for check in reachable),
        *(Aim(check.name, Shows.WRITTEN) for check in reachable if not check.writes),
        *_in_order(near),
    ]
    return first, list(_in_order([pair for pair in combinations(reachable, 2) if pair not in near]))


def _in_order(pairs: list[tuple[Check, Check]]) -> Iterator[Aim]:
    return (Aim(one.name, later=other.name) for one, other in pairs if one.status != other.status)


def reached_aims(look: Look, operator: Operator) -> Aims | None:
    """All aims that the call reaches; None for a call that is none, or that a check cannot look at."""
    if not look.is_defined or (look.answer is None and not look.computes):
        return None
    if look.answer is None:
        return frozenset()
    name = operator.checks[look.answer].name
    case = replace(look.case, expect=replace(look.case.expect, check=name))
    call = RefusedCall("", look.holds, look.answer, can_be_written(case))
    told = [Aim(name, Shows.TOLD)] if is_told_if_forgotten(operator, call) else []
    written = [Aim(name, Shows.WRITTEN)] if call.can_be_written else []
    later = (Aim(name, later=operator.checks[place].name) for place in call.broken_later)
    return frozenset((Aim(name), *told, *written, *later))


# From so many calls that a check answers others are looked for that show more of it.
_STARTS: Final = 16
_NRAM_BYTES: Final = (0, 16, 256, 4096)
# Of the later checks of two so many are broken as if they were the first.
_CLEAN: Final = 0.7


class Ways:
    """The kinds of change that together reach an aim on one of the calls."""

    def __init__(self, operator: Operator, calls: Callable[[], Sequence[Case]], space: Space) -> None:
        self._operator, self._calls, self._space = operator, calls, space
        self._places = {check.name: place for place, check in enumerate(operator.checks)}
        self.to = cache(self._to)

    @cached_property
    def search(self) -> Search:
        """The search for violations, with the calls as its bases."""
        bases = {str(number): call for number, call in enumerate(self._calls())}
        return Search(self._operator, bases, self._space)

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """Every kind of change, also those that leave a call valid; of on-chip memory kernels may take little."""
        memory = (Kind("nram", str(size), "device", partial(put_nram, size=size)) for size in _NRAM_BYTES)
        return (*(kind for kinds in self.search.kinds.values() for kind in kinds), *memory)

    @cached_property
    def _by_target(self) -> Sequence[Sequence[Kind]]:
        targets = dict.fromkeys(kind.target for kind in self.kinds)
        return [[kind for kind in self.kinds if kind.target == target] for target in targets]

    def draw_kind(self, random: Random) -> Kind:
        """Any change of any target; a target that can be changed in more ways is not drawn more often."""
        return random.choice(random.choice(self._by_target))

    def together(self, aim: Aim, random: Random) -> Kinds | None:
        """Changes that should reach the aim: a way for each of its checks; None where none is known."""
        ways = self.to(aim.check, aim.shows)
        if not ways:
            return None
        way = random.choice(ways)
        if aim.later is None:
            return way.kinds
        # Where it may answer itself, nothing but what is wanted comes before it.
        clean = self.to(aim.later, Shows.ANSWERED) if random.random() < _CLEAN else ()
        others = [one for one in clean or self.search.least_of(self._places[aim.later]).broken if one.base == way.base]
        return in_order((*way.kinds, *random.choice(others).kinds), random) if others else None

    def look(self, case: Case, kinds: Kinds) -> Look | None:
        """What the checks say of the case with these changes; None where it cannot have them."""
        changed = apply_kinds(kinds, case)
        return None if changed is None else self.search.look_once(case.id, kinds, changed)

    def _to(self, check: str, shows: Shows) -> Sequence[Look]:
        place, aim = self._places[check], Aim(check, shows)
        answered = self.search.least_of(place).answered
        found = [look for look in answered if self._is_reached(aim, look)]
        if found or shows is not Shows.WRITTEN:
            return found
        more = self.search.with_one_more(answered[:_STARTS])
        return [look for look in more if look.answer == place and self._is_reached(aim, look)]

    def _is_reached(self, aim: Aim, look: Look) -> bool:
        return aim in (reached_aims(look, self._operator) or ())


def in_order(kinds: Kinds, random: Random) -> Kinds:
    """Any order, but strides last: a new length makes a tensor contiguous again."""
    once = list(dict.fromkeys(kinds))
    if random.random() < 1 / 2:
        once.reverse()
    return tuple(sorted(once, key=lambda kind: kind.category == STRIDED))


# A pair is a number: the places of its two features, the lower one first, in a table that never changes.
Pairs = frozenset[int]

_FAULT, _CHECK = "fault", "check"
SOUND = "none"


class Features:
    """Everything that a draw may have: a class of each axis, a category of change, the checks that they break.

    Of the check that answers also what the draw shows.
    """

    def __init__(self, axes: Mapping[str, Sequence[str]], checks: Sequence[str]) -> None:
        """`axes` gives the names of the classes of each."""
        columns = {**axes, _FAULT: (SOUND, *CATEGORIES)}
        shown = tuple((shows, name) for name in checks for shows in Shows)
        features = [(axis, name) for axis, names in columns.items() for name in names]
        alone = (*((_CHECK, name) for name in checks), *shown)
        self.count = len(features) + len(alone)
        self._places: dict[tuple[object, str], int] = {
            feature: place for place, feature in enumerate((*features, *alone))
        }
        pairs = sum(len(one) * len(other) for one, other in itertools.combinations(columns.values(), 2))
        self.total = pairs + len(checks) * (len(checks) - 1) // 2 + len(shown)

    def of_classes(self, classes: Mapping[str, str]) -> Pairs:
        """The pairs that a draw of these classes covers, whatever is wrong with it."""
        count = self.count
        return frozenset([low * count + high for low, high in itertools.combinations(self._axes(classes), 2)])

    def of_faults(self, classes: Mapping[str, str], kinds: Kinds, aims: Aims) -> Pairs:
        """What such a draw covers beside that with these changes, which reach these aims."""
        wrong = [self._places[_FAULT, category] for category in {kind.category for kind in kinds} or {SOUND}]
        count = self.count
        pairs = (place * count + fault for place in self._axes(classes) for fault in wrong)
        return frozenset((*pairs, *map(self.of_aim, aims)))

    def of_aim(self, aim: Aim) -> int:
        """The pair that a draw covers which reaches the aim."""
        if aim.later is not None:
            return self._places[_CHECK, aim.check] * self.count + self._places[_CHECK, aim.later]
        return self._places[aim.shows, aim.check] * (self.count + 1)

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
