"""The controller's end of the line to a worker: one numbered request at a time, exactly one answer, one deadline."""

import os
import select
import socket
import time
from typing import Final

from mluops_gtest.backends.output_pipe import OutputPipe
from mluops_gtest.engine.isolation.channel import HEAD, Channel, ClosedError, framed, rights_of
from mluops_gtest.model.cause import ProtocolBroken
from mluops_gtest.model.reasons import reason_of

# The notes of one case, at most 1 MiB, with every letter escaped, and room for the rest.
MAX_ANSWER_BYTES: Final = 8 << 20
_PIECE: Final = 64 << 10
# poll() counts in milliseconds and in 32 bits.
_LONGEST_POLL_MS: Final = 1_000_000


class LateError(Exception):
    """The worker did not answer in time."""


class ProtocolError(Exception):
    """The worker sent what no worker sends; the words say what."""

    def __init__(self, what: str) -> None:
        self.cause = ProtocolBroken(what)
        super().__init__(reason_of((self.cause,)))


class StaleAnswerError(ProtocolError):
    """An answer to an earlier request came once more; the present request did not cause it."""


class Conversation:
    """Asks one worker. After an error the line is not used again, so no answer is mixed up."""

    def __init__(self, channel: Channel, output: OutputPipe, death: int) -> None:
        self._socket, self._output, self._death = channel.socket, output, death
        self._socket.setblocking(False)
        self._buffer = bytearray()
        # A start that no other worker shares: what a child of another one might send has no number of ours.
        self._first = self._number = int.from_bytes(os.urandom(7), "little")
        self._line = self._socket.fileno()
        self._poll = select.poll()
        self._poll.register(self._line, select.POLLIN)
        self._poll.register(output.fd, select.POLLIN)
        if death >= 0:
            self._poll.register(death, select.POLLIN)

    def ask(self, request: bytes, fds: tuple[int, ...] = (), timeout: float | None = None) -> bytes:
        """Send a request and wait for its answer; sending, waiting and reading share the time."""
        self._number += 1
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            self._send(framed(self._number, request), fds, deadline)
            while (answer := self._answer()) is None:
                self._wait(deadline)
                self._read()
        except OSError as error:
            raise ClosedError(str(error)) from error
        self._output.drain()
        return answer

    def _send(self, data: bytes, fds: tuple[int, ...], deadline: float | None) -> None:
        rest = memoryview(data)
        rights = rights_of(fds)
        while rest:
            try:
                rest = rest[self._socket.sendmsg([rest], rights) :]
                rights = []
            except BlockingIOError:
                self._poll.modify(self._line, select.POLLOUT)
                self._wait(deadline)
                self._poll.modify(self._line, select.POLLIN)

    def _wait(self, deadline: float | None) -> None:
        """Wait until the line is ready; what the worker prints meanwhile is taken, so that it never waits for us."""
        while True:
            left = _LONGEST_POLL_MS if deadline is None else (deadline - time.monotonic()) * 1e3
            if left <= 0:
                raise LateError
            ready = dict(self._poll.poll(min(left, _LONGEST_POLL_MS)))
            if self._output.fd in ready:
                self._output.drain()
                if not ready[self._output.fd] & select.POLLIN:
                    # Closed by its writers: it would be ready for ever.
                    self._poll.unregister(self._output.fd)
            if self._line in ready:
                return
            if self._death in ready:
                raise ClosedError("the worker died")

    def _read(self) -> None:
        try:
            # Without room for descriptors the system closes any that come along, and says so.
            data, _, flags, _ = self._socket.recvmsg(_PIECE, 0)
        except BlockingIOError:
            return
        if flags & socket.MSG_CTRUNC:
            raise ProtocolError("it sent file descriptors")
        if not data:
            raise ClosedError("the worker closed its end")
        self._buffer += data

    def _answer(self) -> bytes | None:
        """The answer, once all of it is here."""
        if len(self._buffer) < HEAD.size:
            return None
        length, number = HEAD.unpack_from(self._buffer)
        self._refuse_stale(number)
        if number != self._number:
            raise ProtocolError(f"it answered a request {number} that nobody made")
        if length > MAX_ANSWER_BYTES:
            raise ProtocolError(f"an answer of {length} bytes; at most {MAX_ANSWER_BYTES} are read")
        end = HEAD.size + length
        if len(self._buffer) < end:
            return None
        if len(self._buffer) > end:
            if len(self._buffer) >= end + HEAD.size:
                self._refuse_stale(HEAD.unpack_from(self._buffer, end)[1])
            raise ProtocolError("it sent more than one answer")
        answer = bytes(self._buffer[HEAD.size :])
        self._buffer.clear()
        return answer

    def _refuse_stale(self, number: int) -> None:
        """A late message from a child of an earlier call is not blamed on this call, wherever it arrives."""
        if self._first < number < self._number:
            raise StaleAnswerError("it answered an earlier request once more")
