"""The controller's side of a worker: forked, asked, and always killed in the end.

A backend in a worker process, seen as a Caller: crashes and hangs become replies, then a new worker starts.
"""

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from msgspec.structs import replace

from mluops_gtest.backends.exec_backend import OutputPipe
from mluops_gtest.base.errors import BackendError, ExitCode
from mluops_gtest.core import cause
from mluops_gtest.core.binding import checked_seconds
from mluops_gtest.core.call import OpCall
from mluops_gtest.core.cause import format_reason
from mluops_gtest.core.tensor import WorkingPrecision
from mluops_gtest.running.caller import BackendChoice, DisturbedError, Ending, LostDeviceError, Reply, checked_size
from mluops_gtest.running.workers.fork_server_client import ForkServer, ForkServerError, ForkServerLostError
from mluops_gtest.running.workers.memory import PagedWorkerMemory, SharedArena, WorkerMemory
from mluops_gtest.running.workers.process_tree import stopped_group
from mluops_gtest.running.workers.protocol import (
    BEGIN,
    HEALTH,
    LOAD,
    RUN,
    SETTLE,
    SUPPORT,
    Answered,
    AnswerType,
    Channel,
    ClosedError,
    Conversation,
    Ended,
    LateError,
    NoRoomError,
    NotLoaded,
    ProtocolError,
    StaleAnswerError,
    SupportFailed,
    Workspace,
    reply_from,
)

