"""Batches handed to the workers of a cluster, and taken back from those that are lost."""

import contextlib
import queue
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from mluops_gtest.cluster import worker
from mluops_gtest.cluster.batches import Batch, batches_of
from mluops_gtest.engine.fingerprint import fingerprinted
from mluops_gtest.engine.lanes import PlannedCase
from mluops_gtest.errors import BackendError
from mluops_gtest.files.typed import Source
from mluops_gtest.model import cause
from mluops_gtest.model.event import CaseFinished, CaseStarted, Event
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.results.records import result_from_json

if TYPE_CHECKING:
    from distributed import Client, Future

# Few, so that a lost worker takes little with it, and enough that a worker never waits for the next.
_IN_FLIGHT: Final = 2
# Errors by which Dask tells that a worker is gone.
_LOST: Final = ("KilledWorker", "CommClosedError", "FutureCancelledError", "CancelledError", "FutureLostError")
# A case that runs when a worker is lost may have to do with it; at the third time nobody believes in chance.
MAX_LOSSES: Final = 3
# Seconds between two looks at which workers there are.
_LOOK_EVERY: Final = 0.5
# Seconds to wait for results before looking whether their worker is still there.
_FETCH: Final = 2.0
# Seconds without any worker after which the run ends.
PATIENCE: Final = 60.0


@dataclass(slots=True)
class HostTally:
    """What one host did so far."""

    workers: int = 0
    done: int = 0
    running: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Checked:
    """A worker that may be given cases."""

    host: str
    # How many batches it runs at once.
    lanes: int
    devices: tuple[int, ...]


