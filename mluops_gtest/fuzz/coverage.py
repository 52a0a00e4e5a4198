"""Which classes have been drawn together: pairs of them, and of the checks that do not hold."""

import itertools
from collections.abc import Iterable, Mapping, Sequence

from mluops_gtest.fuzz.aims import Aim, Broken, Shows

# A pair is a number: the places of its two features, the lower one first, in a table that never changes.
Pairs = frozenset[int]

_FAULT, _ONE, _CHECK = "fault", "one fault", "check"
SOUND = "none"


def _shown(check: str, shows: Shows) -> tuple[str, str]:
    return shows.value, check


class Features:
    """Everything that a draw may have: a class of each axis, a kind of fault, the faults, the checks they break.

    Of the check that answers also what the draw shows.
    """

    def __init__(self, axes: Mapping[str, Sequence[str]], faults: Mapping[str, str], checks: Sequence[str]) -> None:
        """`axes` gives the names of the classes of each, `faults` the kind of each fault by its name."""
        kinds = (SOUND, *dict.fromkeys(faults.values()))
        columns = {**axes, _FAULT: kinds}
        shown = tuple(_shown(name, shows) for name in checks for shows in Shows)
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
        return self._places[_shown(aim.check, aim.shows)] * (self.count + 1)

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
