"""Inside a worker process: load the backend, run calls on shared memory, answer in plain messages.

Under `--memory-limit` every call has so much address space on top of the loaded backend and the tensors.
"""

import contextlib
import errno
import faulthandler
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from mluops_gtest.base.errors import ExitCode, HarnessError, UsageError
from mluops_gtest.core.call import OpCall
from mluops_gtest.core.case import DEVICE_VARIABLE, BackendAdapter, invalid_members
from mluops_gtest.core.tensor import Array
from mluops_gtest.running.caller import BackendChoice, checked_size, describe_exception, failed_reply, reply_of
from mluops_gtest.running.workers.guard_pages import PagedMemory, code_ranges
from mluops_gtest.running.workers.memory import call_from, map_slab, view_of
from mluops_gtest.running.workers.process_state import ProcessState
from mluops_gtest.running.workers.process_tree import adopt_orphans, c_library, die_with
from mluops_gtest.running.workers.protocol import (
    Answered,
    Channel,
    ClosedError,
    Ended,
    Loaded,
    NotLoaded,
    Settled,
    Statement,
    WorkerIsFull,
    Workspace,
    answer_of,
    encoded,
)

# What a worker may keep of earlier calls before a new one takes its place, as a share of the limit. The hard limit
# lies above the limit by as much, so that every call gets all of its own.
_KEPT_SHARE = 8


class MemoryLimit:
    """`extra` bytes for every call; None: no limit."""

    def __init__(self, extra: int | None) -> None:
        self._extra = extra
        # Only root raises a hard limit again: it is set once, before the first call.
        self._hard: int | None = None
        self._peak = 0

    def begin(self) -> bool:
        """Limit the next call; False where this process has no room left for one, and a new one has."""
        if self._extra is None:
            return True
        now = _statm() * resource.getpagesize()
        if self._hard is None:
            self._hard = now + self._extra + self._extra // _KEPT_SHARE
            _, allowed = resource.getrlimit(resource.RLIMIT_AS)
            if allowed != resource.RLIM_INFINITY:
                self._hard = min(self._hard, allowed)
        elif now + self._extra > self._hard:
            return False
        try:
            resource.setrlimit(resource.RLIMIT_AS, (min(now + self._extra, self._hard), self._hard))
        except (ValueError, OSError):  # a call lowered the hard limit
            return False
        self._peak = _peak()
        return True

    def end(self) -> tuple[str, ...]:
        """Lift the soft limit again; tells whether the backend had raised the hard one."""
        if self._hard is None:
            return ()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        peak = _peak()
        raised = hard == resource.RLIM_INFINITY or hard > self._hard or peak > max(self._peak, self._hard)
        with contextlib.suppress(ValueError, OSError):  # it may have lowered the hard limit
            resource.setrlimit(resource.RLIMIT_AS, (self._hard, self._hard))
        return ("raised its memory limit (--memory-limit), which its privileges allow",) if raised else ()

    @property
    def is_exhausted(self) -> bool:
        """This process has no room for another call."""
        return self._hard is not None and _statm() * resource.getpagesize() + (self._extra or 0) > self._hard


def _statm() -> int:
    """Pages of address space; 0 where the system does not tell, so that the limit is the limit of all."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_bytes().split()[0])
    return 0


def _peak() -> int:
    """The most bytes of address space that this process ever had."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(Path("/proc/self/status").read_bytes().split(b"VmPeak:")[1].split()[0]) << 10
    return 0


_LOADING_CODES = (ExitCode.USAGE, ExitCode.CONTENT, ExitCode.BACKEND)


def work(channel: Channel, output: int, options: dict[str, Any]) -> None:
    """Serve one controller until it closes the pipe."""
    die_with(options["fork_server"])  # should that be killed, nobody else would end a worker that hangs
    adopt_orphans()
    _become_own_session(output)
    if options.get("device") is not None:
        os.environ[DEVICE_VARIABLE] = str(options["device"])
    worker = _Worker(options)
    with contextlib.suppress(ClosedError):
        while True:
            number, message, fds = channel.receive_numbered()
            answer = worker.answer(message, fds)
            if os.getpid() != worker.process:
                # A backend forked and its child came back here; the parent is the one that answers.
                return
            channel.send_bytes(number, encoded(answer))


