"""Which classes have been drawn together: pairs of them, and pairs of faults."""

import itertools
from collections.abc import Iterable, Mapping, Sequence

# A pair is a number: the places of its two features, the lower one first, in a table that never changes.
Pairs = frozenset[int]

_FAULT = "fault"
SOUND = "none"


class Features:
    """Everything that a draw may have: a class of each axis, a kind of fault, the faults themselves."""

    def __init__(self, axes: Mapping[str, Sequence[str]], faults: Mapping[str, str]) -> None:
        """`axes` gives the names of the classes of each, `faults` the kind of each fault by its name."""
        kinds = (SOUND, *dict.fromkeys(faults.values()))
        columns = {**axes, _FAULT: kinds}
        features = [(axis, name) for axis, names in columns.items() for name in names]
        self._faults = faults
        self._places = {feature: place for place, feature in enumerate((*features, *((None, name) for name in faults)))}
        sizes = [len(names) for names in columns.values()]
        self.total = sum(a * b for a, b in itertools.combinations(sizes, 2)) + len(faults) * (len(faults) + 1) // 2

    @property
    def count(self) -> int:
        return len(self._places)

    def pairs(self, classes: Mapping[str, str], faults: Sequence[str]) -> Pairs:
        """The pairs that a draw of these classes with these faults covers."""
        kinds = dict.fromkeys(self._faults[name] for name in faults) or {SOUND: None}
        axes = [self._places[feature] for feature in classes.items()]
        wrong = [self._places[None, name] for name in faults]
        found = {
            *itertools.combinations(axes, 2),
            *((place, self._places[_FAULT, kind]) for place in axes for kind in kinds),
            *itertools.combinations_with_replacement(sorted(wrong), 2),
        }
        return frozenset(low * self.count + high for low, high in found)


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
