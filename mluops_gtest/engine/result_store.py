"""Where the results of a run are while it lasts, so that the run itself need not hold them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from mluops_gtest.model.event import CaseFinished, CasesRetracted, Event
from mluops_gtest.model.result import CaseResult


class ResultStore(Protocol):
    """Keeps the results of a run: a listener from which they come back."""

    def __call__(self, event: Event) -> None:
        """Keep the result of a case that has finished."""

    def __contains__(self, case: str) -> bool:
        """That case has a result."""

    def __iter__(self) -> Iterator[CaseResult]:
        """All results, as they came."""

    def in_order(self, cases: Iterable[str]) -> Sequence[CaseResult]:
        """The results of these cases, which all have one."""


class ResultsInMemory:
    """For runs of which nothing is written."""

    def __init__(self) -> None:
        self._results: dict[str, CaseResult] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, CaseFinished):
            self._results[event.result.case] = event.result
        elif isinstance(event, CasesRetracted):
            for case in event.cases:
                del self._results[case]

    def __contains__(self, case: str) -> bool:
        return case in self._results

    def __iter__(self) -> Iterator[CaseResult]:
        return iter(self._results.values())

    def in_order(self, cases: Iterable[str]) -> tuple[CaseResult, ...]:
        return tuple(self._results[case] for case in cases)