class _Worker:
    """Holds the backend and its view of the arenas."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self.process = os.getpid()
        self._backend: BackendAdapter | None = None
        self._pages = PagedMemory() if options.get("guard_pages") else None
        self._memory = MemoryLimit(options.get("memory_limit"))
        self._state: ProcessState | None = None
        self._slabs: dict[str, Array] = {"tensors": np.empty(0, np.uint8), "workspace": np.empty(0, np.uint8)}

    def answer(self, message: dict[str, Any], fds: list[int]) -> Any:
        """One request, one answer."""
        match message["do"]:
            case "load":
                return self._load()
            case "healthy":
                return self._ask(BackendAdapter.healthy)
            case "close":
                return self._ask(BackendAdapter.close)
            case "supports":
                return self._ask(lambda backend: backend.supports(message["operator"]))
            case "settle":
                return Settled(self._state.settle() if self._state is not None else ())
            case "begin" | "run" | "run empty":
                return self._call_backend(message, fds)
        raise ValueError(f"unknown request {message['do']!r}")

    def _load(self) -> Loaded | NotLoaded:
        try:
            loaded = BackendChoice(**self._options["choice"]).load()
            backend = self._backend = BackendAdapter(loaded)
            if self._pages is not None and not backend.host_memory:
                raise UsageError(
                    f"--guard-pages works on host memory, but backend {backend.name} has its own memory; "
                    "a C library uses host memory if nothing offers it the cnrt functions."
                )
        except HarnessError as error:
            code = error.exit_code if error.exit_code in _LOADING_CODES else ExitCode.BACKEND
            return NotLoaded(str(error), int(code))  # type: ignore[arg-type]
        return Loaded(
            name=backend.name,
            is_reference=backend.is_reference,
            version=backend.version,
            deterministic=backend.deterministic,
            precision=backend.precision,
            offers=backend.members,
            misfits=tuple(invalid_members(loaded)),
            code=() if self._pages is None else code_ranges(),
        )

    def _ask(self, question: Callable[[BackendAdapter], bool | None]) -> Statement:
        """What the backend says beside any call."""
        assert self._backend is not None
        try:
            return Statement(bool(question(self._backend)))
        except Exception as error:
            return Statement(False, describe_exception(error))

    @contextlib.contextmanager
    def _call(self, message: dict[str, Any]) -> Iterator[OpCall]:
        """The call on its memory, which lasts as long as the request."""
        if self._pages is None:
            yield call_from(message["call"], view_of(self._slabs["tensors"]), view_of(self._slabs["workspace"]))
            return
        with self._pages.mapped(message["pages"]) as views:
            yield call_from(message["call"], views["tensors"], views["workspace"])

    def _call_backend(self, message: dict[str, Any], fds: list[int]) -> Workspace | Answered | Ended | WorkerIsFull:
        """A request about one call, under the memory limit."""
        with contextlib.ExitStack() as stack:
            try:
                self._map(message["map"], fds)
                call = stack.enter_context(self._call(message))
            except (MemoryError, OSError) as error:
                if isinstance(error, OSError) and error.errno != errno.ENOMEM:
                    raise
                return WorkerIsFull()
            if self._state is None:
                # Not before the handler of --guard-pages is in place, which comes with the first call's memory.
                self._state = ProcessState(limits_memory=self._options.get("memory_limit") is not None)
            if not self._memory.begin():
                return WorkerIsFull()
            wanted = self._workspace(call) if message["do"] == "begin" else None
            if os.getpid() != self.process:
                # A child that the question left: it must not make the call as well, and nobody hears its answer.
                return WorkerIsFull()
            answer = wanted or self._run(call, self._state, empty=message["do"] == "run empty")
        _flush_output()
        return answer

    def _map(self, sizes: dict[str, int], fds: list[int]) -> None:
        for slot, fd in zip(sizes, fds, strict=True):
            if self._pages is not None:
                self._pages.take(slot, fd, sizes[slot])
                continue
            self._slabs[slot] = np.empty(0, np.uint8)  # given back before the next one is taken
            self._slabs[slot] = map_slab(fd, sizes[slot])
            os.close(fd)

    def _workspace(self, call: OpCall) -> Workspace | Answered | Ended | None:
        """Why the call is not run yet, or not at all; None where it wants no workspace."""
        assert self._backend is not None
        try:
            size = self._backend.workspace_size(call)
            if not checked_size(self._backend.name, size, self._options.get("memory_limit")):
                return None
            answer: Workspace | Answered | Ended = Workspace(int(size))
        except (Exception, SystemExit) as error:
            answer = answer_of(failed_reply(error, call, "workspace_size"))
        self._memory.end()
        return answer

    def _run(self, call: OpCall, state: ProcessState, *, empty: bool) -> Answered | Ended:
        assert self._backend is not None
        reply = reply_of(self._backend, call, empty=empty)
        effects = (*self._memory.end(), *state.restore())
        # Where there are outputs to judge, the controller does that before anything has time to finish.
        if state.is_busy and reply.status is None:
            effects = (*effects, *state.settle())
        if effects or state.notes or state.is_busy:
            reply = replace(reply, side_effects=effects, notes=(*reply.notes, *state.notes), busy=state.is_busy)
        memory, changed = state.private_bytes, bool(state.notes)
        return answer_of(reply, out_of_memory=self._memory.is_exhausted, memory=memory, changed=changed)


def _become_own_session(output: int) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for fd in (null, output):
        os.close(fd)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="replace", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="replace", buffering=1, closefd=False)
    faulthandler.enable(file=2)


def _flush_output() -> None:
    """What C code printed sits in the C library's buffer until somebody flushes it."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
        c_library().fflush(None)
