"""The controller's side of workers: a backend in a worker process, seen as a Caller.

A worker is forked when first needed and always killed in the end; crashes and hangs become replies, then a new one
starts.
"""

import contextlib
import json
import os
import re
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec.structs import asdict, replace

from mluops_gtest.base.errors import BackendError, ExitCode, UsageError
from mluops_gtest.base.files import OutputPipe
from mluops_gtest.core import cause
from mluops_gtest.core.buffers import checked_seconds
from mluops_gtest.core.call import OpCall
from mluops_gtest.core.cause import format_reason
from mluops_gtest.core.tensor import WorkingPrecision
from mluops_gtest.running.caller import (
    BackendChoice,
    Caller,
    CallInterruptedError,
    Ending,
    LostDeviceError,
    Reply,
    Request,
    checked_size,
)
from mluops_gtest.running.workers.fork_server import ForkServer, ForkServerError, ForkServerLostError
from mluops_gtest.running.workers.memory import PagedWorkerMemory, WorkerMemory
from mluops_gtest.running.workers.process_tree import stopped_group
from mluops_gtest.running.workers.protocol import (
    BEGIN,
    LOAD,
    RUN,
    SETTLE,
    STATEMENT,
    Answered,
    AnswerType,
    Channel,
    ClosedError,
    CodeRange,
    Conversation,
    Ended,
    LateError,
    NotLoaded,
    ProtocolError,
    StaleAnswerError,
    WorkerIsFull,
    Workspace,
    reply_from,
)

A = TypeVar("A")
# Files of the run itself, and what libraries hold open.
_OWN_FILES: Final = 64
# The line, the worker's death, its output, two slabs of tensors, and as many while one worker follows another.
_FILES_PER_WORKER: Final = 10
# Health calls that fail in a row before a device is given up.
_MAX_FAILURES: Final = 3
_START_SECONDS: Final = 120.0
# What a backend may take to close; the run is over, and somebody waits.
_CLOSE_SECONDS: Final = 10.0
_SETTLE_SECONDS: Final = 10.0
_REPLACED_SECONDS: Final = 0.05


_FATAL: Final = "Fatal Python error: "
_THREAD: Final = re.compile(r"(Current thread|Thread) 0x[0-9a-f]+.* \(most recent call first\):\n")
_OWN_FRAME: Final = re.compile(
    rf'  File "({re.escape(str(Path(__file__).parents[2]))}/[^"]*|<string>)", line \d+ in .*\n?'
)


def hide_own_frames(output: str) -> str:
    """What a process printed, of a fault handler's trace the backend's frames alone; no trace where it has none."""
    before, fatal, trace = output.rpartition(_FATAL)
    title, *blocks = trace.split("\n\n")
    if not any(map(_THREAD.match, blocks)):
        return output
    blocks = [_OWN_FRAME.sub("", block + "\n") for block in blocks if not block.startswith("Extension modules:")]
    threads = [block for block in blocks if _THREAD.match(block) and not _THREAD.fullmatch(block)]
    shown = [block.rstrip("\n") for block in blocks if block in threads or not _THREAD.match(block)]
    return before + "\n\n".join([*([fatal + title] if threads else []), *shown]) + "\n" * bool(shown)


