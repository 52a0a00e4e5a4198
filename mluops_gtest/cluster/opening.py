"""A cluster made ready for a run: workers looked at, files sent, the backend tried."""

import contextlib
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic

from msgspec.structs import replace

from mluops_gtest.cluster import worker
from mluops_gtest.cluster.answers import BackendTrial, BadAnswerError, Checked, U, WorkerDescription, decode
from mluops_gtest.cluster.auditing import OutputAudit
from mluops_gtest.cluster.connecting import connected, submit
from mluops_gtest.cluster.dispatch import Dispatcher
from mluops_gtest.engine.request import RunRequest
from mluops_gtest.errors import BackendError, UsageError
from mluops_gtest.model.case import Case
from mluops_gtest.value import Value
from mluops_gtest.version import __version__

if TYPE_CHECKING:
    from distributed import Client

# Seconds to wait for the first workers, for what a worker says of itself, and for its backend.
_PATIENCE: Final = 60
_ANSWER: Final = 60
_LOADED: Final = 300


class OpenCluster(Value, Generic[U]):
    """What hands work to the cluster, and what the backend says of itself there."""

    dispatcher: Dispatcher[U]
    name: str
    version: str


@contextlib.contextmanager
def open_cluster(
    request: RunRequest,
    operators: Sequence[str],
    files: Mapping[str, Path],
    order: Callable[[U], Any],
    complain: Callable[[str], None],
    read_smallest: Callable[[U, bytes], Case | None] | None = None,
    audit: OutputAudit | None = None,
) -> Iterator[OpenCluster[U]]:
    """The cluster that the request names; workers that cannot run its cases are refused, and told to `complain`.

    `files` are case files that travel, by their names; `order` is what a worker is told of a unit, see
    worker.run_batch. Calls that were drawn come complete, and `read_smallest` reads what a search for a smaller one
    answers. `audit` judges outputs again here.
    """
    assert request.cluster is not None, "the request names a cluster"
    with connected(request.cluster) as client:
        try:
            client.wait_for_workers(_expected(request.cluster), timeout=_PATIENCE)
        except TimeoutError as error:
            raise BackendError(f"--cluster {request.cluster}: {error} s; start its workers, then run again.") from error
        opening = _Opening(client, request, operators, files, complain)
        usable, run = opening.usable(), uuid.uuid4().hex
        there = replace(request, roots=worker.roots_of(request.roots), reports={}, devices=())
        setup = {
            "request": there.to_json([], 0),
            "parcels": opening.digests,
            "operators": opening.operators,
            "drawn": read_smallest is not None,
        }
        # On all of them at once, before the clock of the run starts.
        tried = opening.tried(run, setup, usable)
        if audit is not None:
            audit.trial = tried
        dispatcher = Dispatcher(
            client, run, setup, order, opening.admit, complain, read_smallest, request.timeout, audit
        )
        yield OpenCluster(dispatcher, tried.name, tried.version)


def _ask(
    client: "Client", function: Callable[..., Any], arguments: Mapping[str, Sequence[Any]], seconds: float
) -> dict[str, Any]:
    """What the function gives on each of these workers with its arguments; where it gives nothing, an exception."""
    futures = {address: submit(client, address, function, *given) for address, given in arguments.items()}
    end = time.monotonic() + seconds
    answers: dict[str, Any] = {}
    for address, future in futures.items():
        try:
            # Those that are done need no time; a second for what is on its way.
            answers[address] = future.result(timeout=max(end - time.monotonic(), 1))
        except Exception as error:
            answers[address] = error
            future.cancel()
    return answers


def _expected(address: str) -> int:
    """How many workers to wait for: all of a cluster that this run starts, one of any other."""
    number = address.partition("local:")[2]
    return int(number) if number else 1


def _parcels(request: RunRequest, files: Mapping[str, Path]) -> dict[str, dict[str, bytes]]:
    """The files that travel: the user's cases with the values beside them, and what --ship names."""
    found = {}
    for name, file in (*files.items(), *((name, Path(name)) for name in request.ship)):
        beside = () if name in request.ship else file.parent.glob(f"{file.stem}.*.bin*")
        try:
            found[name] = {one.name: one.read_bytes() for one in (file, *beside)}
        except OSError as error:
            raise UsageError(f"{file}: cannot be sent to the cluster: {error.strerror}.") from error
    return found


