"""The calls of one operator that a seed gives, one after the other: what comes next depends on what was drawn before,
never on what came back or on how fast it did.
"""

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import cycle, islice
from random import Random
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.base.errors import DeclarationError, OperatorError
from mluops_gtest.base.frozen import Value
from mluops_gtest.catalog.make import make_call, make_fuzz_case
from mluops_gtest.catalog.prompt import draft_of_call, words_of
from mluops_gtest.catalog.violation_search import Kinds, Look
from mluops_gtest.core.call import Choice, Drawn, Sizes, Space
from mluops_gtest.core.case import Case, CaseDraft
from mluops_gtest.core.operator import Operator
from mluops_gtest.search.fault_search import Aim, Coverage, Features, Pairs, Ways, aims_of, in_order, reached_aims


class SizeClass(Value):
    """All sizes from `low` to `high`."""

    low: int
    high: int

    @property
    def name(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}…{self.high}"

    def draw(self, random: Random) -> int:
        """Any of the sizes."""
        return random.randint(self.low, self.high)


class ChoiceClass(Value):
    """One listed value."""

    name: str
    value: Any

    def draw(self, random: Random) -> Any:  # noqa: ARG002 - there is no other
        """The value."""
        return self.value


AxisClass = SizeClass | ChoiceClass


def classes_of(axis: Sizes | Choice) -> tuple[AxisClass, ...]:
    """The classes of an axis; those of sizes in ascending order."""
    if isinstance(axis, Choice):
        return tuple(ChoiceClass(str(value), value) for value in axis.values)
    return tuple(_size_classes(axis))


def _size_classes(axis: Sizes) -> Iterator[SizeClass]:
    """Low and low + 1, 2^k − 1, 2^k, 2^k + 1 and high each by itself, and what lies between two of them."""
    powers = (1 << k for k in range(2, axis.high.bit_length() + 1))
    alone = {axis.low, axis.low + 1, axis.high, *(power + step for power in powers for step in (-1, 0, 1))}
    nxt = axis.low
    for size in sorted(size for size in alone if axis.low <= size <= axis.high):
        if nxt < size:
            yield SizeClass(nxt, size - 1)
        yield SizeClass(size, size)
        nxt = size + 1


class SpacePoint(Value):
    """One value per axis of a space, and the places of the classes that they were drawn from."""

    values: Mapping[str, Any]
    places: Mapping[str, int]


class Axes:
    """The axes of a space by their classes."""

    def __init__(self, axes: Mapping[str, Sizes | Choice]) -> None:
        self.classes = {name: classes_of(axis) for name, axis in axes.items()}
        self._sizes = tuple(name for name, axis in axes.items() if isinstance(axis, Sizes))

    def draw(self, random: Random) -> SpacePoint:
        """Any class of each axis, and any value of the class."""
        places = {name: int(random.random() * len(classes)) for name, classes in self.classes.items()}
        return SpacePoint({name: self.classes[name][place].draw(random) for name, place in places.items()}, places)

    def smaller(self, point: SpacePoint, random: Random) -> SpacePoint | None:
        """The point with another axis in a class of smaller sizes; None where all sizes are the smallest."""
        able = [name for name in self._sizes if point.places[name]]
        if not able:
            return None
        name = able[int(random.random() * len(able))]
        place = int(random.random() * point.places[name])
        value = self.classes[name][place].draw(random)
        return SpacePoint({**point.values, name: value}, {**point.places, name: place})

    def names(self, point: SpacePoint) -> dict[str, str]:
        """Axis → the name of the class."""
        return {axis: self.classes[axis][place].name for axis, place in point.places.items()}


# Of so many the one with the most new pairs is taken.
_CANDIDATES: Final = 6
# Sets of candidates of which none can be made before a number is passed over.
_ROUNDS: Final = 8
# Of all draws: without a fault, and with one or none; the rest has two.
_SOUND, _ONE_FAULT = 0.55, 0.75
# Of so many sets of faults the best one is taken.
_FAULT_SETS: Final = 16
# Valid calls on which faults are tried beforehand.
_PROBED: Final = 3
# Second faults that are like the first.
_ALIKE: Final = 0.5
# A call of more elements is large, and one draw in fifty may be.
LARGE: Final = 1 << 14
_LARGE_EVERY: Final = 50
_LARGE_BITS: Final = (14.0, 20.0)
# Elements of the others, as powers of two: most calls are small, and all are quick.
_SMALL_BITS: Final = (3.0, 13.0)
_FAULTY_BITS: Final = (3.0, 12.0)


