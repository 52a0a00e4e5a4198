"""A backend in a worker process, seen as a Caller: crashes and hangs become replies, then a new worker starts."""

import os
import signal
import tempfile
from dataclasses import replace
from typing import Any

from mluops_gtest.engine.caller import LostDeviceError
from mluops_gtest.engine.isolation.forking import ForkServer, ForkServerError
from mluops_gtest.engine.isolation.messages import call_message
from mluops_gtest.engine.isolation.shared import SharedArena, SharedSlab
from mluops_gtest.engine.isolation.supervisor import LateError, Worker, WorkerGoneError
from mluops_gtest.engine.loading import BackendChoice
from mluops_gtest.engine.reply import NoAnswerError, Reply
from mluops_gtest.errors import BackendError, ExitCode
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.result import Outcome

# Health calls that fail in a row before a device is given up.
_MOST_FAILURES = 3
_START_SECONDS = 120.0
_OUTPUT_BYTES = 16 << 10


class IsolatedCaller:
    """One worker at a time; started when first needed, restarted after a crash."""

    def __init__(
        self,
        fork_server: ForkServer,
        choice: BackendChoice,
        *,
        device: int | None = None,
        memory_limit: int | None = None,
    ) -> None:
        self._fork_server = fork_server
        self._options = {"choice": choice.to_message(), "device": device, "memory_limit": memory_limit}
        self._device = device
        self._worker: Worker | None = None
        self._mapped: dict[str, SharedSlab | None] = {}
        self._output = _OutputFile()
        self._has_workspace = False
        self.name = choice.spec
        self.is_reference = False
        # What the backend has beyond `name` and `run`, and whether it says that repeated calls agree.
        self.offers: tuple[str, ...] = ()
        self.deterministic = True
        self.tensors = SharedArena()
        self.workspace = SharedArena()

    def start(self) -> None:
        """Start a worker and load the backend there; one that does not load is told as it is."""
        try:
            self._worker = Worker(self._fork_server, self._options, self._output.fd)
            self._mapped = {}
            answer = self._worker.ask({"do": "load"}, timeout=_START_SECONDS)
        except ForkServerError as error:
            raise BackendError(f"Backend {self.name!r} cannot be loaded: {error}.") from error
        except (WorkerGoneError, LateError) as error:
            self._forget_worker()
            raise BackendError(f"Backend {self.name!r}: {self._ending(error)} while loading.") from error
        if "error" in answer:
            self._end_worker()
            refused = BackendError(answer["error"])
            refused.exit_code = ExitCode(answer["exit_code"])
            raise refused
        self.name, self._has_workspace = answer["name"], answer["has_workspace"]
        self.is_reference = answer["is_reference"]
        self.offers, self.deterministic = tuple(answer["offers"]), answer["deterministic"]

    def supports(self, operator: str) -> bool:
        """What the backend says of that operator."""
        try:
            answer = self._ready().ask({"do": "supports", "operator": operator}, timeout=_START_SECONDS)
        except (WorkerGoneError, LateError) as error:
            self._forget_worker()
            raise RuntimeError(f"supports({operator!r}): {self._ending(error)}") from error
        if "raised" in answer:
            raise RuntimeError(answer["raised"])
        return bool(answer["supports"])

    def _ending(self, error: WorkerGoneError | LateError) -> str:
        """How a worker ended outside of any case, with the last thing it printed."""
        how = _death(error.code) if isinstance(error, WorkerGoneError) else "no answer, killed"
        last = self._output.take().strip()
        return f"{how}{f' (printed: {last[-400:]})' if last else ''}"

    def workspace_size(self, call: OpCall) -> int:
        """What the backend says in its worker; a crash there is the case's."""
        worker = self._ready()
        if not self._has_workspace:
            return 0
        try:
            answer = self._ask(worker, "workspace", call, _START_SECONDS)
        except _EndedError as ended:
            raise NoAnswerError(ended.reply) from ended
        if "reply" in answer:
            raise NoAnswerError(Reply.from_message(answer["reply"]))
        return int(answer["size"])

    def run(self, call: OpCall, timeout: float | None) -> Reply:
        """Run the call in the worker; a dead or late worker is the case's outcome."""
        try:
            reply = Reply.from_message(self._ask(self._ready(), "run", call, timeout))
        except _EndedError as ended:
            return ended.reply
        return _with_output(reply, self._output.take())

    def close(self) -> None:
        """End the worker and give all memory and files back."""
        self._end_worker()
        self.tensors.close()
        self.workspace.close()
        self._output.close()

    def _end_worker(self) -> None:
        if self._worker is not None:
            self._worker.end()
            self._forget_worker()

    def _forget_worker(self) -> None:
        """It is dead; what it left behind may still write to its tensors, so no other case gets them."""
        self._worker = None
        self.tensors.retire()
        self.workspace.retire()

    def _ready(self) -> Worker:
        """The worker, a new and healthy one after a crash; a device that fails three times in a row is lost."""
        problem = ""
        for _ in range(_MOST_FAILURES):
            if self._worker is not None:
                return self._worker
            try:
                self.start()
                assert self._worker is not None
                answer = self._worker.ask({"do": "healthy"}, timeout=_START_SECONDS)
                if answer["healthy"]:
                    self._output.take()
                    return self._worker
                problem = answer.get("reason", "healthy() says no")
            except BackendError as error:
                problem = str(error)
            except (WorkerGoneError, LateError) as error:
                self._forget_worker()
                problem = self._ending(error)
            self._end_worker()
        device = "" if self._device is None else f" on device {self._device}"
        raise LostDeviceError(f"backend {self.name}{device} failed its health check three times in a row: {problem}")

    def _ask(self, worker: Worker, what: str, call: OpCall, timeout: float | None) -> dict[str, Any]:
        """Send a call with the slabs that this worker has not mapped yet."""
        slabs = {"tensors": self.tensors.shared, "workspace": self.workspace.shared}
        fresh = {slot: slab for slot, slab in slabs.items() if slab is not None and self._mapped.get(slot) is not slab}
        message = {
            "do": what,
            "call": {**call_message(call, self.tensors.offset_of, self.workspace.offset_of), "device": self._device},
            "map": {slot: slab.size for slot, slab in fresh.items()},
        }
        try:
            answer = worker.ask(message, tuple(slab.fd for slab in fresh.values()), timeout)
        except LateError as error:
            self._forget_worker()
            reason = f"no answer within {timeout:g} s; the worker and all it started were killed"
            raise _EndedError(Reply(outcome=Outcome.TIMED_OUT, reason=reason, output=self._output.take())) from error
        except WorkerGoneError as error:
            self._forget_worker()
            output = self._output.take()
            raise _EndedError(Reply(outcome=Outcome.CRASHED, reason=_death(error.code), output=output)) from error
        self._mapped.update(fresh)
        return answer


class _EndedError(Exception):
    """The worker ended during a call."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.reason)
        self.reply = reply


class _OutputFile:
    """Where a worker prints: a file without a name, read and emptied after every case."""

    def __init__(self) -> None:
        with tempfile.TemporaryFile() as file:
            self.fd = os.dup(file.fileno())

    def close(self) -> None:
        """Give the file back."""
        os.close(self.fd)

    def take(self) -> str:
        """What was printed since the last time, at most its last 16 KiB."""
        size = os.fstat(self.fd).st_size
        if not size:
            return ""
        data = os.pread(self.fd, _OUTPUT_BYTES, max(0, size - _OUTPUT_BYTES))
        os.ftruncate(self.fd, 0)
        text = data.decode("utf-8", "replace")
        return text if size <= _OUTPUT_BYTES else f"[{size - _OUTPUT_BYTES} bytes before this]\n{text}"


def _death(code: int | None) -> str:
    if code is None:
        return "killed with the fork server"
    if code >= 0:
        return f"the process exited with code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def _with_output(reply: Reply, output: str) -> Reply:
    return replace(reply, output=output) if output else reply
