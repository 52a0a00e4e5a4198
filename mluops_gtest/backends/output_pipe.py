"""What another process prints: a pipe of its own, emptied while it runs, of which the head and the tail are kept."""

import array
import fcntl
import os
import termios
from typing import Final

# Of one case 1 MiB: how it began, and how it ended with the trace of a crash.
HEAD_BYTES: Final = 512 << 10
TAIL_BYTES: Final = 512 << 10


class HeadAndTail:
    """The first and the last bytes of a stream that may be endless."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._most_head, self._most_tail = head, tail
        self._head, self._tail = bytearray(), bytearray()
        self._cut = 0

    def add(self, data: bytes) -> None:
        """The next bytes; those in the middle of a long stream are counted and forgotten."""
        room = self._most_head - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) >= 2 * self._most_tail:
            self._shorten()

    def text(self) -> str:
        """What is kept, with the number of bytes that were cut between."""
        self._shorten()
        if not self._cut:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = self._head.decode("utf-8", "replace"), self._tail.decode("utf-8", "replace")
        return f"{head}\n[… {self._cut} bytes cut …]\n{tail}"

    def _shorten(self) -> None:
        excess = len(self._tail) - self._most_tail
        if excess > 0:
            del self._tail[:excess]
            self._cut += excess


class OutputPipe:
    """Where one process prints. A pipe per process: what a child of a dead one prints reaches no later case."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._head, self._tail = head, tail
        self.fd, self.writer = os.pipe()
        self._kept: HeadAndTail | None = None

    def close_writer(self) -> None:
        """The process has its own; this end must not keep the pipe open."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        """Give the pipe back; whoever still prints gets an error."""
        self.close_writer()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def drain(self) -> None:
        """Take what is in the pipe now, and only that: somebody may print for ever."""
        if self.fd < 0:
            return
        waiting = array.array("i", [0])
        fcntl.ioctl(self.fd, termios.FIONREAD, waiting)
        if waiting[0]:
            self.add(os.read(self.fd, waiting[0]))

    def add(self, data: bytes) -> None:
        """What was printed elsewhere and belongs to it."""
        if self._kept is None:
            self._kept = HeadAndTail(self._head, self._tail)
        self._kept.add(data)

    def take(self) -> str:
        """What was printed since the last time: all of it, or its head and tail."""
        self.drain()
        if self._kept is None:
            return ""
        kept, self._kept = self._kept, None
        return kept.text()
