"""Planned cases on the workers of a cluster, told as on one machine."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from mluops_gtest.cluster.answers import HostTally, Unit, UnitAnswered
from mluops_gtest.cluster.dispatch import Dispatcher
from mluops_gtest.engine.costs import CASE_NS
from mluops_gtest.engine.lanes import PlannedCase
from mluops_gtest.model import cause
from mluops_gtest.model.event import CaseFinished, Event

# A batch takes about this long on one worker: short against a run, long against what handing it out takes.
BATCH_NS: Final = 400_000_000
MAX_CASES: Final = 64
T = TypeVar("T")


class DispatcherLanes:
    """What the lanes of a run and of a fuzz run share: how they end."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    @property
    def lost(self) -> cause.Cause | None:
        return self._dispatcher.lost

    @property
    def interrupted(self) -> bool:
        return self._dispatcher.lost is not None

    def stop(self) -> None:
        self._dispatcher.stop()


class ClusterLanes(DispatcherLanes):
    """Runs cases on the workers of a cluster; implements engine.lanes.AnyLanes."""

    def __init__(self, dispatcher: Dispatcher, costs: Mapping[str, int], *, in_order: bool) -> None:
        super().__init__(dispatcher)
        self._costs, self._in_order = costs, in_order

    @property
    def hosts(self) -> Mapping[str, HostTally]:
        """What each host does."""
        return self._dispatcher.hosts

    def run(self, cases: Iterable[PlannedCase]) -> Iterator[Event]:
        """The events of every case, from whichever worker."""
        planned = [Unit(case.id, case.operator, case.tags) for case in cases]
        for news in self._dispatcher.run(
            lambda workers: batches_of(planned, self._costs, in_order=self._in_order, workers=workers)
        ):
            yield CaseFinished(news.result) if isinstance(news, UnitAnswered) else news


def batches_of(
    cases: Sequence[Unit], costs: Mapping[str, int], *, in_order: bool = False, workers: int = 1
) -> Iterator[tuple[Unit, ...]]:
    """All cases, each in one batch, the largest first, so that none of them is left for the end.

    `in_order` keeps their order, for a run that stops at the first failure.
    """

    def cost(case: Unit) -> int:
        return costs.get(case.id, CASE_NS)

    # The last batches shall not keep one worker busy while the others wait.
    fair = sum(map(cost, cases)) // (8 * max(workers, 1))
    room = max(CASE_NS, min(BATCH_NS, fair))
    return in_batches(cases if in_order else sorted(cases, key=cost, reverse=True), cost, room, MAX_CASES)


def in_batches(units: Iterable[T], cost: Callable[[T], int], room: int, most: int) -> Iterator[tuple[T, ...]]:
    """The units in their order, at most so many at a time; one that costs more than the room is alone."""
    batch: list[T] = []
    spent = 0
    for unit in units:
        if batch and (spent + cost(unit) > room or len(batch) == most):
            yield tuple(batch)
            batch, spent = [], 0
        batch.append(unit)
        spent += cost(unit)
    if batch:
        yield tuple(batch)
