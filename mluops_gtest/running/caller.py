"""A backend, opened from the words of a run's options and called in this process or (workers/) in one of its own.

What a call comes to is a Reply: a status, or the reason why it has no status.
"""

import contextlib
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from msgspec import field
from msgspec.structs import replace

from mluops_gtest.backends.registry import BackendDependencies, is_in_process, load_backend
from mluops_gtest.base.float_state import OWN, FloatState, require_float_state
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import cut_text
from mluops_gtest.catalog.operators import Operators, load_operators
from mluops_gtest.core import cause
from mluops_gtest.core.buffers import Arena, checked_seconds, short
from mluops_gtest.core.call import (
    REFUSALS_LIMIT,
    Crashed,
    Declined,
    OpCall,
    QueryAnswer,
    Status,
    Violated,
    notes_within_limit,
)
from mluops_gtest.core.case import Backend, BackendAdapter
from mluops_gtest.core.cause import DISTURBANCES, Cause, DeviceLost, Disturbed, RunLost, format_reason
from mluops_gtest.core.tensor import WorkingPrecision

if TYPE_CHECKING:
    from mluops_gtest.backends.exec_backend import CallWriter
    from mluops_gtest.catalog.selection import Catalogue
    from mluops_gtest.running.options import RunOptions
    from mluops_gtest.running.workers.fork_server import ForkServer


def free_bytes(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> int | None:
    """The bytes that may still be taken; None where the system does not tell."""
    found = [free for free in (_of_machine(meminfo), _of_container(cgroup)) if free is not None]
    return min(found, default=None)


def _of_machine(meminfo: Path) -> int | None:
    try:
        lines = dict(line.partition(":")[::2] for line in meminfo.read_text(encoding="ascii").splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, LookupError):
        return None


def _of_container(cgroup: Path) -> int | None:
    """What is left below the limit of a control group; cached files count as free, as the system drops them."""
    try:
        limit = int((cgroup / "memory.max").read_text(encoding="ascii"))
        used = int((cgroup / "memory.current").read_text(encoding="ascii"))
        stat = dict(line.split() for line in (cgroup / "memory.stat").read_text(encoding="ascii").splitlines())
        return max(0, limit - used + int(stat.get("inactive_file", 0)))
    except (OSError, ValueError):
        return None


# Of what a backend raises, this many characters are told.
_MAX_REASON: Final = 16 << 10
_MAX_TRACE: Final = 64 << 10
# A workspace below this is given without a look at the memory; beyond the other nobody has it.
_UNASKED_BYTES: Final = 64 << 20
_MAX_WORKSPACE: Final = 1 << 42
# Far beyond any count, and still short enough to be printed.
_MAX_SCALAR_BITS: Final = 4096
# Bound here: a backend may replace what `time` holds.
_clock = time.perf_counter


class Ending(Enum):
    """How a call ended where it gave no status: what happened, never a verdict."""

    DECLINED = "declined"
    MEMORY = "memory"
    CRASHED = "crashed"
    ERROR = "error"
    # Only who waits can tell; no worker has this word.
    TIMED_OUT = "timed_out"


class Reply(Value):
    """`status` where the backend answered; else `ended` and `causes` say what happened instead.

    With a `workspace` nothing was called yet: the backend asks for so many bytes first.
    """

    status: Status | None = None
    seconds: float = 0.0
    device_seconds: float | None = None
    scalars: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    queries: tuple[QueryAnswer, ...] = ()
    ended: Ending | None = None
    causes: tuple[Cause, ...] = ()
    # What the backend printed, C code included, where it was captured.
    output: str = ""
    # What it left in its process that cannot be undone, so that no other case runs there.
    side_effects: tuple[str, ...] = ()
    # Threads or children of the call may still be at work.
    busy: bool = False
    workspace: int | None = None


def reply_of(backend: BackendAdapter, call: OpCall, *, empty: bool = False) -> Reply:
    """Run the call; whatever the backend raises becomes an ending with its reason."""
    start = _clock()
    try:
        answer = backend.run_empty(call) if empty else backend.run(call)
        seconds = _clock() - start
        return Reply(
            _status(backend, answer),
            seconds,
            _device_seconds(backend),
            _scalars(call),
            notes_within_limit(call.notes),
            notes_within_limit(call.refusals, REFUSALS_LIMIT),
            tuple(one for one in call.queries if isinstance(one, QueryAnswer)),
        )
    except (Exception, SystemExit) as error:
        return failed_reply(error, call)


def failed_reply(error: BaseException, call: OpCall, asked: Literal["", "workspace_size"] = "") -> Reply:
    """What an exception of a backend means for the case; `asked` is what it was asked beside the call."""
    notes = notes_within_limit(call.notes)
    raised = cause.Raised(type(error).__name__, _words(error), asked)
    match error:
        case Declined():
            return Reply(ended=Ending.DECLINED, causes=(cause.Declined(raised.text),), notes=notes)
        case Violated(findings=findings):
            return Reply(ended=Ending.MEMORY, causes=tuple(map(_typed, findings)), notes=notes)
        case Crashed(how=how):
            return Reply(ended=Ending.CRASHED, causes=(_typed(how),), notes=notes)
        case MemoryError() | SystemExit():
            return Reply(ended=Ending.CRASHED, causes=(raised,), notes=notes)
    trace = cut_text("".join(traceback.format_exception(error)).rstrip(), _MAX_TRACE)
    return Reply(ended=Ending.ERROR, causes=(raised,), notes=(*notes, trace))


def _typed(found: Cause | str) -> Cause:
    """What a backend found itself; its own words may be endless."""
    return cause.LegacyReason(cut_text(found, _MAX_REASON)) if isinstance(found, str) else found


def describe_exception(error: BaseException) -> str:
    """An exception in one line: its kind and its words."""
    return f"{type(error).__name__}: {_words(error)}"


def _words(error: BaseException) -> str:
    """The words of an exception, which may be endless, or raise themselves."""
    try:
        return cut_text(str(error), _MAX_REASON)
    except Exception as another:
        return f"its text cannot be shown ({type(another).__name__})"


def _status(backend: BackendAdapter, answer: Any) -> Status:
    if isinstance(answer, Status):
        return answer
    if isinstance(answer, bool) or not isinstance(answer, (int, np.integer)):
        raise TypeError(f"backend {backend.name}: run() returned {short(answer)}; it must return a Status.")
    if int(answer) not in Status.__members__.values():
        raise TypeError(f"backend {backend.name}: run() returned {short(int(answer))}, which is not a Status.")
    return Status(int(answer))


def checked_size(name: str, size: Any, limit: int | None = None) -> int:
    """A workspace size as an int that may be allocated, or an error that says what came instead."""
    message = f"backend {name}: workspace_size() returned"
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
        raise TypeError(f"{message} {short(size)}; it must be an int ≥ 0.")
    if limit is not None and size > limit:
        raise ValueError(f"{message} {short(size)}, but --memory-limit allows {limit} bytes.")
    if size > _UNASKED_BYTES:
        free = free_bytes()
        if size > (_MAX_WORKSPACE if free is None else free):
            room = "no machine has that" if free is None else f"only {free} bytes of memory are free"
            raise ValueError(f"{message} {short(size)}, but {room}.")
    return int(size)


def _scalars(call: OpCall) -> dict[str, int]:
    for name, value in call.scalars.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"call.scalars[{name!r}] is {short(value)}; it must be an int.")
        if int(value).bit_length() > _MAX_SCALAR_BITS:
            raise ValueError(f"call.scalars[{name!r}] has {int(value).bit_length()} bits; no result is that large.")
    return {str(name): int(value) for name, value in call.scalars.items()}


