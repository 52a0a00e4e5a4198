"""The controller's side of the fork server: workers are forked, waited for, and always killed in the end."""

import os
import select
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from mluops_gtest.engine.isolation.channel import Channel, ClosedError
from mluops_gtest.engine.isolation.fork_server import kill_group

_START = (
    "import sys; sys.path.insert(0, sys.argv[2]); from mluops_gtest.engine.isolation.fork_server import main; main()"
)
_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_DYING_SECONDS = 5.0


class ForkServer:
    """One helper process per run that forks workers; safe to use from several threads."""

    def __init__(self, jobs: int = 1) -> None:
        self._lock = threading.Lock()
        self._channel, theirs = Channel.pair()
        fd = theirs.fileno()
        package = str(Path(__file__).parents[3])
        # Not `-m`: the package need not be installed, and no folder of ours may lead the user's path.
        command = [sys.executable, "-c", _START, str(fd), package]
        self._process = subprocess.Popen(
            command, pass_fds=(fd,), stdin=subprocess.DEVNULL, env=_environment(jobs), start_new_session=True
        )
        theirs.close()

    def fork(self, options: dict[str, Any], pipe: int, output: int) -> int:
        """A new worker that serves `pipe` and prints into `output`; its process id."""
        with self._lock:
            self._channel.send({"fork": options}, (pipe, output))
            message, _ = self._channel.receive()
        return int(message["pid"])

    def end(self, pid: int) -> int:
        """Kill a worker with all it started and reap it: its exit code, negative for a signal.

        A worker that is dead already keeps the code that it died with.
        """
        kill_group(pid)
        with self._lock:
            self._channel.send({"wait": pid})
            message, _ = self._channel.receive()
        return int(message["code"])

    def close(self) -> None:
        """End every worker and the fork server itself."""
        self._channel.close()
        try:
            self._process.wait(_DYING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class WorkerGoneError(Exception):
    """The worker died before it answered; `code` is its exit code, negative for a signal."""

    def __init__(self, code: int) -> None:
        super().__init__(str(code))
        self.code = code


class LateError(Exception):
    """The worker did not answer in time and was killed."""


class Worker:
    """One worker process and the pipe to it."""

    def __init__(self, fork_server: ForkServer, options: dict[str, Any], output: int) -> None:
        self._fork_server = fork_server
        self._channel, theirs = Channel.pair()
        try:
            self._pid = fork_server.fork(options, theirs.fileno(), output)
        except ClosedError as error:
            raise WorkerGoneError(70) from error
        finally:
            theirs.close()
        # Tells of the worker's death even where a child of the backend keeps the pipe open.
        self._death = os.pidfd_open(self._pid) if hasattr(os, "pidfd_open") else -1
        self._alive = True

    def ask(self, message: dict[str, Any], fds: tuple[int, ...] = (), timeout: float | None = None) -> dict[str, Any]:
        """Send a request and wait for its answer, at most `timeout` seconds."""
        try:
            self._channel.send(message, fds)
            self._wait(timeout)
            answer, _ = self._channel.receive()
        except ClosedError as error:
            raise WorkerGoneError(self.end()) from error
        return answer

    def _wait(self, timeout: float | None) -> None:
        watched = [self._channel.fileno()] + ([self._death] if self._death >= 0 else [])
        ready, _, _ = select.select(watched, [], [], timeout)
        if not ready:
            self.end()
            raise LateError
        if self._channel.fileno() not in ready:
            raise ClosedError("the worker died")

    def end(self) -> int:
        """Kill and reap; its exit code."""
        if not self._alive:
            return 0
        self._alive = False
        self._channel.close()
        if self._death >= 0:
            os.close(self._death)
        try:
            return self._fork_server.end(self._pid)
        except ClosedError:
            return 70


def _environment(jobs: int) -> dict[str, str]:
    """Workers share the cores: BLAS threads that wait for each other would slow all of them down."""
    environment = dict(os.environ)
    if jobs > 1:
        threads = str(max(1, (os.cpu_count() or 1) // jobs))
        for name in _BLAS_THREADS:
            environment.setdefault(name, threads)
    return environment
