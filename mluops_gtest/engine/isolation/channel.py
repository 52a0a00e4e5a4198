"""A private pipe between two processes: JSON messages with a length before them, file descriptors beside them."""

import array
import json
import socket
import struct
from typing import Any

_HEAD = struct.Struct("<I")
_MOST_BYTES = 64 << 20
_MOST_FDS = 8


class ClosedError(Exception):
    """The other side is gone."""


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
        """For select and for passing on."""
        return self.socket.fileno()

    def close(self) -> None:
        """Close this end; the other sees it."""
        self.socket.close()

    def send(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send one message with its file descriptors."""
        body = json.dumps(message).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        data = _HEAD.pack(len(body)) + body
        try:
            sent = self.socket.sendmsg([data], rights)
            self.socket.sendall(memoryview(data)[sent:])
        except OSError as error:
            raise ClosedError(str(error)) from error

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        """The next message and the file descriptors that came with it."""
        fds: list[int] = []
        try:
            head = self._read(_HEAD.size, fds)
            (length,) = _HEAD.unpack(head)
            if length > _MOST_BYTES:
                raise ClosedError(f"a message of {length} bytes is no message of ours")
            message = json.loads(self._read(length, fds))
        except (OSError, ValueError) as error:
            raise ClosedError(str(error)) from error
        if not isinstance(message, dict):
            raise ClosedError("a message must be an object")
        return message, fds

    def _read(self, count: int, fds: list[int]) -> bytes:
        parts = []
        while count:
            data, rights, _, _ = socket.recv_fds(self.socket, count, _MOST_FDS)
            fds += rights
            if not data:
                raise ClosedError("the other side closed the pipe")
            parts.append(data)
            count -= len(data)
        return b"".join(parts)
