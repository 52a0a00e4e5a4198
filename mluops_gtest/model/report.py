"""A whole run: its results, what it ran on, and the exit code that follows."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mluops_gtest.errors import ExitCode
from mluops_gtest.model.result import CaseResult, Outcome

FORMAT = 1


@dataclass(frozen=True, slots=True)
class RunReport:
    """What report.json holds."""

    tool_version: str
    backend: Mapping[str, Any]
    environment: Mapping[str, Any]
    selection: Mapping[str, Any]
    started: str
    seconds: float
    results: tuple[CaseResult, ...]
    # Seconds by phase: generate, load, backend, compare, write.
    timing: Mapping[str, float] = field(default_factory=dict)
    interrupted: bool = False
    # Which code was tested, see model/labels.py.
    labels: Mapping[str, str] = field(default_factory=dict)
    # Operator → tensor → its shape in symbols, as the operator declares it.
    shapes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def failing(self) -> tuple[CaseResult, ...]:
        """Cases that ran and block."""
        return tuple(r for r in self.results if r.outcome.blocks and r.outcome is not Outcome.NOT_RUN)

    @property
    def summary(self) -> dict[str, int]:
        """How many results have each outcome, in the order of the outcomes; absent ones are left out."""
        counts = Counter(result.outcome for result in self.results)
        return {outcome.value: counts[outcome] for outcome in Outcome if counts[outcome]}

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
        return sum(r.info.reseeded is not None and r.info.reseeded.fixed for r in self.results)

    @property
    def exit_code(self) -> ExitCode:
        """What the run answers to the shell."""
        return ExitCode.INTERRUPTED if self.interrupted else exit_code(self.results)


def exit_code(results: Iterable[CaseResult]) -> ExitCode:
    """Broken content, blocking outcomes, nothing compared: the worst of what applies."""
    codes = set()
    compared = False
    for result in results:
        compared = compared or result.compared
        if result.bug:
            codes.add(ExitCode.BUG)
        elif result.content_error:
            codes.add(ExitCode.CONTENT)
        elif result.outcome.blocks:
            codes.add(ExitCode.FAILED)
    if not compared:
        codes.add(ExitCode.EMPTY)
    return ExitCode.worst(codes)