def allow_files_of_workers(workers: int) -> None:
    """Raise the soft limit of open files to what so many workers need; a hard limit below that is a UsageError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _OWN_FILES + workers * _FILES_PER_WORKER
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        most = max(1, (hard - _OWN_FILES) // _FILES_PER_WORKER)
        raise UsageError(
            f"{workers} workers need up to {needed} open files, and this system allows {hard}. "
            f"Take at most {most} workers (-j {most}), or raise the limit (ulimit -Hn)."
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


class WorkerGoneError(Exception):
    """The worker died before it answered; `code` is its exit code, negative for a signal.

    None: it died with the fork server, through no fault of its own.
    """

    def __init__(self, code: int | None) -> None:
        super().__init__(str(code))
        self.code = code


class Worker:
    """One worker process and the line to it."""

    def __init__(self, fork_server: ForkServer, options: dict[str, Any], output: OutputPipe) -> None:
        self._fork_server = fork_server
        self._channel, theirs = Channel.pair()
        try:
            self._pid = fork_server.fork(options, theirs.fileno(), output.writer)
        except BaseException:
            self._channel.close()
            raise
        finally:
            theirs.close()
            output.close_writer()
        # Tells of the worker's death even where a child of the backend keeps the pipe open.
        self._death = os.pidfd_open(self._pid) if hasattr(os, "pidfd_open") else -1
        self._conversation = Conversation(self._channel, output, self._death)
        self._alive = True

    def request(
        self, message: dict[str, Any], answer: AnswerType[A], fds: tuple[int, ...] = (), timeout: float | None = None
    ) -> A:
        """Send a request and wait at most `timeout` seconds for all of its answer; any failure ends the worker."""
        try:
            return answer.read(self._conversation.ask(json.dumps(message).encode(), fds, timeout))
        except ClosedError as error:
            raise WorkerGoneError(self.end()) from error
        except (LateError, ProtocolError):
            self.end()
            raise

    def stopped(self) -> AbstractContextManager[None]:
        """It and its group do nothing while this lasts."""
        return stopped_group(self._pid)

    def end(self) -> int | None:
        """Kill and reap; its exit code, None where it died with the fork server."""
        if not self._alive:
            return 0
        self._alive = False
        self._channel.close()
        if self._death >= 0:
            os.close(self._death)
        try:
            return self._fork_server.end(self._pid)
        except ForkServerLostError:
            return None


def cause_of_death(error: WorkerGoneError | ProtocolError) -> cause.Cause:
    """How a worker ended."""
    if isinstance(error, ProtocolError):
        return error.cause
    assert error.code is not None, "with the fork server gone the call is made again"
    if error.code >= 0:
        return cause.Exited(error.code)
    try:
        return cause.Killed(signal.Signals(-error.code).name, -error.code)
    except ValueError:
        return cause.Killed("", -error.code)


_ENDINGS: Final = (WorkerGoneError, LateError, ProtocolError)


class IsolatedCaller(Caller):
    """One worker at a time; started when first needed, restarted after a crash."""

    def __init__(
        self,
        fork_server: ForkServer,
        choice: BackendChoice,
        *,
        device: int | None = None,
        memory_limit: int | None = None,
        guard_pages: bool = False,
        fresh_workers: bool = False,
    ) -> None:
        self._fork_server, self._choice, self._keeps_state = fork_server, choice, choice.keeps_state
        self._limits: dict[str, Any] = {"device": device, "memory_limit": memory_limit, "guard_pages": guard_pages}
        self._device, self._memory_limit, self._fresh_workers = device, memory_limit, fresh_workers
        self._by_threads: dict[int, IsolatedCaller] = {}
        self._worker: Worker | None = None
        # The present case left in its worker what no other case should meet.
        self._needs_replacement = False
        # Something of the last call may still be at work.
        self._unsettled = False
        # Private bytes of the worker after its first call.
        self._first_bytes = 0
        self._code: tuple[CodeRange, ...] = ()
        self._memory = PagedWorkerMemory() if guard_pages else WorkerMemory()
        self.tensors, self.workspace = self._memory.tensors, self._memory.workspace
        self._output = OutputPipe()
        self.name = choice.spec
        self.precision = WorkingPrecision()
        # What the backend has beyond `name` and `run`, and whether it says that repeated calls agree.
        self.offers: tuple[str, ...] = ()
        self.misfits: tuple[str, ...] = ()
        self.deterministic = True

    def with_threads(self, threads: int) -> "IsolatedCaller":
        """Another worker, because libraries read how many threads to use when they are loaded."""
        if threads not in self._by_threads:
            server = self._fork_server.with_threads(threads)
            caller = IsolatedCaller(server, self._choice, **self._limits, fresh_workers=self._fresh_workers)
            self._by_threads[threads] = caller
        return self._by_threads[threads]

    def start(self) -> None:
        """Start a worker and load the backend there; one that does not load is told as it is."""
        for _ in range(_MAX_FAILURES):
            try:
                return self._start_worker()
            except CallInterruptedError as error:
                problem = str(error)
            except ForkServerError as error:
                raise BackendError(f"Backend {self.name!r} cannot be loaded: {error}.") from error
        raise BackendError(f"Backend {self.name!r}: {problem} three times while loading.")

    def _start_worker(self) -> None:
        self._output.close()
        self._output = OutputPipe()
        try:
            options = {"choice": asdict(self._choice), **self._limits}
            self._worker = Worker(self._fork_server, options, self._output)
            answer = self._worker.request({"do": "load"}, LOAD, timeout=_START_SECONDS)
        except _ENDINGS as error:
            self._forget_worker(error)
            raise BackendError(f"Backend {self.name!r}: {self._describe_ending(error)} while loading.") from error
        if isinstance(answer, NotLoaded):
            self._end_worker()
            refused = BackendError(answer.reason)
            refused.exit_code = ExitCode(answer.exit_code)
            raise refused
        self.name, self.version = answer.name, answer.version
        self.is_reference, self.precision = answer.is_reference, WorkingPrecision(answer.precision)
        self.offers, self.misfits, self.deterministic = answer.offers, answer.misfits, answer.deterministic
        self._code = answer.code

    @contextlib.contextmanager
    def exclusive_access(self, *, alone: bool = False, fresh: bool = False) -> Iterator[None]:
        """All calls of one case; a worker that must be replaced ends with its case."""
        with self._fork_server.access.enter(alone=alone):
            if fresh:
                self._end_worker()
            try:
                yield
            finally:
                if self._unsettled:
                    self.settle()
                if self._needs_replacement or self._fresh_workers:
                    self._end_worker()

    def stopped(self) -> AbstractContextManager[None]:
        """The worker and its group do nothing while this lasts."""
        return contextlib.nullcontext() if self._worker is None else self._worker.stopped()

    def settle(self, *, give_up: bool = False) -> tuple[str, ...]:
        """Give what the last call left at work time to end; in words, what goes on: its worker ends with its case."""
        self._unsettled = False
        self._needs_replacement = self._needs_replacement or give_up
        if self._worker is None:
            return ()
        if self._needs_replacement:
            # A child may be at its line; what is about to write has a moment to show it.
            time.sleep(_REPLACED_SECONDS)
            return ()
        try:
            effects = self._worker.request({"do": "settle"}, SETTLE, timeout=_SETTLE_SECONDS).side_effects
        except _ENDINGS as error:
            self._forget_worker(error)
            return ("left something running that ended its process",)
        self._needs_replacement = bool(effects)
        return effects

    def mark_memory(self) -> None:
        """Growth counts from here."""
        self._first_bytes, self.growth = self._first_bytes + self.growth, 0

    def supports(self, operator: str) -> bool:
        message = {"do": "supports", "operator": operator}
        try:
            answer = self._healthy_worker().request(message, STATEMENT, timeout=_START_SECONDS)
        except _ENDINGS as error:
            self._forget_worker(error)
            raise RuntimeError(f"supports({operator!r}): {self._describe_ending(error)}") from error
        if answer.problem:
            raise RuntimeError(f"supports() raised {answer.problem}")
        return answer.holds

    def request(self, what: Request, call: OpCall, timeout: float | None) -> Reply:
        """What the call came to in the worker; a dead or late worker is the outcome, one without room is replaced."""
        if self._unsettled:
            self.settle()
        for _ in range(2):
            worker = self._healthy_worker()
            message, fds = self._memory.request(call, self._device)
            start = time.perf_counter()
            try:
                answer = worker.request({"do": what, **message}, BEGIN if what == "begin" else RUN, fds, timeout)
            except _ENDINGS as error:
                return self._reply_to_ending(error, timeout)
            if not isinstance(answer, WorkerIsFull):
                return self._reply(answer, time.perf_counter() - start)
            self._end_worker()
        return Reply(ended=Ending.CRASHED, causes=(cause.WorkerTooSmall(),))

    def _reply(self, answer: Workspace | Answered | Ended, elapsed: float) -> Reply:
        """The answer as a reply, and what it says of the worker kept in mind."""
        self.has_run = self._keeps_state
        try:
            if isinstance(answer, Workspace):
                return Reply(workspace=checked_size(self.name, answer.size, self._memory_limit))
        except (TypeError, ValueError) as error:
            return Reply(ended=Ending.ERROR, causes=(cause.BadAnswer(str(error), "workspace_size"),))
        self.was_changed = self.was_changed or answer.changed
        self._needs_replacement = self._needs_replacement or answer.out_of_memory or bool(answer.side_effects)
        if isinstance(answer, Answered):
            self._unsettled = answer.busy
            self._first_bytes = self._first_bytes or answer.memory
            self.growth = answer.memory - self._first_bytes
        reply = reply_from(answer)
        try:
            # A call takes no longer than we waited for it.
            checked_seconds("the call took", reply.seconds, elapsed)
            if reply.device_seconds is not None:
                checked_seconds("device_seconds() returned", reply.device_seconds)
        except (TypeError, ValueError) as error:
            # Whatever the backend did to the clock or to the worker, no later case shall meet it.
            self._end_worker()
            reply = Reply(ended=Ending.ERROR, causes=(cause.BadAnswer(str(error)),), notes=reply.notes)
        output = self._output.take()
        return replace(reply, output=output) if output else reply

    def _reply_to_ending(self, error: WorkerGoneError | LateError | ProtocolError, timeout: float | None) -> Reply:
        """What a worker that ended during a call makes of it."""
        fault = self._memory.fault(error.code, self._code) if isinstance(error, WorkerGoneError) else None
        self._forget_worker(error)
        output = hide_own_frames(self._output.take())
        if isinstance(error, LateError):
            assert timeout is not None, "nothing is late without a limit"
            return Reply(ended=Ending.TIMED_OUT, causes=(cause.TimedOut(timeout),), output=output)
        return Reply(ended=Ending.CRASHED, causes=(fault or cause_of_death(error),), output=output)

    def close(self) -> None:
        """Let the backend close, end the worker, and give all memory and files back."""
        for caller in self._by_threads.values():
            caller.close()
        if self._worker is not None and "close" in self.offers:
            with contextlib.suppress(*_ENDINGS, CallInterruptedError):
                self._worker.request({"do": "close"}, STATEMENT, timeout=_CLOSE_SECONDS)
        self._end_worker()
        self._memory.close()
        self._output.close()

    def _end_worker(self) -> None:
        if self._worker is not None:
            self._worker.end()
            self._forget_worker()

    def _forget_worker(self, error: WorkerGoneError | LateError | ProtocolError | None = None) -> None:
        """Forget a worker that is dead; CallInterruptedError if the present request did not cause that.

        What it left behind may still write to its tensors, so no other case gets them.
        """
        self._worker = None
        self._needs_replacement = self._unsettled = self.has_run = self.was_changed = False
        self._first_bytes = self.growth = 0
        self._memory.retire()
        if isinstance(error, StaleAnswerError):
            raise CallInterruptedError("late answer") from error
        if isinstance(error, WorkerGoneError) and error.code is None:
            raise CallInterruptedError("fork server") from error

    def _healthy_worker(self) -> Worker:
        """The worker, a new and healthy one after a crash; a device that fails three times in a row is lost."""
        problem = ""
        for _ in range(_MAX_FAILURES):
            if self._worker is not None:
                return self._worker
            try:
                self._start_worker()
                assert self._worker is not None
                answer = self._worker.request({"do": "healthy"}, STATEMENT, timeout=_START_SECONDS)
                if answer.holds:
                    self._output.take()
                    return self._worker
                problem = answer.problem or "healthy() says no"
            except BackendError as error:
                problem = str(error)
            except ForkServerError as error:
                raise LostDeviceError(cause.RunLost(str(error))) from error
            except _ENDINGS as error:
                self._forget_worker(error)
                problem = self._describe_ending(error)
            self._end_worker()
        raise LostDeviceError(cause.DeviceLost(self.name, self._device, problem))

    def _describe_ending(self, error: WorkerGoneError | LateError | ProtocolError) -> str:
        """How a worker ended outside of any case, with the last thing it printed."""
        last = self._output.take().strip()
        death = "no answer, killed" if isinstance(error, LateError) else format_reason((cause_of_death(error),))
        return f"{death}{f' (printed: {last[-400:]})' if last else ''}"
