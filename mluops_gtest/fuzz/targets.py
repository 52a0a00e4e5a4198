"""What is drawn for, how far that has come, and each case that is run for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from mluops_gtest.fuzz.corpus import Progress
from mluops_gtest.fuzz.coverage import Coverage, Pairs
from mluops_gtest.fuzz.draws import Draws
from mluops_gtest.model.case import Case
from mluops_gtest.model.operator import Operator, Reduction
from mluops_gtest.value import Value


@dataclass(slots=True)
class FuzzedOperator:
    """An operator that is drawn for, and how far that has come without a gap."""

    operator: Operator
    draws: Draws
    backend: str
    # How its calls become smaller.
    reductions: Mapping[str, Reduction] = field(default_factory=dict)
    done: int = 0
    coverage: Coverage = field(init=False)
    # Finished draws after one that is not.
    _ahead: dict[int, Pairs] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.coverage = Coverage(self.draws.features)

    @property
    def begun(self) -> Progress:
        """The hunt, as if nothing were done."""
        return Progress(self.operator.name, self.backend, self.draws.seed, self.draws.digest)

    @property
    def progress(self) -> Progress:
        """How far the hunt is."""
        new = self.begun
        return Progress(new.operator, new.backend, new.seed, new.space, self.done, self.coverage.to_text())

    def resume(self, progress: Progress) -> None:
        """Go on behind what is done."""
        self.done = progress.draws
        self.coverage = Coverage.from_text(self.draws.features, progress.seen)
        self.draws.coverage.seen = set(self.coverage.seen)

    def finished(self, number: int, pairs: Pairs) -> None:
        """This draw is done; others before it may still run."""
        with self._lock:
            self._ahead[number] = pairs
            while self.done in self._ahead:
                self.coverage.add(self._ahead.pop(self.done))
                self.done += 1


class Job(Value):
    """A case to run: one of the corpus, or a draw."""

    target: FuzzedOperator
    case: Case | None = None
    number: int = -1
    pairs: Pairs = frozenset()
    file: Path | None = None
