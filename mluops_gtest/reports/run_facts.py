"""What the summary of a run says of its results, gathered one by one, so that no result need be kept for it."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from mluops_gtest.model.arbitration import Arbitration
from mluops_gtest.model.outcome import Outcome
from mluops_gtest.model.result import CaseResult, StressReading


class RunFacts:
    """Counts, and of what is rare the thing itself."""

    def __init__(self) -> None:
        self.cases = 0
        # By operator.
        self.outcomes: dict[str, Counter[Outcome]] = defaultdict(Counter)
        self.seconds: dict[str, float] = defaultdict(float)
        # The reasons of cases that were skipped or not run, and how often each occurs.
        self.not_tested: dict[Outcome, Counter[str]] = {Outcome.SKIPPED: Counter(), Outcome.NOT_RUN: Counter()}
        # Cases that do not block and have notes, and the first note.
        self.noted = 0
        self.first_note = ""
        # Elements beyond what arithmetic allows in cases that do not block; the case that has the worst of them.
        self.with_outliers = self.outliers = 0
        self.precisions: set[str] = set()
        self.outlier: CaseResult | None = None
        self.arbitrated: list[Arbitration] = []
        self.stress: list[StressReading] = []
        self.hosts: dict[str, Counter[Outcome]] = defaultdict(Counter)

    @staticmethod
    def of(results: Iterable[CaseResult]) -> "RunFacts":
        """The facts about these results."""
        facts = RunFacts()
        for result in results:
            facts.add(result)
        return facts

    def add(self, result: CaseResult) -> None:
        """One more result."""
        self.cases += 1
        operator, outcome = result.operator or "?", result.outcome
        self.outcomes[operator][outcome] += 1
        self.seconds[operator] += result.seconds
        if outcome in self.not_tested:
            self.not_tested[outcome][result.reason] += 1
        if result.host:
            self.hosts[result.host][outcome] += 1
        if result.stress is not None:
            self.stress.append(result.stress)
        self.arbitrated.extend(result.arbitrated)
        if outcome.blocks:
            return
        if result.outliers:
            self._add_outliers(result)
        elif result.notes:
            self.first_note = self.first_note or f"{result.case}: {result.notes[0]}"
            self.noted += 1

    def _add_outliers(self, result: CaseResult) -> None:
        self.with_outliers += 1
        self.outliers += result.outliers
        self.precisions.update(reading.precision for reading in result.elements if reading.beyond)
        if self.outlier is None or _worst(result) > _worst(self.outlier):
            self.outlier = result


def _worst(result: CaseResult) -> float:
    return max(reading.ratio for reading in result.elements)
