"""What happens on a worker of the cluster; these functions travel there by their names, so it needs this package."""

import atexit
import contextlib
import hashlib
import math
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from mluops_gtest.base.errors import HarnessError
from mluops_gtest.base.files import cache_folder, replace_file
from mluops_gtest.base.typed_files import Source
from mluops_gtest.casefiles.binary import write_binary
from mluops_gtest.casefiles.schema import Schema
from mluops_gtest.casefiles.writer import case_document
from mluops_gtest.catalog.root import BUILTIN
from mluops_gtest.catalog.selection import Selected, Session
from mluops_gtest.cluster.answers import (
    BackendTrial,
    BatchAnswer,
    UnitAnswer,
    UnitStart,
    WorkerDescription,
    digest_of,
    encode,
    line_of,
    outputs_bytes,
)
from mluops_gtest.core.case import Case
from mluops_gtest.results.saved_outputs import CaseOutputs
from mluops_gtest.running.options import RunOptions
from mluops_gtest.running.session import CaseRunner
from mluops_gtest.search.fuzz import FuzzRunner
from mluops_gtest.version import __version__

# Written last into the folder of a parcel.
_COMPLETE: Final = ".complete"
# Seconds between two words of a worker about what it has begun with.
_QUIET: Final = 0.2
# Batches of each thread, run or waiting: few, so that a lost worker takes little with it, and enough that it never
# waits for the next.
IN_FLIGHT: Final = 2


def describe(roots: tuple[str, ...], operators: tuple[str, ...], parcels: Sequence[str]) -> bytes:
    """This worker as an encoded WorkerDescription."""
    has = tuple(digest for digest in parcels if (_parcel(digest) / _COMPLETE).is_file())
    return encode(WorkerDescription(__version__, socket.gethostname(), content_digests(roots, operators), has))


def content_digests(roots: tuple[str, ...], operators: tuple[str, ...]) -> dict[str, str]:
    """Of each operator a digest of its lock, which names every declared case and its values; empty without one."""
    from mluops_gtest.casefiles.lock import lock_path

    catalogue = Session(roots).catalogue
    digests = {}
    for name in operators:
        digests[name] = ""
        if name in catalogue.operators:
            with contextlib.suppress(OSError):
                data = lock_path(catalogue.root_of(name).stored, name).read_bytes()
                digests[name] = hashlib.sha256(data).hexdigest()[:16]
    return digests


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


class _Slot:
    """An open backend, its device, and the outputs of the case that it runs."""

    def __init__(
        self, runner_of: type[CaseRunner] | type[FuzzRunner], session: Session, request: RunOptions, device: int | None
    ) -> None:
        self.device = device
        # How many cases its batch has.
        self.cases = 1
        # By whether the call failed.
        self._outputs: dict[bool, bytes] = {}
        self.runner = runner_of(session, request, self._keep).__enter__()

    def _keep(self, outputs: CaseOutputs) -> None:
        """Copy those of the first call that failed, and of the last that did not."""
        failed = outputs.result.outcome.blocks
        if not failed or True not in self._outputs:
            self._outputs[failed] = outputs_bytes(outputs, self.cases)

    def take_outputs(self, *, failed: bool) -> bytes:
        """What was kept of the case that has run, which failed or did not; empty where it left nothing."""
        outputs, self._outputs = self._outputs, {}
        return outputs.get(failed, b"")


class _Runners:
    """The open backends of one run on this worker: as many as it has threads that run cases."""

    def __init__(self, setup: Mapping[str, Any], devices: tuple[int | None, ...]) -> None:
        """`setup` is the request of the run, its files (name → digest), and whether whole calls come, not cases."""
        request = RunOptions.from_json(dict(setup["request"]), Source("the run's request", ""))
        self.parcels: Mapping[str, str] = setup["parcels"]
        backend = request.backend
        for name in request.ship:
            backend = backend.replace(name, str(_shipped(name, self.parcels)))
        self._request = replace(request, backend=backend, cluster=None, ship=(), jobs=1)
        self.session = Session(request.roots)
        self._runner_of = FuzzRunner if setup["drawn"] else CaseRunner
        self._devices = devices
        self._free: queue.SimpleQueue[_Slot] = queue.SimpleQueue()
        self._opened: list[_Slot] = []
        # The outputs of each unit, of the newest batches: behind one that has landed a worker runs at most what is in
        # flight before it hands over outputs.
        self.kept: deque[dict[str, bytes]] = deque(maxlen=len(devices) * IN_FLIGHT + 2)
        # A controller that was killed ends no run, and later than this a process cannot close backends.
        atexit.register(self.close)

    @contextlib.contextmanager
    def use_slot(self) -> Iterator[_Slot]:
        """One that nobody else uses meanwhile."""
        try:
            slot = self._free.get_nowait()
        except queue.Empty:
            device = self._devices[len(self._opened) % len(self._devices)]
            request = replace(self._request, devices=() if device is None else (device,))
            slot = _Slot(self._runner_of, self.session, request, device)
            self._opened.append(slot)
        try:
            yield slot
        finally:
            self._free.put(slot)

    def close(self) -> None:
        """Close the backends."""
        for slot in self._opened:
            slot.runner.__exit__(None, None, None)