class ClusterLanes:
    """Runs cases on the workers of a cluster; implements engine.run.CaseEvents."""

    def __init__(
        self,
        client: "Client",
        run: str,
        setup: Mapping[str, Any],
        costs: Mapping[str, int],
        *,
        admit: Callable[[str], Checked | None],
        in_order: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`setup` is for the workers, see worker.run_batch; `admit` looks at a worker that is new."""
        self.lost: cause.Cause | None = None
        self.interrupted = False
        self.hosts: dict[str, HostTally] = {}
        self._client, self._run, self._setup, self._costs = client, run, dict(setup), costs
        self._admit, self._in_order, self._clock = admit, in_order, clock
        self._workers: dict[str, Checked] = {}
        self._refused: set[str] = set()
        self._waiting: deque[Batch] = deque()
        self._flying: dict[Any, tuple[str, Batch]] = {}
        self._begun: dict[str, str] = {}
        self._losses: Counter[str] = Counter()
        self._finished: set[str] = set()
        self._stopped = False
        # ("begun", message) and ("done", future), in the order in which they arrive.
        self._news: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

    def stop(self) -> None:
        """Hand out nothing more; what runs is forgotten."""
        self._stopped = True

    def run(self, cases: Iterable[PlannedCase]) -> Iterator[Event]:
        """The events of every case, from whichever worker."""
        self._client.subscribe_topic(worker.topic_of(self._run), self._heard)
        try:
            self._look()
            lanes = sum(one.lanes for one in self._workers.values())
            self._waiting.extend(batches_of(tuple(cases), self._costs, in_order=self._in_order, workers=lanes))
            yield from self._work()
        finally:
            self._end()

    def _heard(self, event: Any) -> None:
        self._news.put(("begun", event[1] if isinstance(event, tuple | list) else event))

    def _work(self) -> Iterator[Event]:
        looked = alone_since = self._clock()
        while (self._waiting or self._flying) and not self._stopped:
            self._hand_out()
            with contextlib.suppress(queue.Empty):
                what, news = self._news.get(timeout=_LOOK_EVERY)
                yield from self._started(news) if what == "begun" else self._landed(news)
            now = self._clock()
            if now - looked >= _LOOK_EVERY:
                looked = now
                if self._client.status not in ("running", "connecting") or not self._look():
                    self._give_up("the scheduler of the cluster was lost")
                    return
                yield from self._taken_back()
            if self._workers:
                alone_since = now
            elif now - alone_since > PATIENCE:
                self._give_up(f"the cluster had no worker for {PATIENCE:.0f} s")
                return

    def _give_up(self, why: str) -> None:
        self.lost, self.interrupted = cause.RunLost(why), True

    def _look(self) -> bool:
        """Which workers there are; new ones are looked at before they get anything. False: nobody can tell."""
        try:
            addresses = self._client.run_on_scheduler(_addresses)
        except (OSError, ValueError, TimeoutError):
            return False
        for address in addresses:
            if address not in self._workers and address not in self._refused:
                checked = self._admit(address)
                if checked is None:
                    self._refused.add(address)
                    continue
                self._workers[address] = checked
                self.hosts.setdefault(checked.host, HostTally()).workers += 1
        for address in [known for known in self._workers if known not in addresses]:
            gone = self._workers.pop(address)
            self.hosts[gone.host].workers -= 1
        return True

    def _hand_out(self) -> None:
        """To each worker as much as it needs to be busy."""
        load = Counter(address for address, _ in self._flying.values())
        for address, checked in self._workers.items():
            while self._waiting and load[address] < checked.lanes * _IN_FLIGHT:
                batch = self._waiting.popleft()
                future: Future = self._client.submit(
                    worker.run_batch,
                    self._run,
                    self._setup,
                    checked.devices,
                    [case.id for case in batch],
                    workers=[address],
                    allow_other_workers=False,
                    pure=False,
                    retries=0,
                )
                self._flying[future] = (address, batch)
                load[address] += 1
                future.add_done_callback(lambda done: self._news.put(("done", done)))

    def _started(self, news: Mapping[str, Any]) -> Iterator[Event]:
        case_id, address = news["case"], news["worker"]
        if case_id in self._finished or address not in self._workers:
            return
        self._begun[case_id] = address
        self.hosts[self._workers[address].host].running.add(case_id)
        yield CaseStarted(case_id)

    def _landed(self, future: "Future") -> Iterator[Event]:
        """The results of a batch, or why there are none."""
        if future not in self._flying or future.status in ("cancelled", "lost"):
            return
        address, batch = self._flying.pop(future)
        if future.status == "finished":
            records = self._fetched(future, address)
            if records is None:
                yield from self._put_back(batch, address)
            for record in records or ():
                yield from self._finish(result_from_json(record, Source("a worker's answer", "")))
            return
        _refuse_unless_lost(future.exception(), address)
        yield from self._put_back(batch, address)

    def _fetched(self, future: "Future", address: str) -> list[Any] | None:
        """The results, which lie on the worker that has them; None where it was lost before it handed them over."""
        while address in self._workers:
            try:
                records: list[Any] = future.result(timeout=_FETCH)
            except TimeoutError:
                self._look()
            except Exception as error:
                _refuse_unless_lost(error, address)
                return None
            else:
                return records
        future.cancel()
        return None

    def _finish(self, result: CaseResult) -> Iterator[Event]:
        if result.case in self._finished:
            return
        self._finished.add(result.case)
        self._begun.pop(result.case, None)
        for host in self.hosts.values():
            host.running.discard(result.case)
        if result.host:
            self.hosts.setdefault(result.host, HostTally()).done += 1
        yield CaseFinished(result)

    def _taken_back(self) -> Iterator[Event]:
        """What lost workers had: run elsewhere, except for a case with which too many were lost."""
        for future, (address, batch) in list(self._flying.items()):
            if address in self._workers:
                continue
            del self._flying[future]
            future.cancel()
            yield from self._put_back(batch, address)

    def _put_back(self, batch: Batch, address: str) -> Iterator[Event]:
        for case in batch:
            if case.id in self._finished:
                continue
            if self._begun.get(case.id) == address:
                del self._begun[case.id]
                self._losses[case.id] += 1
            if self._losses[case.id] >= MAX_LOSSES:
                host = address.rpartition("://")[2]
                lost = cause.WorkerLost(self._losses[case.id], host)
                yield from self._finish(
                    fingerprinted(
                        CaseResult(case.id, case.operator, case.tags, Outcome.CRASHED, causes=(lost,), compared=True)
                    )
                )
                continue
            # One by one: whoever is to blame takes nobody with it the next time.
            self._waiting.appendleft((case,))

    def _end(self) -> None:
        """Forget what still runs, and let the workers close the backends."""
        with contextlib.suppress(Exception):
            self._client.unsubscribe_topic(worker.topic_of(self._run))
            for future in self._flying:
                future.cancel()
            self._client.run(worker.end_run, self._run, workers=list(self._workers), on_error="ignore")


def _refuse_unless_lost(error: BaseException, address: str) -> None:
    """What Dask says of a worker that is gone means that its cases run elsewhere; anything else ends the run."""
    if type(error).__name__ not in _LOST:
        raise BackendError(f"The worker {address} cannot run cases: {type(error).__name__}: {error}") from error


def _addresses(dask_scheduler: Any) -> list[str]:
    return list(dask_scheduler.workers)
