"""What happens on a worker of the cluster; these functions travel there by their names, so it needs this package."""

import contextlib
import hashlib
import math
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from mluops_gtest.api.case_runner import CaseRunner
from mluops_gtest.api.fuzzing import HuntRunner
from mluops_gtest.api.session import Session
from mluops_gtest.content.root import BUILTIN
from mluops_gtest.content.selection import Selected
from mluops_gtest.engine.request import RunRequest
from mluops_gtest.errors import HarnessError
from mluops_gtest.files.cache_folder import cache_folder
from mluops_gtest.files.typed import Source
from mluops_gtest.files.writing import replace_file
from mluops_gtest.model.result import CaseResult
from mluops_gtest.version import __version__

# Written last into the folder of a parcel.
_COMPLETE: Final = ".complete"
# Seconds between two words of a worker about what it has begun with.
_QUIET: Final = 0.2


def describe(roots: tuple[str, ...], operators: tuple[str, ...]) -> dict[str, Any]:
    """What the controller compares with its own before it sends cases: version, host, digests of the locks."""
    return {"version": __version__, "host": socket.gethostname(), "content": content_digests(roots, operators)}


def content_digests(roots: tuple[str, ...], operators: tuple[str, ...]) -> dict[str, str]:
    """Of each operator a digest of its lock, which names every declared case and its values; empty without one."""
    from mluops_gtest.codec.lock import lock_path

    catalogue = Session(roots).catalogue
    digests = {}
    for name in operators:
        digests[name] = ""
        if name in catalogue.operators:
            with contextlib.suppress(OSError):
                data = lock_path(catalogue.root_of(name).stored, name).read_bytes()
                digests[name] = hashlib.sha256(data).hexdigest()[:16]
    return digests


def has_parcel(digest: str) -> bool:
    """The worker has the files of that parcel."""
    return (_parcel(digest) / _COMPLETE).is_file()


def keep_parcel(digest: str, files: Mapping[str, bytes]) -> None:
    """Keep files that belong together, by the digest of all."""
    folder = _parcel(digest)
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        replace_file(folder / Path(name).name, [data])
        (folder / Path(name).name).chmod(0o755)
    replace_file(folder / _COMPLETE, [b""])


def parcel_digest(files: Mapping[str, bytes]) -> str:
    """The same for the same names and contents."""
    digest = hashlib.sha256()
    for name, data in sorted(files.items()):
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


def _parcel(digest: str) -> Path:
    return cache_folder() / "shipped" / digest


def _shipped(name: str, parcels: Mapping[str, str]) -> Path | None:
    """Where a file that the controller calls so lies here; None for one that was not sent."""
    return _parcel(parcels[name]) / Path(name).name if name in parcels else None


_Runner = CaseRunner | HuntRunner


@dataclass(slots=True)
class _Runners:
    """The open backends of one run on this worker: as many as it has threads that run cases."""

    request: RunRequest
    session: Session
    # Files that came with the run: the controller's name → the digest of its parcel.
    parcels: Mapping[str, str]
    devices: tuple[int, ...]
    # Whole calls come, not cases of the content.
    drawn: bool
    free: "queue.SimpleQueue[tuple[_Runner, int | None]]" = field(default_factory=queue.SimpleQueue)
    opened: "list[_Runner]" = field(default_factory=list)

    @contextlib.contextmanager
    def taken(self) -> "Iterator[tuple[_Runner, int | None]]":
        """One that nobody else uses meanwhile."""
        try:
            runner, device = self.free.get_nowait()
        except queue.Empty:
            device = self.devices[len(self.opened) % len(self.devices)] if self.devices else None
            request = replace(self.request, devices=() if device is None else (device,), jobs=1)
            runner = (HuntRunner if self.drawn else CaseRunner)(self.session, request).__enter__()
            self.opened.append(runner)
        try:
            yield runner, device
        finally:
            self.free.put((runner, device))


_RUNS: dict[str, _Runners] = {}
_OPENING = threading.Lock()


def run_batch(
    run: str, setup: Mapping[str, Any], devices: tuple[int, ...], orders: Sequence[tuple[str, Any]]
) -> list[tuple[CaseResult, Any]]:
    """What comes of each order, in turn; what takes long is announced before it begins.

    An order is the id of a case, or a call that was drawn and whether it shall be made smaller.
    """
    runners = _runners(run, setup, devices)
    announce = _announcing(run)
    host = socket.gethostname()
    answers = []
    with runners.taken() as (runner, device):
        for unit, order in orders:
            announce(unit)
            if isinstance(runner, HuntRunner):
                result, more = runner.run(*order)
            else:
                result, more = runner.result_of(_selected(runners, order)), None
            answers.append((replace(result, host=host, device=device), more))
    return answers


def try_backend(
    run: str, setup: Mapping[str, Any], devices: Mapping[str, tuple[int, ...]], dask_worker: Any
) -> dict[str, Any]:
    """What the backend calls itself on this worker, which Dask hands in, and its version; or why it does not load."""
    try:
        with _runners(run, setup, devices[dask_worker.address]).taken() as (runner, _):
            for operator in setup["operators"]:
                runner.prepare(operator)
            return {"name": runner.backend, "version": runner.version}
    except HarnessError as error:
        return {"error": str(error), "exit_code": int(error.exit_code)}


def end_run(run: str) -> None:
    """Close the backends of a run."""
    with _OPENING:
        runners = _RUNS.pop(run, None)
    for runner in () if runners is None else runners.opened:
        runner.__exit__(None, None, None)


def _runners(run: str, setup: Mapping[str, Any], devices: tuple[int, ...]) -> _Runners:
    """`setup` is the request of the run and its parcels."""
    with _OPENING:
        if run not in _RUNS:
            request = RunRequest.from_json(dict(setup["request"]), Source("the run's request", ""))
            backend = request.backend
            for name in request.ship:
                backend = backend.replace(name, str(_shipped(name, setup["parcels"])))
            request = replace(request, backend=backend, cluster=None, ship=())
            _RUNS[run] = _Runners(request, Session(request.roots), setup["parcels"], devices, setup["drawn"])
        return _RUNS[run]


def _announcing(run: str) -> Callable[[str], None]:
    from distributed import get_worker

    worker = get_worker()
    return now_and_then(lambda unit: worker.log_event(topic_of(run), {"unit": unit, "worker": worker.address}))


def now_and_then(tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> Callable[[str], None]:
    """Tells of the first unit, and of others once it has been quiet for a while.

    Words for each of many quick cases would cost more than the cases. If the worker is lost over one that was not told,
    all that it had runs elsewhere, each in a batch of its own, and is told first.
    """
    last = -math.inf

    def announce(unit: str) -> None:
        nonlocal last
        now = clock()
        if now - last >= _QUIET:
            last = now
            tell(unit)

    return announce


def topic_of(run: str) -> str:
    """Where workers say what they begin."""
    return f"mluops-test-{run}"


def _selected(runners: _Runners, case_id: str) -> Selected:
    path = _shipped(case_id, runners.parcels)
    if path is not None:
        return Selected(case_id, "", (), named=True, path=path)
    draft = runners.session.catalogue.draft(case_id)
    assert draft is not None, "the locks are the controller's"
    return Selected(draft.id, draft.operator, draft.tags, named=True, draft=draft)


def roots_of(roots: Sequence[str]) -> tuple[str, ...]:
    """The roots as another machine finds them: by the word, or at the same place."""
    return tuple(root if root == BUILTIN else str(Path(root).resolve()) for root in roots)