# By the run and the address of the worker: several may share a process.
_RUNS: dict[tuple[str, str], _Runners] = {}
_ENDED: set[str] = set()
_OPENING = threading.Lock()


def run_batch(
    run: str, setup: Mapping[str, Any], devices: tuple[int | None, ...], orders: Sequence[tuple[str, Any]]
) -> bytes:
    """What comes of each order, in turn, as an encoded BatchAnswer; what takes long is announced before it begins.

    An order is the id of a case, and of a call that was drawn the call and whether it shall be made smaller. Whatever
    goes wrong is an answer: an exception might not survive the way to the controller.
    """
    unit = ""
    try:
        runners = _runners(run, setup, devices)
        announce = _announcing(run)
        host = socket.gethostname()
        answers, kept = [], {}
        with runners.use_slot() as slot:
            slot.cases = len(orders)
            for unit, order in orders:
                announce(unit)
                smallest = b""
                if isinstance(slot.runner, FuzzRunner):
                    result, small = slot.runner.run(*order)
                    smallest = b"" if small is None else _case_bytes(small.case, runners.session)
                else:
                    result = slot.runner.run(_selected(runners, unit))
                kept[unit] = slot.take_outputs(failed=result.outcome.blocks)
                digest = digest_of(kept[unit]) if kept[unit] and not smallest else ""
                answers.append(UnitAnswer(line_of(replace(result, host=host, device=slot.device)), smallest, digest))
        runners.kept.append(kept)
        return encode(BatchAnswer(tuple(answers)))
    except Exception as error:
        return encode(BatchAnswer(error=_describe_error(error), unit=unit))


def hand_over(run: str, units: Sequence[str]) -> bytes:
    """The outputs of these units as their digests count them, encoded; empty where there are none."""
    kept = {unit: data for batch in tuple(_RUNS[_key(run)].kept) for unit, data in batch.items()}
    return encode(tuple(kept.get(unit, b"") for unit in units))


def _case_bytes(case: Case, session: Session) -> bytes:
    operator = session.catalogue.operators[case.operator]
    return b"".join(map(bytes, write_binary(case_document(case, operator, Schema.of([operator])))))


def _describe_error(error: Exception) -> str:
    return str(error) if isinstance(error, HarnessError) else f"{type(error).__name__}: {error}"


def try_backend(run: str, setup: Mapping[str, Any], devices: tuple[int | None, ...]) -> bytes:
    """What the backend says of itself on this worker, as an encoded BackendTrial."""
    try:
        with _runners(run, setup, devices).use_slot() as slot:
            runner = slot.runner
            for operator in setup["operators"]:
                runner.prepare(operator)
            return encode(BackendTrial(runner.backend, runner.version, runner.precision.declared, runner.is_reference))
    except Exception as error:
        return encode(BackendTrial(error=_describe_error(error)))


def end_run(run: str) -> None:
    """Close the backends of a run."""
    with _OPENING:
        _ENDED.add(run)
        ended = [_RUNS.pop(key) for key in tuple(_RUNS) if key[0] == run]
    for runners in ended:
        runners.close()


def _runners(run: str, setup: Mapping[str, Any], devices: tuple[int | None, ...]) -> _Runners:
    key = _key(run)
    with _OPENING:
        if run in _ENDED:
            # A batch that was given back before it began.
            raise HarnessError("the run has ended")
        if key not in _RUNS:
            _RUNS[key] = _Runners(setup, devices)
        return _RUNS[key]


def _key(run: str) -> tuple[str, str]:
    from distributed import get_worker

    return run, get_worker().address


def _announcing(run: str) -> Callable[[str], None]:
    from distributed import get_worker

    worker = get_worker()
    return now_and_then(lambda unit: worker.log_event(run, encode(UnitStart(unit, worker.address))))


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
