"""The calls of one operator that a seed gives, one after the other: what comes next depends on what was drawn before,
never on what came back or on how fast it did."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from mluops_gtest.content.vocabulary import Vocabulary
from mluops_gtest.errors import DeclarationError, OperatorError
from mluops_gtest.fuzz.classes import Axes, SpacePoint
from mluops_gtest.fuzz.coverage import Coverage, Features, Pairs
from mluops_gtest.fuzz.faults import Fault, faults_of
from mluops_gtest.generate.make import make_drawn
from mluops_gtest.model.binding import bind_values
from mluops_gtest.model.case import Case, CaseDraft, Expect
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.space import Space

# Of so many the one with the most new pairs is taken.
_CANDIDATES: Final = 6
# Sets of candidates of which none can be made before a number is passed over.
_ROUNDS: Final = 8
# Of all draws: without a fault, and with one or none; the rest has two.
_SOUND, _ONE_FAULT = 0.55, 0.8
# A call of more elements is large, and one draw in fifty may be.
LARGE: Final = 1 << 14
_LARGE_EVERY: Final = 50
_LARGE_BITS: Final = (14.0, 20.0)
# Elements of the others, as powers of two: most calls are small, and all are quick.
_SMALL_BITS: Final = (3.0, 13.0)
_FAULTY_BITS: Final = (3.0, 9.0)


@dataclass(frozen=True, slots=True)
class DrawnCase:
    """One drawn call, complete with what must come back."""

    number: int
    case: Case
    pairs: Pairs
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Candidate:
    point: SpacePoint
    faults: tuple[str, ...]
    pairs: Pairs


class _UnfitError(DeclarationError):
    """The faults do not go with the call."""


class Draws:
    """The draws of one operator under one seed."""

    def __init__(self, operator: Operator, space: Space, seed: int) -> None:
        self.operator, self.seed = operator, seed
        self._space = space
        self._axes = Axes(space.axes)
        self._faults = faults_of(operator, space.limits)
        self._dtype = Vocabulary(operator).default_dtype
        names = {axis: [one.name for one in classes] for axis, classes in self._axes.classes.items()}
        self.features = Features(names, {fault.name: fault.kind for fault in self._faults.values()})
        words = repr((sorted(names.items()), sorted(self._faults), seed))
        # What the sequence of draws follows from; the operator's recipes may still make other calls of them.
        self.digest = hashlib.sha256(words.encode()).hexdigest()[:16]
        self.coverage = Coverage(self.features)

    def draw(self, number: int) -> DrawnCase | None:
        """The call of that number, and its pairs are covered from now on; None where none could be made."""
        random = Random(f"{self.seed}/{self.operator.name}/{number}")
        bits, faults = self._kind(number, random)
        for _ in range(_ROUNDS):
            for candidate in self._candidates(random, bits, faults):
                case = self._made(number, candidate, random)
                if case is not None:
                    self.coverage.add(candidate.pairs)
                    return DrawnCase(number, case, candidate.pairs, candidate.faults)
        return None

    def _kind(self, number: int, random: Random) -> tuple[tuple[float, float], int]:
        """The range of elements as powers of two, and how many faults."""
        if number % _LARGE_EVERY == _LARGE_EVERY - 1:
            return _LARGE_BITS, 0
        share = random.random()
        if share < _SOUND:
            return _SMALL_BITS, 0
        return _FAULTY_BITS, 1 if share < _ONE_FAULT else 2

    def _candidates(self, random: Random, bits: tuple[float, float], faults: int) -> Sequence[_Candidate]:
        """Those with the most new pairs first."""
        found = []
        for _ in range(_CANDIDATES):
            point = self._point(random, 2.0 ** random.uniform(*bits))
            chosen = tuple(random.sample(tuple(self._faults), faults))
            classes = {axis: one.name for axis, one in point.classes.items()}
            found.append(_Candidate(point, chosen, self.features.pairs(classes, chosen)))
        return sorted(found, key=lambda candidate: -self.coverage.new(candidate.pairs))

    def _point(self, random: Random, most: float) -> SpacePoint:
        """Any point with at most so many elements: what is too large shrinks along one axis after the other."""
        point = self._axes.draw(random)
        while self._space.elements(point.values) > most:
            smaller = self._axes.smaller(point, random)
            if smaller is None:
                break
            point = smaller
        return point

    def _made(self, number: int, candidate: _Candidate, random: Random) -> Case | None:
        """The complete case; None where the call is not defined, or the recipe cannot make it."""
        drawn = self._space.draw(candidate.point.values)
        if drawn is None:
            return None
        name = self.operator.name
        draft = CaseDraft(
            id=f"{name}/fuzz_{self.seed}_{number}",
            operator=name,
            tags=("random",),
            doc="",
            recipe=drawn.recipe,
            args=drawn.args,
            params=drawn.params,
            dtype=drawn.dtype or self._dtype,
            seed=random.getrandbits(32),
            expect=Expect(),
            changes={},
            changed_params={},
            criteria={},
            expect_declared=False,
            note="",
            where=f"space.py of {name}",
            digest="",
        )
        faults = [self._faults[fault] for fault in candidate.faults]
        try:
            return make_drawn(draft, self.operator, lambda case: self._spoilt(case, faults, random))
        except OperatorError:
            raise
        except DeclarationError:
            return None

    def _spoilt(self, case: Case, faults: Sequence[Fault], random: Random) -> Case:
        for fault in faults:
            changed = fault.apply(case, random)
            if changed is None:
                raise _UnfitError(f"{case.id} cannot have the fault {fault.name!r}")
            case = changed
        defined = self._space.defined
        if faults and defined is not None and not defined(bind_values(case, self.operator)):
            raise _UnfitError(f"{case.id} would be no call at all")
        return replace(case, doc=", ".join(fault.name for fault in faults))
