"""A private pipe between two processes: JSON messages with length and number before them, descriptors beside them."""

import array
import json
import socket
import struct
from typing import Any, Final

HEAD: Final = struct.Struct("<IQ")
_MAX_BYTES = 64 << 20
_MAX_FDS = 8


class ClosedError(Exception):
    """The other side is gone."""


def framed(number: int, body: bytes) -> bytes:
    """A message as it travels: its length and the number of the request that it is, or answers."""
    return HEAD.pack(len(body), number) + body


def rights_of(fds: tuple[int, ...]) -> list[tuple[int, int, "array.array[int]"]]:
    """The descriptors as ancillary data for `sendmsg`."""
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []


class Channel:
    """One end of the pipe. JSON, not pickle: what a worker sends must not run anything here."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end

    @staticmethod
    def pair() -> tuple["Channel", "Channel"]:
        """Both ends of a new pipe."""
        left, right = socket.socketpair()
        return Channel(left), Channel(right)

    def fileno(self) -> int:
        """For poll and for passing on."""
        return self.socket.fileno()

    def close(self) -> None:
        """Close this end; the other sees it."""
        self.socket.close()

    def send(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send one message with its file descriptors."""
        self.send_bytes(0, json.dumps(message).encode(), fds)

    def send_bytes(self, number: int, body: bytes, fds: tuple[int, ...] = ()) -> None:
        """Send one message that is encoded already, under the number of the request that it answers."""
        data = framed(number, body)
        try:
            sent = self.socket.sendmsg([data], rights_of(fds))
            self.socket.sendall(memoryview(data)[sent:])
        except OSError as error:
            raise ClosedError(str(error)) from error

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        """The next message and the file descriptors that came with it."""
        _, message, fds = self.receive_numbered()
        return message, fds

    def receive_numbered(self) -> tuple[int, dict[str, Any], list[int]]:
        """The next message with its number before it."""
        fds: list[int] = []
        try:
            length, number = HEAD.unpack(self._read(HEAD.size, fds))
            if length > _MAX_BYTES:
                raise ClosedError(f"a message of {length} bytes is too long")
            message = json.loads(self._read(length, fds))
        except (OSError, ValueError, RecursionError) as error:
            raise ClosedError(str(error)) from error
        if not isinstance(message, dict):
            raise ClosedError("a message must be an object")
        return number, message, fds

    def _read(self, count: int, fds: list[int]) -> bytes:
        parts = []
        while count:
            data, rights, _, _ = socket.recv_fds(self.socket, count, _MAX_FDS)
            fds += rights
            if not data:
                raise ClosedError("the other side closed the pipe")
            parts.append(data)
            count -= len(data)
        return b"".join(parts)
