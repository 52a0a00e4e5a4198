"""Batches handed to the workers of a cluster, and taken back from those that are lost."""

import contextlib
import queue
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from mluops_gtest.cluster import worker
from mluops_gtest.engine.fingerprint import fingerprinted
from mluops_gtest.errors import BackendError, HarnessError
from mluops_gtest.model import cause
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.value import Value

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


class Unit(Protocol):
    """What a worker does at a time: run a case."""

    @property
    def id(self) -> str:
        """Its own, of all units of the run."""

    @property
    def operator(self) -> str:
        """The operator of the case."""

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the case."""


U = TypeVar("U", bound=Unit)


class UnitBegun(Value):
    """A worker has begun with a unit."""

    unit: str


class UnitAnswered(Value, Generic[U]):
    """A unit is done: its verdict, and what else its task answers."""

    unit: U
    result: CaseResult
    more: Any = None


@dataclass(slots=True)
class HostTally:
    """What one host did so far."""

    workers: int = 0
    done: int = 0
    running: set[str] = field(default_factory=set)


class Checked(Value):
    """A worker that may be given cases."""

    host: str
    # How many batches it runs at once.
    lanes: int
    devices: tuple[int, ...]


class Dispatcher(Generic[U]):
    """Hands batches of units to the workers of a cluster."""

    def __init__(
        self,
        client: "Client",
        run: str,
        setup: Mapping[str, Any],
        order: Callable[[U], Any],
        admit: Callable[[str], Checked | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`setup` and the `order` of each unit are for worker.run_batch; `admit` looks at a worker that is new."""
        # Why nothing can be run any more, once that is so; the run can be resumed.
        self.lost: cause.Cause | None = None
        self.hosts: dict[str, HostTally] = {}
        self._client, self._run, self._setup = client, run, dict(setup)
        self._order, self._admit, self._clock = order, admit, clock
        self._workers: dict[str, Checked] = {}
        self._refused: set[str] = set()
        # Before anything else of the source.
        self._waiting: deque[tuple[U, ...]] = deque()
        self._source: Iterator[tuple[U, ...]] = iter(())
        self._flying: dict[Any, tuple[str, tuple[U, ...]]] = {}
        # The worker that has each unit, and the one that has begun with it.
        self._held: dict[str, str] = {}
        self._begun: dict[str, str] = {}
        self._losses: Counter[str] = Counter()
        self._stopped = False
        # ("begun", message) and ("done", future), in the order in which they arrive.
        self._news: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

    def stop(self) -> None:
        """Hand out nothing more; what runs is forgotten."""
        self._stopped = True

    def add(self, unit: U) -> None:
        """Hand out this one next."""
        self._waiting.appendleft((unit,))

    def run(self, batches: Callable[[int], Iterable[tuple[U, ...]]]) -> Iterator[UnitBegun | UnitAnswered[U]]:
        """What comes of every unit, from whichever worker; `batches` hears how many run at once.

        A batch is asked for when a worker needs one.
        """
        self._client.subscribe_topic(worker.topic_of(self._run), self._heard)
        try:
            self._look()
            self._source = iter(batches(sum(one.lanes for one in self._workers.values())))
            yield from self._work()
        finally:
            self._end()

    def _heard(self, event: Any) -> None:
        self._news.put(("begun", event[1] if isinstance(event, tuple | list) else event))

    def _work(self) -> Iterator[UnitBegun | UnitAnswered[U]]:
        looked = alone_since = self._clock()
        while not self._stopped:
            if not self._flying and not self._waiting:
                batch = next(self._source, None)
                if batch is None:
                    return
                self._waiting.append(batch)
            self._hand_out()
            with contextlib.suppress(queue.Empty):
                yield from self._heeded(*self._news.get(timeout=_LOOK_EVERY))
            now = self._clock()
            if now - looked >= _LOOK_EVERY:
                looked = now
                if self._client.status not in ("running", "connecting") or not self._look():
                    self.lost = cause.RunLost("the scheduler of the cluster was lost")
                    return
                if any(address not in self._workers for address, _ in self._flying.values()):
                    # What a worker said before it was lost counts.
                    while not self._news.empty():
                        yield from self._heeded(*self._news.get())
                    yield from self._taken_back()
            if self._workers:
                alone_since = now
            elif now - alone_since > PATIENCE:
                self.lost = cause.RunLost(f"the cluster had no worker for {PATIENCE:.0f} s")
                return

    def _heeded(self, what: str, news: Any) -> Iterator[UnitBegun | UnitAnswered[U]]:
        yield from self._started(news) if what == "begun" else self._landed(news)

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
        """To each worker as much as it needs to be busy; every one gets its first batch before any gets a second."""
        load = Counter(address for address, _ in self._flying.values())
        for depth in range(_IN_FLIGHT):
            for address, checked in self._workers.items():
                while load[address] < checked.lanes * (depth + 1):
                    batch = self._waiting.popleft() if self._waiting else next(self._source, None)
                    if batch is None:
                        return
                    self._submit(batch, address, checked)
                    load[address] += 1

    def _submit(self, batch: tuple[U, ...], address: str, checked: Checked) -> None:
        orders = [(unit.id, self._order(unit)) for unit in batch]
        with warnings.catch_warnings():
            # Of a large case Dask says that it is large.
            warnings.simplefilter("ignore", UserWarning)
            future: Future = self._client.submit(
                worker.run_batch,
                self._run,
                self._setup,
                checked.devices,
                orders,
                workers=[address],
                allow_other_workers=False,
                pure=False,
                retries=0,
            )
        self._flying[future] = (address, batch)
        self._held.update((unit.id, address) for unit in batch)
        future.add_done_callback(lambda done: self._news.put(("done", done)))

    def _started(self, news: Mapping[str, Any]) -> Iterator[UnitBegun]:
        unit, address = news["unit"], news["worker"]
        if self._held.get(unit) != address:
            return
        self._begun[unit] = address
        if address in self._workers:
            self.hosts[self._workers[address].host].running.add(unit)
        yield UnitBegun(unit)

    def _landed(self, future: "Future") -> Iterator[UnitAnswered[U]]:
        """The answers of a batch, or why there are none."""
        if future not in self._flying or future.status in ("cancelled", "lost"):
            return
        address, batch = self._flying.pop(future)
        if future.status == "finished":
            answers = self._fetched(future, address)
        else:
            _refuse_unless_lost(future.exception(), address)
            answers = None
        if answers is None:
            yield from self._put_back(batch, address)
            return
        for unit, (result, more) in zip(batch, answers, strict=True):
            yield self._finished(UnitAnswered(unit, result, more))

    def _fetched(self, future: "Future", address: str) -> list[tuple[CaseResult, Any]] | None:
        """The answers, which lie on the worker that has them; None where it was lost before it handed them over."""
        while address in self._workers:
            try:
                answers: list[tuple[CaseResult, Any]] = future.result(timeout=_FETCH)
            except TimeoutError:
                self._look()
            except Exception as error:
                _refuse_unless_lost(error, address)
                return None
            else:
                return answers
        future.cancel()
        return None

    def _finished(self, answered: UnitAnswered[U]) -> UnitAnswered[U]:
        self._let_go(answered.unit)
        self._begun.pop(answered.unit.id, None)
        if answered.result.host:
            self.hosts.setdefault(answered.result.host, HostTally()).done += 1
        return answered

    def _let_go(self, unit: U) -> None:
        self._held.pop(unit.id, None)
        for host in self.hosts.values():
            host.running.discard(unit.id)

    def _taken_back(self) -> Iterator[UnitAnswered[U]]:
        """What lost workers had: run elsewhere, except for a case with which too many were lost."""
        for future, (address, batch) in list(self._flying.items()):
            if address in self._workers:
                continue
            del self._flying[future]
            future.cancel()
            yield from self._put_back(batch, address)

    def _put_back(self, batch: tuple[U, ...], address: str) -> Iterator[UnitAnswered[U]]:
        for unit in batch:
            self._let_go(unit)
            if self._begun.get(unit.id) == address:
                del self._begun[unit.id]
                self._losses[unit.id] += 1
            if self._losses[unit.id] >= MAX_LOSSES:
                host = address.rpartition("://")[2]
                lost = cause.WorkerLost(self._losses[unit.id], host)
                result = CaseResult(unit.id, unit.operator, unit.tags, Outcome.CRASHED, causes=(lost,), compared=True)
                yield self._finished(UnitAnswered(unit, fingerprinted(result)))
                continue
            # One by one: whoever is to blame takes nobody with it the next time.
            self._waiting.appendleft((unit,))

    def _end(self) -> None:
        """Forget what still runs, and let the workers close the backends."""
        with contextlib.suppress(Exception):
            self._client.unsubscribe_topic(worker.topic_of(self._run))
            for future in self._flying:
                future.cancel()
            self._client.run(worker.end_run, self._run, workers=list(self._workers), on_error="ignore")


def _refuse_unless_lost(error: BaseException, address: str) -> None:
    """What Dask says of a worker that is gone means that its cases run elsewhere; anything else ends the run."""
    if isinstance(error, HarnessError):
        raise error
    if type(error).__name__ not in _LOST:
        raise BackendError(f"The worker {address} cannot run cases: {type(error).__name__}: {error}") from error


def _addresses(dask_scheduler: Any) -> list[str]:
    return list(dask_scheduler.workers)
