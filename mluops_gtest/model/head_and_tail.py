"""What somebody prints without end: the first and the last of it, and no more."""

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
