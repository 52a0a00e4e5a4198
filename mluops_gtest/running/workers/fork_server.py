"""The process that forks workers, and the controller's side of it; nothing outlives the run.

The fork server has warm imports, so that a new worker costs milliseconds. It is started with its end of a pipe and the
run's temporary folder and stays single-threaded, so forking is safe. When the controller dies, every worker and all
that they started are killed and the folder removed. A fork server that is killed or stopped is replaced.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from mluops_gtest.base.errors import ExitCode
from mluops_gtest.base.files import remove_tree
from mluops_gtest.running.workers.process_tree import (
    Mark,
    adopt_orphans,
    adopting_orphans,
    end_children,
    is_stopped,
    kill_group,
    wake_when_parent_dies,
)
from mluops_gtest.running.workers.protocol import Channel, ClosedError, ExclusiveAccess

_START = (
    "import sys; sys.path.insert(0, sys.argv[2]); from mluops_gtest.running.workers.fork_server import main; main()"
)
_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
# What libraries read when they are loaded to know how many threads to start.
_ALL_THREADS = (*_BLAS_THREADS, "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
# The first answer waits for the imports.
_FIRST_ANSWER_SECONDS = 120.0
_ANSWER_SECONDS = 30.0
# How often a fork server that does not answer is looked at: a stopped one is not waited for.
_LOOK_SECONDS = 1.0
_DYING_SECONDS = 30.0
_MAX_STARTS = 3
_PAUSE_SECONDS = 0.2


class ForkServerError(Exception):
    """No worker can be started any more."""


class _RefusedError(Exception):
    """The system has no process to give."""


class ForkServerLostError(Exception):
    """The fork server died or was stopped, and its workers with it."""


class ForkServer:
    """One helper process at a time that forks workers; safe to use from several threads."""

    def __init__(self, jobs: int = 1, threads: int | None = None) -> None:
        """`threads`: what the libraries of every worker are told; None: what the user's environment says."""
        self._lock = threading.Lock()
        self._mark = Mark()
        self._folder = tempfile.mkdtemp(prefix="mluops-test-")
        self._environment = {**_environment(jobs, threads), **self._mark.environment, "TMPDIR": self._folder}
        # While it is entered one case runs on workers from here.
        self.access = ExclusiveAccess()
        self._jobs = jobs
        self._by_threads: dict[int, ForkServer] = {}
        self._closing = contextlib.ExitStack()
        self._closing.enter_context(adopting_orphans())
        self._closed = False
        self._workers: dict[int, _Server] = {}
        self._server: _Server | None = None
        # Started before it is needed: it imports numpy while the controller imports what judges cases.
        with contextlib.suppress(OSError):  # told by the first fork
            self._server = _Server(self._environment, self._folder)

    def fork(self, options: dict[str, Any], pipe: int, output: int) -> int:
        """A new worker that serves `pipe` and prints into `output`; its process id."""
        with self._lock:
            problem, failures = "", 0
            while failures < _MAX_STARTS:
                try:
                    return self._fork(options, pipe, output)
                except _RefusedError as error:
                    problem = str(error)
                    failures += 1
                    time.sleep(failures * _PAUSE_SECONDS)
                except (ForkServerLostError, OSError) as error:
                    problem = str(error)
                    # One that served before has done its part.
                    failures += self._server is None or not self._server.answered
                    self._lose_server()
            raise ForkServerError(f"no worker could be started, three times in a row: {problem}")

    def end(self, pid: int) -> int:
        """Kill a worker with all it started and reap it: its exit code, negative for a signal.

        A worker that is dead already keeps the code that it died with; ForkServerLostError where that is not known.
        """
        with self._lock:
            server = self._workers.pop(pid, None)
            if server is None or server is not self._server:
                raise ForkServerLostError("the fork server that started this worker is gone")
            kill_group(pid)
            try:
                return int(server.request({"end": pid})["code"])
            except ForkServerLostError:
                self._lose_server()
                raise

    def with_threads(self, threads: int) -> "ForkServer":
        """The one whose workers' libraries are told to use so many threads; it ends with this one."""
        with self._lock:
            if threads not in self._by_threads:
                self._by_threads[threads] = ForkServer(self._jobs, threads)
            return self._by_threads[threads]

    def close(self) -> None:
        """End every worker, all that they started, and the fork server itself."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for server in self._by_threads.values():
                server.close()
            if self._server is not None:
                self._server.leave()
            self._lose_server()
            remove_tree(self._folder)
            self._closing.close()

    def _fork(self, options: dict[str, Any], pipe: int, output: int) -> int:
        if self._closed:
            raise ForkServerError("the run is over")
        if self._server is None:
            os.makedirs(self._folder, exist_ok=True)
            self._server = _Server(self._environment, self._folder)
        answer = self._server.request({"fork": options}, (pipe, output))
        if "refused" in answer:
            raise _RefusedError(f"the system refuses a process: {answer['refused']}")
        pid = int(answer["pid"])
        self._workers[pid] = self._server
        return pid

    def _lose_server(self) -> None:
        """Make sure that the fork server and all that it started are gone."""
        if self._server is not None:
            self._server.kill()
            for pid, server in self._workers.items():
                if server is self._server:
                    kill_group(pid)
            self._server = None
        end_children(self._mark.belongs_to_run)


class _Server:
    """One process of the fork server; after one unanswered request it is not asked again."""

    def __init__(self, environment: dict[str, str], folder: str) -> None:
        # It has served a request, and one request waits for its answer: after an interrupt it would get the wrong one.
        self.answered = False
        self._is_waiting = False
        self._channel, theirs = Channel.pair()
        package = str(Path(__file__).parents[3])
        # Not `-m`: the package need not be installed, and no folder of ours may lead the user's path.
        command = [sys.executable, "-c", _START, str(theirs.fileno()), package, folder]
        try:
            self._process = subprocess.Popen(
                command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, env=environment, start_new_session=True
            )
        except OSError:
            self._channel.close()
            raise
        finally:
            theirs.close()

    def request(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> dict[str, Any]:
        """Its answer, or ForkServerLostError within seconds where it is dead or stopped."""
        try:
            if self._is_waiting:
                raise ClosedError("was interrupted")
            self._is_waiting = True
            self._channel.send(message, fds)
            self._wait()
            answer, _ = self._channel.receive()
        except ClosedError as error:
            raise ForkServerLostError(f"the fork server {self._ending(error)}") from error
        self.answered, self._is_waiting = True, False
        return answer

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._channel.fileno(), select.POLLIN)
        seconds = _ANSWER_SECONDS if self.answered else _FIRST_ANSWER_SECONDS
        for _ in range(round(seconds / _LOOK_SECONDS)):
            if poll.poll(_LOOK_SECONDS * 1000):
                return
            if is_stopped(self._process.pid):
                raise ClosedError("was stopped")
            if self._process.poll() is not None:
                raise ClosedError("died")
        raise ClosedError(f"did not answer within {seconds:g} s")

    def _ending(self, error: ClosedError) -> str:
        """What became of it, in words."""
        if not is_stopped(self._process.pid):
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(_LOOK_SECONDS)
                return f"exited with code {code}" if code >= 0 else f"was killed by signal {-code}"
        return str(error)

    def leave(self) -> None:
        """Let it end its workers and itself, and wait for that."""
        self._channel.close()
        # Before its first answer it has no workers, and may still be busy with its imports.
        if self.answered and not is_stopped(self._process.pid):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_DYING_SECONDS)

    def kill(self) -> None:
        """End it, whatever state it is in."""
        self._channel.close()
        self._process.kill()
        self._process.wait()


def _environment(jobs: int, threads: int | None = None) -> dict[str, str]:
    """Workers share the cores: BLAS threads that wait for each other would slow all of them down."""
    environment = dict(os.environ)
    if threads is not None:
        return {**environment, **dict.fromkeys(_ALL_THREADS, str(threads))}
    if jobs > 1:
        share = str(max(1, (os.cpu_count() or 1) // jobs))
        for name in _BLAS_THREADS:
            environment.setdefault(name, share)
    return environment


def serve(channel: Channel) -> None:
    """Fork on request, tell how workers ended, and kill all processes of the run when the controller is gone."""
    workers: set[int] = set()
    controller = os.pidfd_open(os.getppid()) if hasattr(os, "pidfd_open") else None
    try:
        while True:
            _wait_for_request(channel, controller)
            message, fds = channel.receive()
            if "fork" in message:
                channel.send(_fork_worker(channel, message["fork"], fds, workers))
            else:
                channel.send({"code": _end_worker(message["end"], workers)})
    except ClosedError:
        pass
    finally:
        for pid in workers:
            kill_group(pid)
        end_children(lambda _: True)


def _wait_for_request(channel: Channel, controller: int | None) -> None:
    """Until the controller asks, or is dead: a forked copy of it may hold its end of the pipe open."""
    poll = select.poll()
    for fd in (channel.fileno(), controller):
        if fd is not None:
            poll.register(fd, select.POLLIN)
    if channel.fileno() not in dict(poll.poll()):
        raise ClosedError("the controller died")


def _end_worker(pid: int, workers: set[int]) -> int:
    """Kill a worker and reap it, and kill what it left: its children are children of this process now."""
    kill_group(pid)
    _, status = os.waitpid(pid, 0)
    workers.discard(pid)
    end_children(lambda child: child not in workers)
    return os.waitstatus_to_exitcode(status)


def _fork_worker(channel: Channel, options: dict[str, object], fds: list[int], workers: set[int]) -> dict[str, object]:
    """Fork a worker whose pipe and output file are `fds`; in the child this does not return."""
    server = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    finally:
        if os.getpid() == server:
            for fd in fds:
                os.close(fd)
    if pid:
        workers.add(pid)
        return {"pid": pid}
    code = int(ExitCode.BUG)
    try:
        channel.close()
        from mluops_gtest.running.workers.worker import work

        pipe, output = fds
        work(Channel(socket.socket(fileno=pipe)), output, {**options, "fork_server": server})
        code = 0
    finally:
        os._exit(code)


def main() -> None:
    """Preload what every worker needs, then serve; `argv` names the pipe, the package's place and the folder."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the controller's to handle
    adopt_orphans()
    wake_when_parent_dies()
    Mark.of_this_process().apply()
    try:
        import mluops_gtest.running.workers.worker  # noqa: F401 - preloaded, numpy included, before the first fork

        serve(Channel(socket.socket(fileno=int(sys.argv[1]))))
    finally:
        # The controller removes it, too: either of the two may die first.
        remove_tree(sys.argv[3])