A = TypeVar("A")


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

    def ask(
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


_ENDINGS = (WorkerGoneError, LateError, ProtocolError)
# Health calls that fail in a row before a device is given up.
_MAX_FAILURES = 3
_START_SECONDS = 120.0
# What a backend may take to close; the run is over, and somebody waits.
_CLOSE_SECONDS = 10.0
_SETTLE_SECONDS = 10.0
_WORN_SECONDS = 0.05


class IsolatedCaller:
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
        self._fork_server = fork_server
        self._options = {
            "choice": choice.to_message(),
            "device": device,
            "memory_limit": memory_limit,
            "guard_pages": guard_pages,
        }
        self._device = device
        self._memory_limit = memory_limit
        self._fresh_workers = fresh_workers
        # The present case left in its worker what no other case should meet.
        self._worn = False
        # Something of the last call may still be at work.
        self._unsettled = False
        # Private bytes of the worker after its first call, and how much it has grown since.
        self._first_bytes = self.growth = 0
        self._keeps_state = choice.keeps_state
        self.has_run = self.was_changed = False
        self._worker: Worker | None = None
        self._memory = PagedWorkerMemory() if guard_pages else WorkerMemory()
        self._output = OutputPipe()
        self.name = choice.spec
        self.version = ""
        self.is_reference = False
        # What the backend has beyond `name` and `run`, and whether it says that repeated calls agree.
        self.offers: tuple[str, ...] = ()
        self.misfits: tuple[str, ...] = ()
        self.deterministic = True
        self.precision = WorkingPrecision()

    @property
    def tensors(self) -> SharedArena:
        return self._memory.tensors

    @property
    def workspace(self) -> SharedArena:
        return self._memory.workspace

    def start(self) -> None:
        """Start a worker and load the backend there; one that does not load is told as it is."""
        for _ in range(_MAX_FAILURES):
            try:
                return self._start_worker()
            except DisturbedError as error:
                problem = str(error)
            except ForkServerError as error:
                raise BackendError(f"Backend {self.name!r} cannot be loaded: {error}.") from error
        raise BackendError(f"Backend {self.name!r}: {problem} three times while loading.")

    def _start_worker(self) -> None:
        self._output.close()
        self._output = OutputPipe()
        try:
            self._worker = Worker(self._fork_server, self._options, self._output)
            answer = self._worker.ask({"do": "load"}, LOAD, timeout=_START_SECONDS)
        except _ENDINGS as error:
            self._ended_by(error)
            raise BackendError(f"Backend {self.name!r}: {self._ending(error)} while loading.") from error
        if isinstance(answer, NotLoaded):
            self._end_worker()
            refused = BackendError(answer.reason)
            refused.exit_code = ExitCode(answer.exit_code)
            raise refused
        self.name, self.version = answer.name, answer.version
        self.is_reference, self.precision = answer.is_reference, WorkingPrecision(answer.precision)
        self.offers, self.misfits, self.deterministic = answer.offers, answer.misfits, answer.deterministic

    @contextlib.contextmanager
    def turn(self, *, alone: bool = False, fresh: bool = False) -> Iterator[None]:
        """All calls of one case, `alone` where no other may run beside it; a worn worker ends with its case."""
        with self._fork_server.turn(alone=alone):
            if fresh:
                self._end_worker()
            try:
                yield
            finally:
                if self._unsettled:
                    self.settle()
                if self._worn or self._fresh_workers:
                    self._end_worker()

    def stopped(self) -> contextlib.AbstractContextManager[None]:
        """The worker and its group do nothing while this lasts."""
        return contextlib.nullcontext() if self._worker is None else self._worker.stopped()

    def settle(self, *, give_up: bool = False) -> tuple[str, ...]:
        """Give what the last call left at work time to end; in words, what goes on: its worker ends with its case."""
        self._unsettled = False
        self._worn = self._worn or give_up
        if self._worker is None:
            return ()
        if self._worn:
            # A child may be at its line; what is about to write has a moment to show it.
            time.sleep(_WORN_SECONDS)
            return ()
        try:
            left = self._worker.ask({"do": "settle"}, SETTLE, timeout=_SETTLE_SECONDS).left
        except _ENDINGS as error:
            self._ended_by(error)
            return ("left something running that ended its process",)
        self._worn = self._worn or bool(left)
        return left

    def mark_memory(self) -> None:
        """Growth counts from here."""
        self._first_bytes, self.growth = self._first_bytes + self.growth, 0

    def supports(self, operator: str) -> bool:
        try:
            answer = self._ready().ask({"do": "supports", "operator": operator}, SUPPORT, timeout=_START_SECONDS)
        except _ENDINGS as error:
            self._ended_by(error)
            raise RuntimeError(f"supports({operator!r}): {self._ending(error)}") from error
        if isinstance(answer, SupportFailed):
            raise RuntimeError(answer.reason)
        return answer.supports

    def _ending(self, error: WorkerGoneError | LateError | ProtocolError) -> str:
        """How a worker ended outside of any case, with the last thing it printed."""
        last = self._output.take().strip()
        death = "no answer, killed" if isinstance(error, LateError) else format_reason((cause_of_death(error),))
        return f"{death}{f' (printed: {last[-400:]})' if last else ''}"

    def begin(self, call: OpCall, timeout: float | None) -> Reply | int:
        """One message for the question and the call: most calls want no workspace."""
        answer = self._answered("begin", call, BEGIN, timeout)
        if not isinstance(answer, Workspace):
            return answer
        try:
            return checked_size(self.name, answer.size, self._memory_limit)
        except (TypeError, ValueError) as error:
            told = cause.BadAnswer(str(error), "workspace_size")
            return Reply(ended=Ending.ERROR, causes=(told,))

    def run(self, call: OpCall, timeout: float | None) -> Reply:
        """Run the call in the worker; a dead or late worker is the case's outcome."""
        return self._replied("run", call, timeout)

    def run_empty(self, call: OpCall, timeout: float | None) -> Reply:
        """The call without its kernel, in the worker."""
        return self._replied("run empty", call, timeout)

    def _replied(self, what: str, call: OpCall, timeout: float | None) -> Reply:
        answer = self._answered(what, call, RUN, timeout)
        assert isinstance(answer, Reply), "these have no word for a workspace"
        return answer

    def _answered(self, what: str, call: OpCall, kind: AnswerType[Any], timeout: float | None) -> Reply | Workspace:
        if self._unsettled:
            self.settle()
        worker = self._ready()
        start = time.perf_counter()
        try:
            answer: Workspace | Answered | Ended = self._ask(worker, what, call, kind, timeout)
        except _EndedError as ended:
            return ended.reply
        self.has_run = self._keeps_state
        if isinstance(answer, Workspace):
            return answer
        self.was_changed = self.was_changed or answer.changed
        self._worn = self._worn or answer.spent or bool(answer.left)
        if isinstance(answer, Answered):
            self._unsettled = answer.busy
            self._first_bytes = self._first_bytes or answer.memory
            self.growth = answer.memory - self._first_bytes
        reply = reply_from(answer)
        problem = _impossible_times(reply, time.perf_counter() - start)
        if problem:
            # Whatever the backend did to the clock or to the worker, no later case shall meet it.
            self._end_worker()
            reply = Reply(ended=Ending.ERROR, causes=(cause.BadAnswer(problem),), notes=reply.notes)
        return _with_output(reply, self._output.take())

    def close(self) -> None:
        """Let the backend close, end the worker, and give all memory and files back."""
        if self._worker is not None and "close" in self.offers:
            with contextlib.suppress(*_ENDINGS, DisturbedError):
                self._worker.ask({"do": "close"}, HEALTH, timeout=_CLOSE_SECONDS)
        self._end_worker()
        self._memory.close()
        self._output.close()

    def _end_worker(self) -> None:
        if self._worker is not None:
            self._worker.end()
            self._forget_worker()

    def _forget_worker(self) -> None:
        """It is dead; what it left behind may still write to its tensors, so no other case gets them."""
        self._worker = None
        self._worn = self._unsettled = self.has_run = self.was_changed = False
        self._first_bytes = self.growth = 0
        self._memory.retire()

    def _ended_by(self, error: WorkerGoneError | LateError | ProtocolError) -> None:
        """Forget the worker that ended; DisturbedError if the present request did not cause it."""
        self._forget_worker()
        if isinstance(error, StaleAnswerError):
            raise DisturbedError("late answer") from error
        if isinstance(error, WorkerGoneError) and error.code is None:
            raise DisturbedError("fork server") from error

    def _ready(self) -> Worker:
        """The worker, a new and healthy one after a crash; a device that fails three times in a row is lost."""
        problem = ""
        for _ in range(_MAX_FAILURES):
            if self._worker is not None:
                return self._worker
            try:
                self._start_worker()
                assert self._worker is not None
                answer = self._worker.ask({"do": "healthy"}, HEALTH, timeout=_START_SECONDS)
                if answer.healthy:
                    self._output.take()
                    return self._worker
                problem = answer.reason
            except BackendError as error:
                problem = str(error)
            except ForkServerError as error:
                raise LostDeviceError(cause.RunLost(str(error))) from error
            except _ENDINGS as error:
                self._ended_by(error)
                problem = self._ending(error)
            self._end_worker()
        raise LostDeviceError(cause.DeviceLost(self.name, self._device, problem))

    def _ask(self, worker: Worker, what: str, call: OpCall, kind: AnswerType[A], timeout: float | None) -> A:
        """Send a call; a worker that has no room for it is replaced by one that has."""
        try:
            return self._asked(worker, what, call, kind, timeout)
        except NoRoomError:
            self._end_worker()
        try:
            return self._asked(self._ready(), what, call, kind, timeout)
        except NoRoomError as error:
            raise _EndedError(Reply(ended=Ending.CRASHED, causes=(cause.WorkerTooSmall(),))) from error

    def _asked(self, worker: Worker, what: str, call: OpCall, kind: AnswerType[A], timeout: float | None) -> A:
        """Send a call with the memory that this worker does not have yet."""
        message, fds = self._memory.request(replace(call, device=self._device))
        try:
            return worker.ask({"do": what, **message}, kind, fds, timeout)
        except _ENDINGS as error:
            fault = self._memory.fault(error.code) if isinstance(error, WorkerGoneError) else None
            self._ended_by(error)
            why: cause.Cause
            if isinstance(error, LateError):
                assert timeout is not None, "nothing is late without a limit"
                ended, why = Ending.TIMED_OUT, cause.TimedOut(timeout)
            else:
                ended, why = Ending.CRASHED, fault or cause_of_death(error)
            raise _EndedError(Reply(ended=ended, causes=(why,), output=self._output.take())) from error


class _EndedError(Exception):
    """The worker ended during a call."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.reason)
        self.reply = reply


def _impossible_times(reply: Reply, elapsed: float) -> str:
    """What is wrong with the times, in words: a call takes no longer than we waited for it."""
    try:
        checked_seconds("the call took", reply.seconds, elapsed)
        if reply.device_seconds is not None:
            checked_seconds("device_seconds() returned", reply.device_seconds)
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


def _with_output(reply: Reply, output: str) -> Reply:
    return replace(reply, output=output) if output else reply
