"""The calls that come of valid ones by kinds of violation, and what the checks say of them, each asked by itself.

Per check its least violations, of at most three kinds of change, from every base.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Final

from msgspec.structs import replace

from mluops_gtest.base.frozen import Value
from mluops_gtest.catalog.make import each_check
from mluops_gtest.catalog.violation_kinds import kinds_of
from mluops_gtest.catalog.violations import Kind, apply_kinds, has_arrays
from mluops_gtest.core.buffers import bind_values
from mluops_gtest.core.call import Space, Status
from mluops_gtest.core.case import Case
from mluops_gtest.core.operator import Operator

Kinds = tuple[Kind, ...]
# Where one kind of change is not enough: so many sets that break a check are tried with every further kind, and so many
# of those that it then answers are taken.
_MOST_STARTS: Final = 40
_MOST_SETS: Final = 12
_MOST_REMEMBERED: Final = 50_000


class Look(Value):
    """What the checks say of a call: whether each holds, None where it cannot look."""

    base: str
    kinds: Kinds
    case: Case
    holds: tuple[bool | None, ...]
    # A library can be called so.
    is_defined: bool

    @property
    def answer(self) -> int | None:
        """The place of the check that answers; None where none does, or one cannot look before any answers."""
        first = self.holds.index(False) if False in self.holds else len(self.holds)
        return None if None in self.holds[:first] or first == len(self.holds) else first

    @property
    def computes(self) -> bool:
        return all(self.holds)

    @property
    def slug(self) -> str:
        return "_and_".join(kind.slug for kind in self.kinds)


class LeastViolations(Value):
    """Of one check: the least calls that it answers, and the least that break it at all."""

    answered: Sequence[Look]
    broken: Sequence[Look]


class Search:
    """The calls that come of the bases of one operator by its kinds of violation."""

    def __init__(self, operator: Operator, bases: Mapping[str, Case], space: Space | None) -> None:
        self.operator, self.bases = operator, bases
        self._defined = None if space is None else space.defined
        self.kinds = {name: kinds_of(operator, base, space) for name, base in bases.items()}
        self._looks: dict[object, Look] = {}
        self._least: dict[int, LeastViolations] = {}

    def look(self, base: str, kinds: Kinds) -> Look | None:
        """The base with these kinds of change, one after the other; None where it cannot have them."""
        case = apply_kinds(kinds, self.bases[base])
        return None if case is None else self.look_at(base, kinds, case)

    def look_at(self, base: str, kinds: Kinds, case: Case) -> Look:
        """What the checks say of a call, which is remembered."""
        key = (base, call_key(case))
        if len(self._looks) > _MOST_REMEMBERED:
            self._looks.clear()
        if key not in self._looks:
            self._looks[key] = self.look_once(base, kinds, case)
        found = self._looks[key]
        return found if found.kinds == kinds else replace(found, kinds=kinds)

    def look_once(self, base: str, kinds: Kinds, case: Case) -> Look:
        """What the checks say of a call that nobody asks for again."""
        if not has_arrays(case):
            return Look(base, kinds, case, (None,) * len(self.operator.checks), is_defined=False)
        call = bind_values(case, self.operator)
        is_defined = self._defined is None or self._defined(call)
        look = Look(base, kinds, case, tuple(each_check(call, self.operator)), is_defined)
        owes = look.computes or (look.answer is not None and self.operator.checks[look.answer].writes)
        return replace(look, is_defined=look.is_defined and not (owes and _lacks_memory(case)))

    def wrong_kinds(self, base: str) -> Kinds:
        """All kinds but the just-valid ones."""
        return tuple(kind for kind in self.kinds[base] if not kind.is_valid)

    @cached_property
    def singles(self) -> tuple[Look, ...]:
        """Each kind alone, on each base."""
        looks = (self.look(base, (kind,)) for base in self.bases for kind in self.wrong_kinds(base))
        return tuple(look for look in looks if look is not None)

    @cached_property
    def sizes_together(self) -> tuple[Look, ...]:
        """Every two symbols that change everywhere: their product may be too large where neither is."""
        return self._together(lambda kind: kind.is_everywhere)

    @cached_property
    def doubles(self) -> tuple[Look, ...]:
        """Every two kinds, for checks that none breaks alone."""
        return self._together(lambda _: True)

    def _together(self, is_wanted: Callable[[Kind], bool]) -> tuple[Look, ...]:
        kinds = {base: filter(is_wanted, self.wrong_kinds(base)) for base in self.bases}
        looks = (self.look(base, pair) for base, own in kinds.items() for pair in combinations(own, 2))
        return tuple(look for look in looks if look is not None)

    def least_of(self, place: int) -> LeastViolations:
        """The least violations of the check in that place."""
        if place not in self._least:
            self._least[place] = least_violations(self, place)
        return self._least[place]

    def with_one_more(self, looks: Sequence[Look]) -> Iterator[Look]:
        """These calls with every further kind, behind and in front of theirs."""
        for look in looks:
            for kind in self.wrong_kinds(look.base):
                for kinds in ((*look.kinds, kind), (kind, *look.kinds)):
                    more = self.look(look.base, kinds)
                    if more is not None:
                        yield more

    def is_told(self, look: Look) -> bool:
        """Whoever forgets the check that answers gives another status, or computes."""
        answer = look.answer
        assert answer is not None
        after = look.holds[answer + 1 :]
        own = self.operator.checks[answer]
        if False not in after:
            return own.status is not Status.SUCCESS or None in after or not own.writes
        following = answer + 1 + after.index(False)
        return None in look.holds[answer + 1 : following] or self.operator.checks[following].status != own.status


def call_key(case: Case) -> object:
    """What two calls have in common that are the same for every check."""
    descriptors = tuple((t.desc.dtype, t.desc.layout, t.desc.dims, t.desc.strides) for t in case.tensors)
    expect = replace(case.expect, status=Status.SUCCESS, check=None, degenerate=None)
    # −0 is another parameter than 0, and NaN is the same as NaN.
    values = (repr(value) if isinstance(value, float) else value for value in case.params.values())
    return descriptors, tuple(values), expect


def _lacks_memory(case: Case) -> bool:
    """An input has no values, or an output no place for each element, which a call that computes needs."""
    bare = any(tensor.data is None and not tensor.desc.is_empty for tensor in case.inputs)
    return bare or any(one.id in case.expect.null_pointer or one.desc.overlaps for one in case.outputs)


def least_violations(search: Search, place: int) -> LeastViolations:
    """Single kinds where one is enough, else two, else three."""
    alone = _breaking(search.singles, place)
    starts, first = alone, _answered(alone, place)
    if not first:
        starts = [*alone, *_breaking(search.sizes_together, place)]
        starts = starts or _breaking(search.doubles, place)
        first = _answered(starts, place)
    nearest = sorted(starts, key=lambda look: look.holds[:place].count(False))[:_MOST_STARTS]
    if not any(map(search.is_told, first)):
        more = _answered(search.with_one_more(nearest), place)
        if not any(map(search.is_told, more)):
            # What must agree in three tensors is told by three changes.
            more += _answered(search.with_one_more(_fewest(more)), place)
        told = [look for look in more if search.is_told(look)]
        first += [*_fewest(told), *_fewest(_least([look for look in more if not search.is_told(look)], first))]
    broken = {call_key(look.case): look for look in (*(alone or nearest), *first)}
    return LeastViolations(first, list(broken.values()))


def _least(looks: Iterable[Look], smaller: Iterable[Look]) -> list[Look]:
    """The calls whose kinds do without all those of a smaller one."""
    sets = [{kind.slug for kind in look.kinds} for look in smaller]
    return [look for look in looks if not any(one <= {kind.slug for kind in look.kinds} for one in sets)]


def _fewest(looks: list[Look]) -> list[Look]:
    """Those that break the fewest checks."""
    return sorted(looks, key=lambda look: look.holds.count(False))[:_MOST_SETS]


def _breaking(looks: Iterable[Look], place: int) -> list[Look]:
    return [look for look in looks if look.holds[place] is False]


def _answered(looks: Iterable[Look], place: int) -> list[Look]:
    """The calls that this check answers, each once."""
    found = {call_key(look.case): look for look in looks if look.is_defined and look.answer == place}
    return list(found.values())
