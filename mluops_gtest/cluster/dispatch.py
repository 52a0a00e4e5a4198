"""From the word behind --cluster to a client of a Dask cluster whose workers can run our cases.

Batches handed to the workers of a cluster, and taken back from those that are lost.
"""

import contextlib
import importlib.util
import logging
import queue
import threading
import time
import warnings
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from mluops_gtest.base.errors import BackendError, UsageError
from mluops_gtest.base.frozen import Value
from mluops_gtest.cluster import worker
from mluops_gtest.cluster.answers import (
    BadAnswerError,
    Checked,
    HostTally,
    OutputAudit,
    Unit,
    UnitAnswered,
    UnitStart,
    decode,
    read_results,
)
from mluops_gtest.core import cause
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import CasesRetracted, CaseStarted
from mluops_gtest.core.result import CaseResult
from mluops_gtest.judging.fingerprint import with_fingerprint

if TYPE_CHECKING:
    from distributed import Client, Future


# Seconds to reach the scheduler, also after a connection is lost.
_CONNECT: Final = 20.0
_FORMS = "tcp://HOST:PORT, tls://HOST:PORT, ucx://HOST:PORT, local:N or path/file.py:FUNCTION"
_TLS = (
    "name the files of the cluster's authority and of your own certificate: DASK_DISTRIBUTED__COMM__TLS__CA_FILE, "
    "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT and DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY, or the same keys in "
    "~/.config/dask/distributed.yaml; see `mluops-test docs many-machines`"
)


@contextlib.contextmanager
def connected(address: str) -> "Iterator[Client]":
    """A client of that cluster; a cluster that was started for the run ends with it."""
    try:
        from distributed import Client
    except ImportError:
        raise UsageError("--cluster needs dask.distributed: pip install 'mluops-test[dask]'.") from None
    # What a worker cannot send is told as its fault; Dask's trace of that says no more.
    logging.getLogger("distributed.protocol").setLevel(logging.CRITICAL + 1)
    with contextlib.ExitStack() as stack:
        target: Any = address
        if address.startswith("local:"):
            target = stack.enter_context(_local(address))
        elif "://" not in address:
            target = _load_cluster(address)
            if hasattr(target, "close"):
                stack.callback(target.close)
        if isinstance(target, str):
            _refuse_unreachable(address, target)
        try:
            client = stack.enter_context(Client(target, timeout=_CONNECT, set_as_default=False))
        except Exception as error:
            raise BackendError(f"--cluster {address}: the scheduler does not answer: {error}.") from error
        yield client


def submit(
    client: "Client", address: str, function: Callable[..., Any], *arguments: Any, priority: int = 0
) -> "Future":
    """The call of the function on that worker and no other."""
    with warnings.catch_warnings():
        # Of a large case Dask says that it is large.
        warnings.simplefilter("ignore", UserWarning)
        return client.submit(
            function, *arguments, workers=[address], allow_other_workers=False, pure=False, retries=0, priority=priority
        )


def _refuse_unreachable(address: str, target: str) -> None:
    """Refuse an address of a kind for which this installation lacks something."""
    from distributed.comm.registry import get_backend
    from distributed.security import Security

    scheme = target.partition("://")[0]
    try:
        get_backend(scheme).get_connector()
    except Exception as error:
        # What Dask itself brings for ucx is an empty shell.
        advice = "install distributed-ucxx on every machine" if scheme == "ucx" else f"write {_FORMS}"
        raise UsageError(f"--cluster {address}: Dask cannot use {scheme}:// here ({error}): {advice}.") from error
    if scheme not in ("tls", "wss"):
        return
    try:
        context = Security().get_connection_args("client")["ssl_context"]
    except Exception as error:
        raise UsageError(f"--cluster {address}: the certificate cannot be used ({error}): {_TLS}.") from error
    if context is None:
        raise UsageError(f"--cluster {address}: no certificate is set: {_TLS}.")


def _local(address: str) -> Any:
    import dask
    from distributed import LocalCluster

    number = address.partition(":")[2]
    if not number.isdecimal() or not 1 <= int(number) <= 1024:
        raise UsageError(f"--cluster {address}: write the number of processes, e.g. --cluster local:2.")
    # Dask would look at what every worker does a hundred times a second, for a page that nobody opens.
    with dask.config.set({"distributed.worker.profile.enabled": False}):
        return LocalCluster(
            n_workers=int(number), threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        )


