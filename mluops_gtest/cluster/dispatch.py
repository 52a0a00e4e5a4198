"""Batches handed to the workers of a cluster, and taken back from those that are lost."""

import contextlib
import queue
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic

from msgspec.structs import replace

from mluops_gtest.cluster import worker
from mluops_gtest.cluster.answers import (
    BadAnswerError,
    Checked,
    HandedOutputs,
    HostTally,
    U,
    Unit,
    UnitAnswered,
    UnitBegun,
    UnitsRetracted,
    UnitStart,
    decode,
    read_results,
)
from mluops_gtest.cluster.connecting import submit
from mluops_gtest.engine.fingerprint import fingerprinted
from mluops_gtest.model import cause
from mluops_gtest.model.case import Case
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.value import Value

if TYPE_CHECKING:
    from distributed import Client, Future

    from mluops_gtest.cluster.auditing import OutputAudit

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
# Seconds after which a worker that is silent is taken for lost, unless cases have a --timeout; with many workers each
# is heard of every few seconds.
_SILENCE: Final = 60.0
_MIN_SILENCE: Final = 15.0
# Seconds for closing the backends.
_END: Final = 10.0


class _Flight(Value, Generic[U]):
    """What a worker was asked: to run a batch, or, of one that it has run, to hand over the outputs that were drawn."""

    address: str
    batch: tuple[U, ...]
    number: int
    answers: Sequence[UnitAnswered[U]] = ()
    drawn: tuple[int, ...] = ()


News = UnitBegun | UnitAnswered[U] | UnitsRetracted[U]


