"""Faults that together reach an aim, looked for on a few valid calls: they follow from the seed, not from the draws."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import chain, combinations, islice, product
from random import Random
from typing import Final, NamedTuple

from mluops_gtest.fuzz.aims import Aim, Broken
from mluops_gtest.fuzz.faults import SIZE_KINDS, STRIDES, Fault
from mluops_gtest.model.case import Case

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
        self._faults, self._calls, self._judge, self._seed = faults, calls, judge, seed
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
        return {(name,): [one for _ in range(_TRIES) for one in self._tried((name,), random)] for name in self._faults}

    @cached_property
    def _sizes_together(self) -> dict[Faults, list[Broken]]:
        """The same of two sizes that change everywhere: products of them are large where neither is."""
        random = self._random("sizes")
        sizes = [name for name, fault in self._faults.items() if fault.kind in SIZE_KINDS and fault.everywhere]
        return {names: self._tried(names, random, 1) for names in combinations(sizes, 2)}

    def _breaking(self, check: str) -> list[Faults]:
        """Ways that break this check, and maybe others."""
        return self._starts(Aim(check), self._alone) or self._starts(Aim(check), self._sizes_together)

    def _to(self, aim: Aim) -> list[Faults]:
        """One fault where one is enough, else the first set that a bounded search finds on one of the calls."""
        enough = [names for names, seen in self._alone.items() if any(aim.misses(one) == 0 for one in seen)]
        if enough:
            return enough
        alone = ((call, self._starts(aim, self._alone)) for call in self._calls())
        sizes = ((call, self._starts(aim, self._sizes_together)) for call in self._calls())
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

    def _tried(self, names: Faults, random: Random, calls: int | None = None) -> list[Broken]:
        spoilt = (self.applied(call, names, random) for call in self._calls()[:calls])
        return [broken for one in spoilt if one is not None and (broken := self._judge(one)) is not None]

    def _random(self, what: str) -> Random:
        return Random(f"{self._seed}/{what}")
