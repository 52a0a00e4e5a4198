"""What another process prints: a pipe of its own, emptied while it runs, of which the head and the tail are kept."""

import array
import fcntl
import os
import termios

from mluops_gtest.model.head_and_tail import HEAD_BYTES, TAIL_BYTES, HeadAndTail


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