class Dispatcher(Generic[U]):
    """Hands batches of units to the workers of a cluster."""

    def __init__(
        self,
        client: "Client",
        run: str,
        setup: Mapping[str, Any],
        order: Callable[[U], Any],
        admit: Callable[[str], Checked | None],
        complain: Callable[[str], None],
        read_smallest: Callable[[U, bytes], Case | None] | None = None,
        timeout: float | None = None,
        audit: "OutputAudit | None" = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`setup` and the `order` of each unit are for worker.run_batch; `admit` looks at a worker that is new.

        `complain` hears of workers that get nothing more; `timeout` is that of a case. Without `audit` what workers
        judge is taken as it is.
        """
        # Why nothing can be run any more, once that is so; the run can be resumed.
        self.lost: cause.Cause | None = None
        self.hosts: dict[str, HostTally] = {}
        self._client, self._run, self._setup = client, run, dict(setup)
        self._order, self._admit, self._complain, self._clock = order, admit, complain, clock
        self._audit, self._number = audit, 0
        # What counts of each worker's answers so far.
        self._answered: dict[str, list[U]] = defaultdict(list)
        self._read_smallest = read_smallest or _no_smallest
        self._silence = max(_MIN_SILENCE, _SILENCE if timeout is None else timeout)
        self._workers: dict[str, Checked] = {}
        # Those that get nothing, and what was wrong with the last that got something.
        self._refused: set[str] = set()
        self._problem = ""
        # Before anything else of the source.
        self._waiting: deque[tuple[U, ...]] = deque()
        self._source: Iterator[tuple[U, ...]] = iter(())
        self._flying: dict[Any, _Flight[U]] = {}
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

    def run(self, batches: Callable[[int], Iterable[tuple[U, ...]]]) -> Iterator[News[U]]:
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

    def _work(self) -> Iterator[News[U]]:
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
                if any(flight.address not in self._workers for flight in self._flying.values()):
                    # What a worker said before it was lost counts.
                    while not self._news.empty():
                        yield from self._heeded(*self._news.get())
                    yield from self._taken_back()
            if self._workers:
                alone_since = now
            elif self._problem:
                self.lost = cause.RunLost(f"no worker of the cluster can be used any more: {self._problem}")
                return
            elif now - alone_since > PATIENCE:
                self.lost = cause.RunLost(f"the cluster had no worker for {PATIENCE:.0f} s")
                return

    def _heeded(self, what: str, news: Any) -> Iterator[News[U]]:
        yield from self._started(news) if what == "begun" else self._landed(news)

    def _look(self) -> bool:
        """Which workers there are; new ones are looked at before they get anything. False: nobody can tell."""
        try:
            silences = self._client.run_on_scheduler(_silences)
        except (OSError, ValueError, TimeoutError):
            return False
        heard = [address for address, seconds in silences.items() if seconds < self._silence]
        for address in heard:
            if address not in self._workers and address not in self._refused:
                checked = self._admit(address)
                if checked is None:
                    self._refused.add(address)
                    continue
                self._workers[address] = checked
                self.hosts.setdefault(checked.host, HostTally()).workers += 1
        for address in [known for known in self._workers if known not in heard]:
            self._give_up(address)
            if address in silences:
                words = f"nothing was heard of the worker {address} for {self._silence:.0f} s"
                self._complain(f"warning: {words}; what it had runs elsewhere.")
        return True

    def _give_up(self, address: str) -> None:
        gone = self._workers.pop(address)
        self.hosts[gone.host].workers -= 1

    def _refuse(self, address: str, why: str) -> None:
        """Give the worker nothing more; what it has is taken back at the next look."""
        self._problem = f"the worker {address} does not answer as agreed: {why}"
        self._complain(f"warning: {self._problem}; it gets no more cases, and what it had runs elsewhere.")
        self._give_up(address)
        self._refused.add(address)

    def _hand_out(self) -> None:
        """To each worker as much as it needs to be busy; every one gets its first batch before any gets a second."""
        load = Counter(flight.address for flight in self._flying.values() if not flight.answers)
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
        self._number += 1
        # Behind one that has landed a worker runs at most what is in flight before it hands over outputs.
        newest = checked.lanes * _IN_FLIGHT + 2
        arguments = (self._run, self._setup, checked.devices, orders, self._number, newest)
        self._fly(_Flight(address, batch, self._number), worker.run_batch, *arguments)
        self._held.update((unit.id, address) for unit in batch)

    def _fly(self, flight: _Flight[U], function: Callable[..., bytes], *arguments: Any) -> None:
        future = submit(self._client, flight.address, function, *arguments, priority=len(flight.drawn))
        self._flying[future] = flight
        future.add_done_callback(lambda done: self._news.put(("done", done)))

    def _started(self, news: Any) -> Iterator[UnitBegun]:
        try:
            start = decode(news, UnitStart)
        except BadAnswerError:
            # Any member of the cluster may say anything here, and nothing depends on it.
            return
        if self._held.get(start.unit) != start.worker:
            return
        self._begun[start.unit] = start.worker
        if start.worker in self._workers:
            self.hosts[self._workers[start.worker].host].running.add(start.unit)
        yield UnitBegun(start.unit)

    def _landed(self, future: "Future") -> Iterator[UnitAnswered[U] | UnitsRetracted[U]]:
        """The answers of a batch once nothing more is asked of it, or why there are none."""
        # With the scheduler all are lost.
        if future not in self._flying or self._client.status != "running":
            return
        flight = self._flying.pop(future)
        address, batch = flight.address, flight.batch
        answers: Sequence[UnitAnswered[U]] = ()
        try:
            data = self._fetched(future, address)
            if data is not None:
                answers = self._judged_here(flight, data) if flight.drawn else self._read(flight, data)
        except BadAnswerError as error:
            self._refuse(address, str(error))
            self._losses[error.unit] += 1
            if flight.drawn:
                # Whoever is caught with one wrong verdict is not believed the others.
                retracted = self._answered.pop(address, [])
                if retracted:
                    yield UnitsRetracted(tuple(retracted))
                self._waiting.extend((unit,) for unit in retracted)
        if not answers:
            yield from self._put_back(batch, address)
            return
        if self._audit is not None and not flight.drawn:
            drawn = tuple(n for n, one in enumerate(answers) if self._audit.draws(address, one.result, one.outputs))
            answers = [replace(one, result=replace(one.result, judged_by="worker")) for one in answers]
            if drawn:
                asked = _Flight(address, batch, flight.number, answers, drawn)
                units = [batch[n].id for n in drawn]
                self._fly(asked, worker.hand_over, self._run, flight.number, units)
                return
        self._answered[address].extend(batch)
        for one in answers:
            yield self._finished(one)

    def _read(self, flight: _Flight[U], data: bytes) -> Sequence[UnitAnswered[U]]:
        checked = self._workers[flight.address]
        answers = read_results(data, flight.batch, checked.host, checked.devices, self._read_smallest)
        for one in answers:
            # A bug of ours, or of what is installed there: another worker tells.
            if one.result.bug and not self._losses[one.unit.id] and len(self._workers) > 1:
                raise BadAnswerError(one.result.reason, one.unit.id)
        return answers

    def _judged_here(self, flight: _Flight[U], data: bytes) -> Sequence[UnitAnswered[U]]:
        """The answers of a batch, with the outputs that were drawn judged here; BadAnswerError where that differs."""
        assert self._audit is not None, "somebody has drawn"
        outputs = decode(data, HandedOutputs).outputs
        if len(outputs) != len(flight.drawn):
            raise BadAnswerError(f"it handed over {len(outputs)} outputs instead of {len(flight.drawn)}")
        answers = list(flight.answers)
        for number, handed in zip(flight.drawn, outputs, strict=True):
            one = answers[number]
            if self._audit.agrees(one.result, one.outputs, handed, len(answers)):
                answers[number] = replace(one, result=replace(one.result, judged_by=""))
        return answers

    def _fetched(self, future: "Future", address: str) -> bytes | None:
        """The answer, which lies on the worker that has it; None where it was lost before it handed it over."""
        end = self._clock() + self._silence
        while address in self._workers:
            try:
                answer = future.result(timeout=_FETCH)
            except TimeoutError:
                self._look()
                if self._clock() > end:
                    raise BadAnswerError(f"it did not hand over its answer within {self._silence:.0f} s") from None
            except Exception as error:
                if type(error).__name__ in _LOST:
                    return None
                words, *_trace = f"{type(error).__name__}: {error}".splitlines()  # Dask adds that of the worker
                raise BadAnswerError(words) from error
            else:
                if isinstance(answer, bytes):
                    return answer
                raise BadAnswerError(f"it answered with {type(answer).__name__} instead of bytes")
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
        for future, flight in list(self._flying.items()):
            if flight.address in self._workers:
                continue
            del self._flying[future]
            future.cancel()
            yield from self._put_back(flight.batch, flight.address)

    def _put_back(self, batch: tuple[U, ...], address: str) -> Iterator[UnitAnswered[U]]:
        for unit in batch:
            self._let_go(unit)
            if self._begun.get(unit.id) == address:
                del self._begun[unit.id]
                # A worker that was refused names whom it blames.
                self._losses[unit.id] += address not in self._refused
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
        if self._client.status != "running":
            return

        def close() -> None:
            with contextlib.suppress(Exception):
                self._client.unsubscribe_topic(worker.topic_of(self._run))
                for future in self._flying:
                    future.cancel()
                self._client.run(worker.end_run, self._run, workers=list(self._workers), on_error="ignore")

        # Aside: a worker that has been stopped would never answer.
        closing = threading.Thread(target=close, daemon=True)
        closing.start()
        closing.join(_END)


def _no_smallest(unit: Unit, data: bytes) -> None:
    if data:
        raise BadAnswerError(f"its answer to {unit.id} has a smaller case, which nobody asked for")


def _silences(dask_scheduler: Any) -> dict[str, float]:
    """The workers, and for how many seconds nothing was heard of each."""
    now = time.time()
    return {address: now - state.last_seen for address, state in dask_scheduler.workers.items()}
