"""Planned cases on the workers of a cluster, told as on one machine."""

from collections.abc import Iterable, Iterator, Mapping

from mluops_gtest.cluster.batches import batches_of
from mluops_gtest.cluster.dispatch import Dispatcher, HostTally, UnitBegun
from mluops_gtest.engine.lanes import PlannedCase
from mluops_gtest.model import cause
from mluops_gtest.model.event import CaseFinished, CaseStarted, Event


class ClusterLanes:
    """Runs cases on the workers of a cluster; implements engine.run.CaseEvents."""

    def __init__(self, dispatcher: Dispatcher[PlannedCase], costs: Mapping[str, int], *, in_order: bool) -> None:
        self._dispatcher, self._costs, self._in_order = dispatcher, costs, in_order

    @property
    def hosts(self) -> Mapping[str, HostTally]:
        """What each host does."""
        return self._dispatcher.hosts

    @property
    def lost(self) -> cause.Cause | None:
        """Why nothing can be run any more, once that is so."""
        return self._dispatcher.lost

    @property
    def interrupted(self) -> bool:
        """It ended before its time, and the run can be resumed."""
        return self._dispatcher.lost is not None

    def stop(self) -> None:
        """Hand out nothing more; what runs is forgotten."""
        self._dispatcher.stop()

    def run(self, cases: Iterable[PlannedCase]) -> Iterator[Event]:
        """The events of every case, from whichever worker."""
        planned = tuple(cases)
        for news in self._dispatcher.run(
            lambda workers: batches_of(planned, self._costs, in_order=self._in_order, workers=workers)
        ):
            yield CaseStarted(news.unit) if isinstance(news, UnitBegun) else CaseFinished(news.result)