def _device_seconds(backend: BackendAdapter) -> float | None:
    value = backend.device_seconds()
    return None if value is None else checked_seconds("device_seconds() returned", value)


class LostDeviceError(Exception):
    """The backend can no longer be reached on this device; its cases go to the others."""

    def __init__(self, cause: DeviceLost | RunLost) -> None:
        super().__init__(format_reason((cause,)))
        self.cause = cause


class CallInterruptedError(Exception):
    """The call was cut short by something that is not its own doing; it is made again from fresh buffers."""

    def __init__(self, by: Literal["late answer", "fork server"]) -> None:
        super().__init__(DISTURBANCES[by].en)
        self.cause = Disturbed(by)


# What a caller is asked about a call: to run it unless it wants a workspace, to run it, to do all but its kernel.
Request = Literal["begin", "run", "run empty"]


class Caller(ABC):
    """Runs calls of one backend on buffers that lie in its arenas; what it says here holds for this very process."""

    name: str
    # What the backend says of its version; empty where it says nothing.
    version = ""
    # The backend is the oracle itself: a baseline recomputed here would be compared with its own.
    is_reference = False
    # What the backend says that it computes in.
    precision: WorkingPrecision
    # Where inputs and outputs lie, and where the workspace does.
    tensors: Arena
    workspace: Arena
    # Bytes by which the private memory of the worker grew since its first call, or since it was marked.
    growth = 0
    # The worker ran calls of which something may be left for the next; one of them changed state that was named.
    has_run = was_changed = False

    @abstractmethod
    def request(self, what: Request, call: OpCall, timeout: float | None) -> Reply:
        """What the call came to; never raises for what the backend does."""

    @abstractmethod
    def supports(self, operator: str) -> bool:
        """The backend offers that operator."""

    def exclusive_access(self, *, alone: bool = False, fresh: bool = False) -> AbstractContextManager[None]:  # noqa: ARG002
        """All calls of one case; `alone`: while it lasts no other case runs; `fresh`: they begin in a new worker."""
        return contextlib.nullcontext()

    def stopped(self) -> AbstractContextManager[None]:
        """What the calls started does nothing while this lasts, as far as it can be stopped."""
        return contextlib.nullcontext()

    def settle(self, *, give_up: bool = False) -> tuple[str, ...]:  # noqa: ARG002
        """Give what the last call left at work time to end; in words, what goes on; `give_up`: no case meets it."""
        return ()

    def mark_memory(self) -> None:  # noqa: B027  (only workers grow)
        """Let growth count from here."""

    def with_threads(self, threads: int) -> "Caller":
        """The same backend with libraries that are told to use so many threads; it ends with this caller."""
        raise TypeError(f"{self.name} runs in this process: only workers are told to use {threads} threads")

    def close(self) -> None:  # noqa: B027  (not every backend holds something)
        """Let the backend give back what it holds."""