class FuzzDraw(Value):
    """One drawn call, complete with what must come back."""

    number: int
    case: Case
    pairs: Pairs
    faults: tuple[str, ...] = ()
    # Its words, which make it again; empty where none do.
    words: str = ""


class _UnfitError(DeclarationError):
    """No fault goes with the call."""


@dataclass(slots=True)
class _InjectedFaults:
    """The faults of a call, and the pairs that it covers."""

    faults: tuple[str, ...]
    pairs: Pairs


class Draws:
    """The draws of one operator under one seed."""

    def __init__(self, operator: Operator, space: Space, seed: int, *, valid: bool = False) -> None:
        """`valid`: without faults."""
        self.operator, self.seed, self._valid_alone = operator, seed, valid
        self._space = space
        self._axes = Axes(space.axes)
        names = {axis: [one.name for one in classes] for axis, classes in self._axes.classes.items()}
        checks = [check.name for check in operator.checks]
        self.features = Features(names, checks)
        words = repr((sorted(names.items()), checks, seed, *([valid] if valid else [])))
        # What the sequence of draws follows from; the operator's recipes may still make other calls of them.
        self.digest = hashlib.sha256(words.encode()).hexdigest()[:16]
        self.coverage = Coverage(self.features)
        self.ways = Ways(operator, cache(self._probes), space)

    def draw(self, number: int) -> FuzzDraw | None:
        """The call of that number, and its pairs are covered from now on; None where none could be made."""
        # Values that overflow are drawn on purpose.
        with np.errstate(all="ignore"):
            return self._draw(number)

    def _draw(self, number: int) -> FuzzDraw | None:
        random = Random(f"{self.seed}/{self.operator.name}/{number}")
        bits, faults = self._kind(number, random)
        for _ in range(_ROUNDS):
            for point in self._candidates(random, bits):
                drawn = self._make(number, point, faults, random)
                if drawn is not None:
                    self.coverage.add(drawn.pairs)
                    return drawn
        return None

    def _kind(self, number: int, random: Random) -> tuple[tuple[float, float], int]:
        """The range of elements as powers of two, and how many faults at most."""
        if number % _LARGE_EVERY == _LARGE_EVERY - 1:
            return _LARGE_BITS, 0
        share = random.random()
        if share < _SOUND or self._valid_alone:
            return _SMALL_BITS, 0
        return _FAULTY_BITS, 1 if share < _ONE_FAULT else 2

    def _candidates(self, random: Random, bits: tuple[float, float]) -> Sequence[SpacePoint]:
        """Those with the most new pairs first."""
        points = [self._point(random, 2.0 ** random.uniform(*bits)) for _ in range(_CANDIDATES)]
        # What does not become small by its sizes alone is left to the draws that may be large.
        fitting = [point for point in points if self._space.elements(point.values) <= 2.0 ** bits[1]]
        return sorted(fitting, key=lambda point: -self.coverage.new(self.features.of_classes(self._axes.names(point))))

    def _point(self, random: Random, most: float) -> SpacePoint:
        """Any point with at most so many elements: what is too large shrinks along one axis after the other."""
        point = self._axes.draw(random)
        while self._space.elements(point.values) > most:
            smaller = self._axes.smaller(point, random)
            if smaller is None:
                break
            point = smaller
        return point

    def _make(self, number: int, point: SpacePoint, faults: int, random: Random) -> FuzzDraw | None:
        """The complete case; None where the call is not defined, or the recipe cannot make it."""
        draft = self._draft(number, point, random)
        if draft is None:
            return None
        classes = self._axes.names(point)
        done = _InjectedFaults((), self.features.of_faults(classes, (), frozenset()))

        def spoil(case: Case) -> Case:
            return self._inject(case, classes, faults, random, done) if faults else case

        try:
            case = make_fuzz_case(draft, self.operator, spoil)
        except OperatorError:
            raise
        except DeclarationError:
            return None
        drawn = Drawn(draft.recipe, draft.params, draft.args, draft.dtype)
        words = "" if done.faults else words_of(self.operator, drawn, draft.seed)
        return FuzzDraw(number, case, self.features.of_classes(classes) | done.pairs, done.faults, words)

    def _draft(self, number: int, point: SpacePoint, random: Random) -> CaseDraft | None:
        drawn = self._space.draw(point.values)
        if drawn is None:
            return None
        name = self.operator.name
        draft = draft_of_call(self.operator, drawn, random.getrandbits(32))
        return replace(draft, id=f"{name}/fuzz_{self.seed}_{number}", params=drawn.params, where=f"the space of {name}")

    def _inject(
        self, case: Case, classes: Mapping[str, str], faults: int, random: Random, done: _InjectedFaults
    ) -> Case:
        """The call with the faults that reach most new aims, then cover most new pairs, out of several sets of them."""
        best: Look | None = None
        most = (-1, -1)
        for kinds in self._fault_sets(faults, random):
            look = self.ways.look(case, kinds)
            aims = None if look is None else reached_aims(look, self.operator)
            if look is None or aims is None:
                if look is not None and look.is_defined:
                    # A check fails on it: whoever makes the case is told.
                    return look.case
                continue
            pairs = self.features.of_faults(classes, kinds, aims)
            new = pairs - self.coverage.seen
            if (gain := (len(new & self._aimed), len(new))) > most:
                best, most, done.pairs = look, gain, pairs
        if best is None:
            raise _UnfitError(f"{case.id} can have none of the faults")
        done.faults = tuple(kind.slug for kind in best.kinds)
        return replace(best.case, doc=", ".join(done.faults))

    def _fault_sets(self, faults: int, random: Random) -> Sequence[Kinds]:
        """Of several half aim at what was not reached before; the others, and one fault alone, are any."""
        sets = [self._fault_set(faults, random) for _ in range(_FAULT_SETS)]
        if faults == 1:
            return sets
        half = _FAULT_SETS // 2
        aimed = (self.ways.together(aim, random) for aim in self._next_aims(half, random))
        return (*(kinds for kinds in aimed if kinds is not None), *sets[half:])

    @cached_property
    def _aims(self) -> tuple[dict[int, Aim], ...]:
        """Those that matter first, and the others, by the pair that a draw covers which reaches one."""
        return tuple({self.features.of_aim(aim): aim for aim in aims} for aims in aims_of(self.operator))

    @cached_property
    def _aimed(self) -> Pairs:
        return frozenset(pair for aims in self._aims for pair in aims)

    def _next_aims(self, count: int, random: Random) -> Sequence[Aim]:
        """Some that no draw has reached: most of those that matter first, as long as there are any."""
        first, others = ([aim for pair, aim in aims.items() if pair not in self.coverage.seen] for aims in self._aims)
        random.shuffle(first)
        most = count - count // 4
        able = islice((aim for aim in first if self.ways.to(aim.check, aim.shows)), most)
        # The few that are left are hard to reach, and tried again and again.
        chosen = list(islice(cycle(able), most))
        return [*chosen, *random.sample(others, min(len(others), count - len(chosen)))]

    def _fault_set(self, faults: int, random: Random) -> Kinds:
        """As many faults; of two often both of one category, since what must agree is often wrong together."""
        first, second = self.ways.draw_kind(random), self.ways.draw_kind(random)
        if faults == 1:
            return (first,)
        if random.random() < _ALIKE:
            second = random.choice([kind for kind in self.ways.kinds if kind.category == first.category])
        return in_order((first, second), random)

    def _probes(self) -> Sequence[Case]:
        """A few valid calls, on which faults are tried."""
        found: list[Case] = []
        for number in range(_PROBED):
            random = Random(f"{self.seed}/{self.operator.name}/probe {number}")
            points = (self._point(random, 2.0 ** _FAULTY_BITS[1]) for _ in range(_ROUNDS))
            calls = (self._valid(-1 - number, point, random) for point in points)
            found.extend(islice((call for call in calls if call is not None), 1))
        return found

    def _valid(self, number: int, point: SpacePoint, random: Random) -> Case | None:
        """The call as the recipe makes it, without a baseline; None where it cannot."""
        draft = self._draft(number, point, random)
        with contextlib.suppress(DeclarationError):
            return None if draft is None else make_call(draft, self.operator)
        return None