def _load_cluster(address: str) -> Any:
    file, colon, name = address.rpartition(":")
    if not colon or not file.endswith(".py") or not name:
        raise UsageError(f"--cluster {address}: write {_FORMS}.")
    if not Path(file).is_file():
        raise UsageError(f"--cluster {address}: there is no file {file}.")
    spec = importlib.util.spec_from_file_location("_mluops_gtest_cluster", file)
    assert spec is not None, "a .py file can be loaded"
    assert spec.loader is not None, "a .py file can be loaded"
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        make = getattr(module, name)
        return make()
    except Exception as error:
        raise UsageError(f"--cluster {address}: {type(error).__name__}: {error}.") from error


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


class _Flight(Value):
    """What a worker was asked: to run a batch, or, of one that it has run, to hand over the outputs that were drawn."""

    address: str
    batch: tuple[Unit, ...]
    answers: Sequence[UnitAnswered] = ()
    drawn: tuple[int, ...] = ()


class _WorkerLostError(Exception):
    """A worker was lost before it handed over its answer."""


News = CaseStarted | CasesRetracted | UnitAnswered


class Dispatcher:
    """Hands batches of units to the workers of a cluster."""

    def __init__(
        self,
        client: "Client",
        run: str,
        setup: Mapping[str, Any],
        look_at: Callable[[str], Checked | str],
        complain: Callable[[str], None],
        audit: OutputAudit,
        timeout: float | None,
        *,
        retracts: bool,
    ) -> None:
        """`run` names the run, and the topic on which workers say what they begin with.

        `setup` is for worker.run_batch; `look_at` gives a worker that is new, or why it cannot be used. `complain`
        hears of workers that get nothing more; `timeout` is that of a case. `retracts`: whatever a worker answered
        before it is caught with a wrong verdict runs again.
        """
        # Why nothing can be run any more, once that is so; the run can be resumed.
        self.lost: cause.Cause | None = None
        self.hosts: dict[str, HostTally] = {}
        self._client, self._run, self._setup = client, run, dict(setup)
        self._look_at, self._complain, self._audit = look_at, complain, audit
        self._retracts = retracts
        self._silence = max(_MIN_SILENCE, _SILENCE if timeout is None else timeout)
        self._workers: dict[str, Checked] = {}
        # Those that get nothing, and what was wrong with the last that got something.
        self._refused: set[str] = set()
        self._problem = ""
        # What counts of each worker's answers so far.
        self._answered: dict[str, list[Unit]] = defaultdict(list)
        # Before anything else of the source.
        self._waiting: deque[tuple[Unit, ...]] = deque()
        self._source: Iterator[tuple[Unit, ...]] = iter(())
        self._flying: dict[Any, _Flight] = {}
        # The worker that has each unit; those with which it has begun.
        self._held: dict[str, str] = {}
        self._begun: set[str] = set()
        self._losses: Counter[str] = Counter()
        self._stopped = False
        # What to do about each thing that is heard of, in the order in which it arrives.
        self._news: queue.SimpleQueue[Callable[[], Iterator[News]]] = queue.SimpleQueue()

    def stop(self) -> None:
        """Hand out nothing more; what runs is forgotten."""
        self._stopped = True

    def add(self, unit: Unit) -> None:
        """Hand out this one next."""
        self._waiting.appendleft((unit,))

    def run(self, batches: Callable[[int], Iterable[tuple[Unit, ...]]]) -> Iterator[News]:
        """What comes of every unit, from whichever worker; `batches` hears how many run at once.

        A batch is asked for when a worker needs one.
        """
        self._client.subscribe_topic(self._run, lambda event: self._news.put(partial(self._started, event)))
        try:
            self._look()
            self._source = iter(batches(sum(len(one.slots) for one in self._workers.values())))
            yield from self._work()
        finally:
            self._end()

    def _work(self) -> Iterator[News]:
        looked = alone_since = time.monotonic()
        while not self._stopped:
            if not self._flying and not self._waiting:
                batch = next(self._source, None)
                if batch is None:
                    return
                self._waiting.append(batch)
            self._hand_out()
            with contextlib.suppress(queue.Empty):
                yield from self._news.get(timeout=_LOOK_EVERY)()
            now = time.monotonic()
            if now - looked >= _LOOK_EVERY:
                looked = now
                if self._client.status not in ("running", "connecting") or not self._look():
                    self.lost = cause.RunLost("the scheduler of the cluster was lost")
                    return
                lost = [future for future, flight in self._flying.items() if flight.address not in self._workers]
                # What a worker said before it was lost counts.
                while lost and not self._news.empty():
                    yield from self._news.get()()
                for future in lost:
                    future.cancel()
                    if future in self._flying:
                        yield from self._put_back(self._flying.pop(future))
            if self._workers:
                alone_since = now
            elif self._problem:
                self.lost = cause.RunLost(f"no worker of the cluster can be used any more: {self._problem}")
                return
            elif now - alone_since > PATIENCE:
                self.lost = cause.RunLost(f"the cluster had no worker for {PATIENCE:.0f} s")
                return

    def _look(self) -> bool:
        """Which workers there are; new ones are looked at before they get anything. False: nobody can tell."""
        try:
            silences = self._client.run_on_scheduler(_silences)
        except (OSError, ValueError, TimeoutError):
            return False
        heard = [address for address, seconds in silences.items() if seconds < self._silence]
        for address in heard:
            if address not in self._workers and address not in self._refused:
                found = self._look_at(address)
                if isinstance(found, str):
                    self._refused.add(address)
                    self._complain(f"warning: {found}")
                    continue
                self._workers[address] = found
                self.hosts.setdefault(found.host, HostTally()).workers += 1
        for address in [known for known in self._workers if known not in heard]:
            self._give_up(address)
            if address in silences:
                words = f"nothing was heard of the worker {address} for {self._silence:.0f} s"
                self._complain(f"warning: {words}; what it had runs elsewhere.")
        return True

    def _give_up(self, address: str) -> None:
        self.hosts[self._workers.pop(address).host].workers -= 1

    def _refuse(self, address: str, why: str) -> None:
        """Give the worker nothing more; what it has is taken back at the next look."""
        self._problem = f"the worker {address} does not answer as agreed: {why}"
        self._complain(f"warning: {self._problem}; it gets no more cases, and what it had runs elsewhere.")
        self._give_up(address)
        self._refused.add(address)

    def _hand_out(self) -> None:
        """To each worker as much as it needs to be busy; every one gets its first batch before any gets a second."""
        load = Counter(flight.address for flight in self._flying.values() if not flight.answers)
        for depth in range(worker.IN_FLIGHT):
            for address, checked in self._workers.items():
                while load[address] < len(checked.slots) * (depth + 1):
                    batch = self._waiting.popleft() if self._waiting else next(self._source, None)
                    if batch is None:
                        return
                    orders = [(unit.id, unit.order) for unit in batch]
                    self._fly(_Flight(address, batch), worker.run_batch, self._setup, checked.slots, orders)
                    self._held.update((unit.id, address) for unit in batch)
                    load[address] += 1

    def _fly(self, flight: _Flight, function: Callable[..., bytes], *arguments: Any) -> None:
        # Outputs before further cases: the worker forgets them.
        priority = len(flight.drawn)
        future = submit(self._client, flight.address, function, self._run, *arguments, priority=priority)
        self._flying[future] = flight
        future.add_done_callback(lambda done: self._news.put(partial(self._landed, done)))

    def _started(self, event: Any) -> Iterator[CaseStarted]:
        try:
            start = decode(event[1] if isinstance(event, tuple | list) else event, UnitStart)
        except BadAnswerError:
            # Any member of the cluster may say anything here, and nothing depends on it.
            return
        if self._held.get(start.unit) == start.worker:
            self._begun.add(start.unit)
            if start.worker in self._workers:
                self.hosts[self._workers[start.worker].host].running.add(start.unit)
            yield CaseStarted(start.unit)

    def _landed(self, future: "Future") -> Iterator[UnitAnswered | CasesRetracted]:
        """The answers of a batch once nothing more is asked of it, or why there are none."""
        # With the scheduler all are lost.
        if future not in self._flying or self._client.status != "running":
            return
        flight = self._flying.pop(future)
        try:
            data = self._fetched(future, flight.address)
            answers = self._judged_here(flight, data) if flight.drawn else self._read(flight, data)
        except _WorkerLostError:
            yield from self._put_back(flight)
            return
        except BadAnswerError as error:
            self._refuse(flight.address, str(error))
            self._losses[error.unit] += 1
            # Whoever is caught with one wrong verdict is not believed the others.
            retracted = self._answered.pop(flight.address, []) if flight.drawn else []
            if retracted:
                yield CasesRetracted(tuple(unit.id for unit in retracted))
            self._waiting.extend((unit,) for unit in retracted)
            yield from self._put_back(flight)
            return
        if not flight.drawn:
            drawn = tuple(n for n, one in enumerate(answers) if self._audit.draws(flight.address, one))
            if drawn:
                units = [flight.batch[n].id for n in drawn]
                self._fly(replace(flight, answers=answers, drawn=drawn), worker.hand_over, units)
                return
        if self._retracts:
            self._answered[flight.address].extend(flight.batch)
        yield from map(self._finished, answers)

    def _read(self, flight: _Flight, data: Any) -> Sequence[UnitAnswered]:
        answers = read_results(data, flight.batch, self._workers[flight.address])
        for one in answers:
            # A bug of ours, or of what is installed there: another worker tells.
            if one.result.bug and not self._losses[one.unit.id] and len(self._workers) > 1:
                raise BadAnswerError(one.result.reason, one.unit.id)
        return [replace(one, result=replace(one.result, judged_by="worker")) for one in answers]

    def _judged_here(self, flight: _Flight, data: Any) -> Sequence[UnitAnswered]:
        """The answers of a batch, with the outputs that were drawn judged here; BadAnswerError where that differs."""
        outputs = decode(data, tuple[bytes, ...])
        if len(outputs) != len(flight.drawn):
            raise BadAnswerError(f"it handed over {len(outputs)} outputs instead of {len(flight.drawn)}")
        answers = list(flight.answers)
        for number, handed in zip(flight.drawn, outputs, strict=True):
            one = answers[number]
            if self._audit.agrees(one, handed, len(answers)):
                answers[number] = replace(one, result=replace(one.result, judged_by=""))
        return answers

    def _fetched(self, future: "Future", address: str) -> Any:
        """The answer, which lies on the worker that has it."""
        end = time.monotonic() + self._silence
        while address in self._workers:
            try:
                return future.result(timeout=_FETCH)
            except TimeoutError:
                if time.monotonic() > end:
                    raise BadAnswerError(f"it did not hand over its answer within {self._silence:.0f} s") from None
                self._look()
            except Exception as error:
                if type(error).__name__ in _LOST:
                    raise _WorkerLostError from error
                words, *_trace = f"{type(error).__name__}: {error}".splitlines()  # Dask adds that of the worker
                raise BadAnswerError(words) from error
        future.cancel()
        raise _WorkerLostError

    def _finished(self, answered: UnitAnswered) -> UnitAnswered:
        self._let_go(answered.unit)
        self._losses.pop(answered.unit.id, None)
        if answered.result.host:
            self.hosts.setdefault(answered.result.host, HostTally()).done += 1
        return answered

    def _let_go(self, unit: Unit) -> None:
        self._held.pop(unit.id, None)
        self._begun.discard(unit.id)
        for host in self.hosts.values():
            host.running.discard(unit.id)

    def _put_back(self, flight: _Flight) -> Iterator[UnitAnswered]:
        """Run elsewhere what a lost worker had, except for a case with which too many were lost."""
        for unit in flight.batch:
            # A worker that was refused names whom it blames.
            self._losses[unit.id] += unit.id in self._begun and flight.address not in self._refused
            self._let_go(unit)
            if self._losses[unit.id] >= MAX_LOSSES:
                lost = cause.WorkerLost(self._losses[unit.id], flight.address.rpartition("://")[2])
                result = CaseResult(unit.id, unit.operator, unit.tags, Outcome.CRASHED, causes=(lost,), compared=True)
                yield self._finished(UnitAnswered(unit, with_fingerprint(result)))
            else:
                # One by one: whoever is to blame takes nobody with it the next time.
                self._waiting.appendleft((unit,))

    def _end(self) -> None:
        """Forget what still runs, and let the workers close the backends."""
        if self._client.status != "running":
            return

        def close() -> None:
            with contextlib.suppress(Exception):
                self._client.unsubscribe_topic(self._run)
                for future in self._flying:
                    future.cancel()
                there = [*self._workers, *self._refused]
                self._client.run(worker.end_run, self._run, workers=there, on_error="ignore")

        # Aside: a worker that has been stopped would never answer.
        closing = threading.Thread(target=close, daemon=True)
        closing.start()
        closing.join(_END)


def _silences(dask_scheduler: Any) -> dict[str, float]:
    """The workers, and for how many seconds nothing was heard of each."""
    now = time.time()
    return {address: now - state.last_seen for address, state in dask_scheduler.workers.items()}