class InlineCaller(Caller):
    """The backend in this very process; a time limit cannot be kept here."""

    def __init__(self, backend: Backend, floats: FloatState | None = None) -> None:
        """`floats` is what loading left: calls compute like that, all else as we do. None: all as the caller does."""
        self._floats = floats
        self._backend = offered = BackendAdapter(backend)
        self.name, self.version, self.is_reference = offered.name, offered.version, offered.is_reference
        self.precision = WorkingPrecision(offered.precision)
        self.tensors, self.workspace = Arena(), Arena()

    def supports(self, operator: str) -> bool:
        """Every backend that does not say otherwise."""
        with self._foreign_floats():
            return self._backend.supports(operator)

    def request(self, what: Request, call: OpCall, timeout: float | None) -> Reply:  # noqa: ARG002
        if what == "begin":
            try:
                with self._foreign_floats():
                    size = checked_size(self.name, self._backend.workspace_size(call))
            except (Exception, SystemExit) as error:
                return failed_reply(error, call, "workspace_size")
            if size:
                return Reply(workspace=size)
        with self._foreign_floats() as floats:
            reply = reply_of(self._backend, call, empty=what == "run empty")
            changes = floats.changes()
        return replace(reply, notes=(*reply.notes, *changes)) if changes else reply

    @contextlib.contextmanager
    def _foreign_floats(self) -> Iterator[FloatState]:
        """Let the backend compute in its own float state; gives the state that it finds."""
        before = FloatState() if self._floats is None else OWN
        floats = self._floats or before
        floats.enter()
        try:
            yield floats
        finally:
            before.enter()

    def close(self) -> None:
        """Let the backend give back what it holds; the run is over, so nobody asks how that went."""
        with contextlib.suppress(Exception, SystemExit), self._foreign_floats():
            self._backend.close()


class BackendChoice(Value):
    """What the user asked for; plain values, so that it travels to a worker."""

    spec: str
    roots: tuple[str, ...]
    runtime: str | None = None
    serve: bool = False

    @property
    def keeps_state(self) -> bool:
        """What a call leaves may meet the next one: a program without --serve is started for each."""
        return self.serve or self.spec.partition(":")[0] != "exec"

    def load(self, operators: Operators | None = None) -> Backend:
        """The backend; operators are loaded only for one that needs them."""

        @cache
        def resolve() -> Operators:
            return load_operators(*map(Path, self.roots)) if operators is None else operators

        def call_writer() -> "CallWriter":
            from mluops_gtest.casefiles.writer import CallFolderWriter

            return CallFolderWriter(resolve())

        return load_backend(self.spec, BackendDependencies(resolve, call_writer, self.runtime, self.serve))


@contextlib.contextmanager
def open_callers(
    request: "RunOptions", catalogue: "Catalogue", fork_server: "ForkServer | None" = None
) -> Iterator[list[Caller]]:
    """The loaded backend, inline or in one worker process per slot; one that does not load is an error at once.

    `fork_server` is one that was started ahead; it is closed in the end.
    """
    choice = BackendChoice(request.backend, catalogue.root_paths, request.runtime, request.serve)
    if not request.isolated:
        if not is_in_process(request.backend):
            require_float_state(request.backend)
        try:
            inline = InlineCaller(choice.load(catalogue.operators), FloatState())
        finally:
            OWN.enter()
        with contextlib.closing(inline):
            yield [inline]
        return
    from mluops_gtest.running.options import thread_counts
    from mluops_gtest.running.workers.fork_server import ForkServer
    from mluops_gtest.running.workers.pool import IsolatedCaller, allow_files_of_workers

    with contextlib.ExitStack() as stack:
        server = stack.enter_context(contextlib.closing(fork_server or ForkServer(len(request.slots))))
        # After the fork server has started, so that backends keep the limit that the user gave them.
        allow_files_of_workers(len(request.slots) * (1 if request.stress is None else 1 + len(thread_counts())))
        limits = {name: getattr(request, name) for name in ("memory_limit", "guard_pages", "fresh_workers")}
        callers = [IsolatedCaller(server, choice, device=device, **limits) for device in request.slots]
        for caller in callers:
            stack.enter_context(contextlib.closing(caller))
        callers[0].start()
        yield [*callers]
