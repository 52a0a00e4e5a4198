"""The controller's side of a worker: forked, asked, and always killed in the end."""

import json
import os
import signal
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from mluops_gtest.backends.output_pipe import OutputPipe
from mluops_gtest.engine.isolation.answers import AnswerType
from mluops_gtest.engine.isolation.channel import Channel, ClosedError
from mluops_gtest.engine.isolation.conversation import Conversation, LateError, ProtocolError
from mluops_gtest.engine.isolation.forking import ForkServer, ForkServerLostError
from mluops_gtest.engine.isolation.process_tree import stopped_group
from mluops_gtest.model import cause

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
