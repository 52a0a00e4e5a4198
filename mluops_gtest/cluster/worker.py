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
from mluops_gtest.cluster.answers import (
    BackendTrial,
    BatchAnswer,
    HandedOutputs,
    UnitAnswer,
    UnitStart,
    WorkerDescription,
    encode,
    line_of,
)
from mluops_gtest.cluster.auditing import digest_of, outputs_bytes
from mluops_gtest.codec.case_files.writer import case_document
from mluops_gtest.codec.schema.schema import Schema
from mluops_gtest.codec.wire.binary import write_binary
from mluops_gtest.content.root import BUILTIN
from mluops_gtest.content.selection import Selected
from mluops_gtest.engine.outputs import CaseOutputs
from mluops_gtest.engine.request import RunRequest
from mluops_gtest.errors import HarnessError
from mluops_gtest.files.cache_folder import cache_folder
from mluops_gtest.files.typed import Source
from mluops_gtest.files.writing import replace_file
from mluops_gtest.model.case import Case
from mluops_gtest.version import __version__

# Written last into the folder of a parcel.
_COMPLETE: Final = ".complete"
# Seconds between two words of a worker about what it has begun with.
_QUIET: Final = 0.2


def describe(roots: tuple[str, ...], operators: tuple[str, ...], parcels: Sequence[str]) -> bytes:
    """This worker as an encoded WorkerDescription."""
    has = tuple(digest for digest in parcels if (_parcel(digest) / _COMPLETE).is_file())
    return encode(WorkerDescription(__version__, socket.gethostname(), content_digests(roots, operators), has))


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
class _LastOutputs:
    """The outputs of the case that runs: of the call that its result tells of, the first that failed, else the last."""

    # Of how many in its batch.
    cases: int = 1
    data: bytes = b""
    failed: bool = False

    def __call__(self, outputs: CaseOutputs) -> None:
        """Copy the outputs while they are in their buffers."""
        if not self.failed:
            self.failed = outputs.result.outcome.blocks
            self.data = outputs_bytes(outputs, self.cases)

    def take(self) -> bytes:
        """What was kept of the case that has run; empty where it left nothing."""
        data, self.data, self.failed = self.data, b"", False
        return data


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
    free: "queue.SimpleQueue[tuple[_Runner, int | None, _LastOutputs]]" = field(default_factory=queue.SimpleQueue)
    opened: "list[_Runner]" = field(default_factory=list)
    # Batch → unit → its outputs, of the newest batches.
    kept: dict[int, dict[str, bytes]] = field(default_factory=dict)

    @contextlib.contextmanager
    def taken(self) -> "Iterator[tuple[_Runner, int | None, _LastOutputs]]":
        """One that nobody else uses meanwhile."""
        try:
            runner, device, last = self.free.get_nowait()
        except queue.Empty:
            device = self.devices[len(self.opened) % len(self.devices)] if self.devices else None
            request = replace(self.request, devices=() if device is None else (device,), jobs=1)
            last = _LastOutputs()
            made = HuntRunner(self.session, request) if self.drawn else CaseRunner(self.session, request, last)
            runner = made.__enter__()
            self.opened.append(runner)
        try:
            yield runner, device, last
        finally:
            self.free.put((runner, device, last))

    def keep(self, batch: int, outputs: dict[str, bytes], newest: int) -> None:
        """Keep the outputs of a batch, and let go of those of all but the newest."""
        with _OPENING:
            self.kept[batch] = outputs
            for oldest in sorted(self.kept)[:-newest]:
                del self.kept[oldest]


# By the run and the address of the worker: several may share a process.
_RUNS: dict[tuple[str, str], _Runners] = {}
_OPENING = threading.Lock()


def run_batch(
    run: str,
    setup: Mapping[str, Any],
    devices: tuple[int, ...],
    orders: Sequence[tuple[str, Any]],
    batch: int,
    newest: int,
) -> bytes:
    """What comes of each order, in turn, as an encoded BatchAnswer; what takes long is announced before it begins.

    An order is the id of a case, or a call that was drawn and whether it shall be made smaller. Whatever goes wrong is
    an answer: an exception might not survive the way to the controller. Outputs of so many `newest` batches are kept.
    """
    unit = ""
    try:
        runners = _runners(run, setup, devices)
        announce = _announcing(run)
        host = socket.gethostname()
        answers, kept = [], {}
        with runners.taken() as (runner, device, last):
            last.cases = len(orders)
            for unit, order in orders:
                announce(unit)
                smallest = b""
                if isinstance(runner, HuntRunner):
                    result, small = runner.run(*order)
                    smallest = b"" if small is None else _case_bytes(small.case, runners.session)
                else:
                    result = runner.result_of(_selected(runners, order))
                kept[unit] = last.take()
                digest = digest_of(kept[unit]) if kept[unit] else ""
                answers.append(UnitAnswer(line_of(replace(result, host=host, device=device)), smallest, digest))
        runners.keep(batch, kept, newest)
        return encode(BatchAnswer(tuple(answers)))
    except Exception as error:
        return encode(BatchAnswer(error=_told(error), unit=unit))


def hand_over(run: str, batch: int, units: Sequence[str]) -> bytes:
    """The outputs of these units of a batch, as encoded HandedOutputs."""
    kept = _RUNS[run, _this_worker().address].kept.get(batch, {})
    return encode(HandedOutputs(tuple(kept.get(unit, b"") for unit in units)))


def _case_bytes(case: Case, session: Session) -> bytes:
    operator = session.catalogue.operators[case.operator]
    return b"".join(map(bytes, write_binary(case_document(case, operator, Schema.of([operator])))))


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, HarnessError) else f"{type(error).__name__}: {error}"


def try_backend(run: str, setup: Mapping[str, Any], devices: tuple[int, ...]) -> bytes:
    """What the backend says of itself on this worker, as an encoded BackendTrial."""
    try:
        with _runners(run, setup, devices).taken() as (runner, _, _):
            for operator in setup["operators"]:
                runner.prepare(operator)
            trial = BackendTrial(runner.backend, runner.version)
            if isinstance(runner, CaseRunner):
                trial = replace(trial, precision=runner.precision.declared, is_reference=runner.is_reference)
            return encode(trial)
    except Exception as error:
        return encode(BackendTrial(error=_told(error)))


def end_run(run: str) -> None:
    """Close the backends of a run."""
    with _OPENING:
        ended = [_RUNS.pop(key) for key in tuple(_RUNS) if key[0] == run]
    for runners in ended:
        for runner in runners.opened:
            runner.__exit__(None, None, None)


def _runners(run: str, setup: Mapping[str, Any], devices: tuple[int, ...]) -> _Runners:
    """`setup` is the request of the run and its parcels."""
    key = run, _this_worker().address
    with _OPENING:
        if key not in _RUNS:
            request = RunRequest.from_json(dict(setup["request"]), Source("the run's request", ""))
            backend = request.backend
            for name in request.ship:
                backend = backend.replace(name, str(_shipped(name, setup["parcels"])))
            request = replace(request, backend=backend, cluster=None, ship=())
            _RUNS[key] = _Runners(request, Session(request.roots), setup["parcels"], devices, setup["drawn"])
        return _RUNS[key]


def _this_worker() -> Any:
    from distributed import get_worker

    return get_worker()


def _announcing(run: str) -> Callable[[str], None]:
    worker = _this_worker()
    return now_and_then(lambda unit: worker.log_event(topic_of(run), encode(UnitStart(unit, worker.address))))


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