class _Opening:
    """What is known of the workers of one run."""

    def __init__(
        self,
        client: "Client",
        request: RunRequest,
        operators: Sequence[str],
        files: Mapping[str, Path],
        complain: Callable[[str], None],
    ) -> None:
        self._client, self._request, self._complain = client, request, complain
        self._roots = worker.roots_of(request.roots)
        self.operators = tuple(sorted(set(operators)))
        self._content = worker.content_digests(self._roots, self.operators)
        self._parcels = _parcels(request, files)
        # The controller's name → digest.
        self.digests = {name: worker.parcel_digest(files) for name, files in self._parcels.items()}
        # How many workers of each host have been given devices.
        self._ranks: Counter[str] = Counter()
        self._checked: dict[str, Checked] = {}
        self._answers: dict[str, Any] = {}
        # What is wrong with those that nobody asks again.
        self._unfit: dict[str, str] = {}

    def usable(self) -> list[str]:
        """The workers that can run the cases; BackendError where there is none, with what is wrong with the first."""
        addresses = list(self._client.scheduler_info(n_workers=-1)["workers"])
        self._describe(addresses)
        problems = {address: self._problem(address) for address in addresses}
        return self._some([address for address, problem in problems.items() if problem is None], problems)

    def tried(self, run: str, setup: Mapping[str, Any], addresses: Sequence[str]) -> BackendTrial:
        """What the backend says of itself on the first of these workers; BackendError where it does not load on one."""
        given = {address: (run, setup, self._checked[address].devices) for address in addresses}
        trials = {}
        for address, answer in _ask(self._client, worker.try_backend, given, _LOADED).items():
            try:
                trials[address] = decode(answer, BackendTrial)
            except BadAnswerError as error:
                self._unfit[address] = f"The worker {address} cannot be used: {_words(answer, error)}"
                continue
            if trials[address].error:
                raise BackendError(f"On the worker {address}: {trials[address].error}")
        return trials[self._some(list(trials), self._unfit)[0]]

    def _some(self, found: list[str], problems: Mapping[str, str | None]) -> list[str]:
        if not found:
            raise BackendError(
                f"No worker of the cluster can run these cases. {next(iter(problems.values()), '')}".strip()
            )
        return found

    def admit(self, address: str) -> Checked | None:
        """The worker, if it can run the cases; else why not is told once."""
        problem = self._problem(address)
        if problem is not None:
            self._complain(f"warning: {problem}")
            return None
        return self._checked[address]

    def _problem(self, address: str) -> str | None:
        """Why that worker cannot run the cases; None where it can."""
        if address in self._checked or address in self._unfit:
            return self._unfit.get(address)
        if address not in self._answers:
            self._describe([address])
        try:
            told = decode(self._answers[address], WorkerDescription)
        except BadAnswerError as error:
            # Whatever keeps it from answering, a missing package first of all.
            return (
                f"The worker {address} does not know mluops-test {__version__} or its roots "
                f"({_words(self._answers[address], error)}); install the same version there."
            )
        if told.version != __version__:
            return (
                f"The worker {address} ({told.host}) has mluops-test {told.version}, this is {__version__}; "
                "install the same version there."
            )
        for operator, digest in self._content.items():
            if told.content.get(operator) != digest:
                has = "another lock" if told.content.get(operator) else "no lock"
                return (
                    f"The worker {address} ({told.host}) has {has} of {operator} "
                    f"(prototxt/{operator}/baselines.lock) than this machine; bring it to the same commit."
                )
        for name, digest in self.digests.items():
            if digest not in told.parcels:
                given = {address: (digest, self._parcels[name])}
                answer = _ask(self._client, worker.keep_parcel, given, _LOADED)[address]
                if isinstance(answer, Exception):
                    return f"The worker {address} ({told.host}) did not take {name}: {answer}"
        self._checked[address] = self._with_devices(address, told.host)
        return None

    def _describe(self, addresses: Sequence[str]) -> None:
        """Ask these workers what they are, all at once."""
        given = (self._roots, self.operators, tuple(self.digests.values()))
        self._answers |= _ask(self._client, worker.describe, dict.fromkeys(addresses, given), _ANSWER)

    def _with_devices(self, address: str, host: str) -> Checked:
        """As many lanes as the worker has threads, or devices; workers of one host share its devices evenly."""
        info: Mapping[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"].get(address, {})
        lanes = int(info.get("resources", {}).get("DEVICE", 0)) or int(info.get("nthreads", 1))
        rank = self._ranks[host]
        self._ranks[host] += 1
        devices = self._request.devices
        own = tuple(devices[(rank * lanes + lane) % len(devices)] for lane in range(lanes)) if devices else ()
        return Checked(host, lanes, own)


def _words(answer: Any, error: BadAnswerError) -> str:
    """Why there is no answer; else what is wrong with it."""
    return f"{type(answer).__name__}: {answer}" if isinstance(answer, Exception) else str(error)
