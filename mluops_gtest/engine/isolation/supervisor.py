"""The controller's side of a worker: forked, asked, and always killed in the end."""

import os
import select
from typing import Any

from mluops_gtest.engine.isolation.channel import Channel, ClosedError
from mluops_gtest.engine.isolation.forking import ForkServer, ForkServerLostError


class WorkerGoneError(Exception):
    """The worker died before it answered; `code` is its exit code, negative for a signal.

    None: it died with the fork server, through no fault of its own.
    """

    def __init__(self, code: int | None) -> None:
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
