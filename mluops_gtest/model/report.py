"""A whole run: its results, what it ran on, and the exit code that follows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

from msgspec import field
from msgspec.structs import replace

from mluops_gtest.errors import ExitCode
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.value import Value

FORMAT = 1


class Tally:
    """What follows from all results of a run together, gathered one by one."""

    def __init__(self, results: Iterable[CaseResult] = ()) -> None:
        self.cases = 0
        # Cases that --reseed left with the values that they have without it, and those that drew more than once.
        self.fixed = self.redrawn = 0
        self._outcomes: Counter[Outcome] = Counter()
        self._codes: set[ExitCode] = set()
        self._compared = False
        for result in results:
            self.add(result)

    def add(self, result: CaseResult) -> None:
        """Count it."""
        self.cases += 1
        self._outcomes[result.outcome] += 1
        self._compared = self._compared or result.compared
        if result.bug:
            self._codes.add(ExitCode.BUG)
        elif result.content_error:
            self._codes.add(ExitCode.CONTENT)
        elif result.outcome.blocks:
            self._codes.add(ExitCode.FAILED)
        if result.info.reseeded is not None:
            self.fixed += result.info.reseeded.fixed
            self.redrawn += result.info.reseeded.redraws > 0

    @property
    def summary(self) -> dict[str, int]:
        """How many results have each outcome, in the order of the outcomes; absent ones are left out."""
        return {outcome.value: self._outcomes[outcome] for outcome in Outcome if self._outcomes[outcome]}

    @property
    def failing(self) -> int:
        """Cases that ran and block."""
        return sum(n for outcome, n in self._outcomes.items() if _fails(outcome))

    @property
    def exit_code(self) -> ExitCode:
        """Broken content, blocking outcomes, nothing compared: the worst of what applies."""
        return ExitCode.worst(self._codes if self._compared else {*self._codes, ExitCode.EMPTY})


class TalliedResults(Sequence[CaseResult]):
    """Results that are read when they are asked for; what is asked of all together is known without that."""

    tally: Tally


class PickedResults(TalliedResults):
    """Results of other reports in an order of their own; those that are read when asked for still are."""

    def __init__(self, picked: Sequence[tuple[Sequence[CaseResult], int]], tally: Tally) -> None:
        self._picked = picked
        self.tally = tally

    def __len__(self) -> int:
        return len(self._picked)

    @overload
    def __getitem__(self, index: int) -> CaseResult: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[CaseResult, ...]: ...
    def __getitem__(self, index: int | slice) -> CaseResult | tuple[CaseResult, ...]:
        if isinstance(index, slice):
            return tuple(results[place] for results, place in self._picked[index])
        results, place = self._picked[index]
        return results[place]


class ResultsByCase(Mapping[str, CaseResult]):
    """Results by the names of their cases; those that are read when asked for still are."""

    def __init__(self, results: Sequence[CaseResult], places: Mapping[str, int]) -> None:
        self._results, self._places = results, places

    def __getitem__(self, case: str) -> CaseResult:
        return self._results[self._places[case]]

    def among(self, cases: Iterable[str]) -> "ResultsByCase":
        """Those of these cases."""
        return ResultsByCase(self._results, {case: self._places[case] for case in cases})

    def __contains__(self, case: object) -> bool:
        return case in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


# With room for what is found out once.
class RunReport(Value, dict=True):
    """What report.json holds."""

    tool_version: str
    backend: Mapping[str, Any]
    environment: Mapping[str, Any]
    selection: Mapping[str, Any]
    started: str
    seconds: float
    results: Sequence[CaseResult]
    # Seconds by phase: generate, load, backend, compare, write.
    timing: Mapping[str, float] = field(default_factory=dict)
    interrupted: bool = False
    # Which code was tested, see model/labels.py.
    labels: Mapping[str, str] = field(default_factory=dict)
    # Operator → tensor → its shape in symbols, as the operator declares it.
    shapes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @cached_property
    def tally(self) -> Tally:
        """What follows from all results together."""
        return self.results.tally if isinstance(self.results, TalliedResults) else Tally(self.results)

    @property
    def failing(self) -> tuple[CaseResult, ...]:
        """Cases that ran and block; those that are read for this without their maps, which take most of the memory."""
        if not self.tally.failing:
            return ()
        found = (result for result in self.results if _fails(result.outcome))
        if isinstance(self.results, TalliedResults):
            found = (replace(result, profile=None) for result in found)
        return tuple(found)

    @property
    def summary(self) -> dict[str, int]:
        """How many results have each outcome, in the order of the outcomes; absent ones are left out."""
        return self.tally.summary

    @property
    def reseed(self) -> int | None:
        """The N of --reseed N; None for a run with the declared values."""
        number = self.selection.get("reseed")
        return number if isinstance(number, int) else None

    @property
    def looked_at_elements(self) -> bool:
        """Every element was held to what arithmetic allows, where the operator declares that."""
        return self.selection.get("elementwise") is True

    @property
    def fixed(self) -> int:
        """How many cases --reseed left with the values that they have without it."""
        return self.tally.fixed

    @property
    def exit_code(self) -> ExitCode:
        """What the run answers to the shell."""
        return ExitCode.INTERRUPTED if self.interrupted else self.tally.exit_code


def exit_code(results: Iterable[CaseResult]) -> ExitCode:
    """What these results answer to the shell."""
    return Tally(results).exit_code


def _fails(outcome: Outcome) -> bool:
    return outcome.blocks and outcome is not Outcome.NOT_RUN
