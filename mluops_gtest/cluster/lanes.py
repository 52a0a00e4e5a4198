"""Planned cases on the workers of a cluster, told as on one machine."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic

from mluops_gtest.cluster.answers import HostTally, U, UnitBegun, UnitsRetracted
from mluops_gtest.cluster.batches import batches_of
from mluops_gtest.cluster.dispatch import Dispatcher
from mluops_gtest.engine.lanes import PlannedCase
from mluops_gtest.model import cause
from mluops_gtest.model.event import CaseFinished, CasesRetracted, CaseStarted, Event


class DispatcherLanes(Generic[U]):
    """What the lanes of a run and of a hunt share: how they end."""

    def __init__(self, dispatcher: Dispatcher[U]) -> None:
        self._dispatcher = dispatcher

    @property
    def lost(self) -> cause.Cause | None:
        return self._dispatcher.lost

    @property
    def interrupted(self) -> bool:
        return self._dispatcher.lost is not None

    def stop(self) -> None:
        self._dispatcher.stop()


class ClusterLanes(DispatcherLanes[PlannedCase]):
    """Runs cases on the workers of a cluster; implements engine.lanes.AnyLanes."""

    def __init__(self, dispatcher: Dispatcher[PlannedCase], costs: Mapping[str, int], *, in_order: bool) -> None:
        super().__init__(dispatcher)
        self._costs, self._in_order = costs, in_order

    @property
    def hosts(self) -> Mapping[str, HostTally]:
        """What each host does."""
        return self._dispatcher.hosts

    def run(self, cases: Iterable[PlannedCase]) -> Iterator[Event]:
        """The events of every case, from whichever worker."""
        planned = tuple(cases)
        for news in self._dispatcher.run(
            lambda workers: batches_of(planned, self._costs, in_order=self._in_order, workers=workers)
        ):
            if isinstance(news, UnitsRetracted):
                yield CasesRetracted(tuple(unit.id for unit in news.units))
            else:
                yield CaseStarted(news.unit) if isinstance(news, UnitBegun) else CaseFinished(news.result)
