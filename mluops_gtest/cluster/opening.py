"""A cluster made ready for a run: workers looked at, files sent, the backend tried."""

import contextlib
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic

from msgspec.structs import replace

from mluops_gtest.cluster import worker
from mluops_gtest.cluster.connecting import connected
from mluops_gtest.cluster.dispatch import Checked, Dispatcher, U
from mluops_gtest.engine.request import RunRequest
from mluops_gtest.errors import BackendError, UsageError
from mluops_gtest.value import Value
from mluops_gtest.version import __version__

if TYPE_CHECKING:
    from distributed import Client

# Seconds to wait for the first workers.
_PATIENCE: Final = 60


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
    *,
    drawn: bool = False,
) -> Iterator[OpenCluster[U]]:
    """The cluster that the request names; workers that cannot run its cases are refused, and told to `complain`.

    `files` are case files that travel, by their names; `order` is what a worker is told of a unit, see
    worker.run_batch: calls that were `drawn` come complete.
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
            "drawn": drawn,
        }
        # On all of them at once, before the clock of the run starts.
        answers = client.run(worker.try_backend, run, setup, opening.devices(usable), workers=usable)
        for address, tried in answers.items():
            if "error" in tried:
                raise BackendError(f"On the worker {address}: {tried['error']}")
        tried = answers[usable[0]]
        yield OpenCluster(Dispatcher(client, run, setup, order, opening.admit), tried["name"], tried["version"])


def _expected(address: str) -> int:
    """How many workers to wait for: all of a cluster that this run starts, one of any other."""
    number = address.partition("local:")[2]
    return int(number) if number else 1


def _parcels(request: RunRequest, files: Mapping[str, Path]) -> dict[str, dict[str, bytes]]:
    """The files that travel: the user's cases with the values beside them, and what --ship names."""
    for name in request.ship:
        if name not in request.backend:
            raise UsageError(f"--ship {name}: --backend {request.backend} does not name that file.")
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
        self._told: dict[str, Any] = {}

    def usable(self) -> list[str]:
        """The workers that can run the cases; BackendError where there is none, with what is wrong with the first."""
        addresses = list(self._client.scheduler_info(n_workers=-1)["workers"])
        self._told = self._client.run(worker.describe, self._roots, self.operators, on_error="return")
        problems = {address: self._problem(address) for address in addresses}
        found = [address for address, problem in problems.items() if problem is None]
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

    def devices(self, addresses: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """The devices that each of these workers uses."""
        return {address: self._checked[address].devices for address in addresses}

    def _problem(self, address: str) -> str | None:
        """Why that worker cannot run the cases; None where it can."""
        if address in self._checked:
            return None
        try:
            told = self._asked(address)
            if isinstance(told, Exception):
                raise told
        except Exception as error:
            # Whatever keeps it from answering, a missing package first of all.
            return (
                f"The worker {address} does not know mluops-test {__version__} or its roots "
                f"({type(error).__name__}: {error}); install the same version there."
            )
        if told["version"] != __version__:
            return (
                f"The worker {address} ({told['host']}) has mluops-test {told['version']}, this is {__version__}; "
                "install the same version there."
            )
        for operator, digest in self._content.items():
            if told["content"].get(operator) != digest:
                has = "another lock" if told["content"].get(operator) else "no lock"
                return (
                    f"The worker {address} ({told['host']}) has {has} of {operator} "
                    f"(prototxt/{operator}/baselines.lock) than this machine; bring it to the same commit."
                )
        self._send(address)
        self._checked[address] = self._with_devices(address, told["host"])
        return None

    def _asked(self, address: str) -> Any:
        """What the worker says of itself; it was asked together with the others, or came later."""
        if address not in self._told:
            self._told |= self._client.run(worker.describe, self._roots, self.operators, workers=[address])
        return self._told[address]

    def _with_devices(self, address: str, host: str) -> Checked:
        """As many lanes as the worker has threads, or devices; workers of one host share its devices evenly."""
        info: Mapping[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"].get(address, {})
        lanes = int(info.get("resources", {}).get("DEVICE", 0)) or int(info.get("nthreads", 1))
        rank = self._ranks[host]
        self._ranks[host] += 1
        devices = self._request.devices
        own = tuple(devices[(rank * lanes + lane) % len(devices)] for lane in range(lanes)) if devices else ()
        return Checked(host, lanes, own)

    def _send(self, address: str) -> None:
        """Give the worker what it lacks of the files that travel."""
        for name, files in self._parcels.items():
            digest = self.digests[name]
            if not self._client.run(worker.has_parcel, digest, workers=[address])[address]:
                self._client.run(worker.keep_parcel, digest, files, workers=[address])
