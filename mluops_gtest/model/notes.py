"""Remarks without end are cut while they are made: the first and the last are kept, and the cut is told."""

from collections.abc import Iterable
from typing import Any, Final, SupportsIndex

# Of one case: together with its refusals and a trace at most 1 MiB.
NOTES_LIMIT: Final = (1 << 20) - (128 << 10)
REFUSALS_LIMIT: Final = 64 << 10
# What a note costs besides its letters, so that a million empty ones do not come free.
_EACH: Final = 64


def cut_text(text: str, most: int) -> str:
    """The text, of a longer one its head and tail with the number of characters between."""
    if len(text) <= most:
        return text
    words = f"\n[… {len(text) - most} characters cut …]\n"
    kept = max(0, most - len(words))
    tail = kept - kept // 2
    return text[: kept // 2] + words + text[len(text) - tail :]


class Notes(list[str]):
    """A list of remarks that stays within `most` characters, however much is added to it."""

    _size = _cut = _head = 0

    def __init__(self, notes: Iterable[object] = (), most: int = NOTES_LIMIT) -> None:
        self._most = most
        self.extend(notes)

    def append(self, note: object) -> None:
        """One more remark; a very long one is cut itself."""
        text = cut_text(str(note), self._most // 4)
        super().append(text)
        self._size += len(text) + _EACH
        # Only now and then, so that many remarks cost no more than a few.
        if self._size > 2 * self._most:
            self._shorten()

    def extend(self, notes: Iterable[object]) -> None:
        for note in notes:
            self.append(note)

    def __iadd__(self, notes: Iterable[object]) -> "Notes":  # type: ignore[override, misc]
        self.extend(notes)
        return self

    def insert(self, place: SupportsIndex, note: Any) -> None:  # noqa: ARG002
        """Remarks stand in the order in which they are made."""
        self.append(note)

    def kept(self) -> tuple[str, ...]:
        """The remarks within the limit, and between head and tail the number of those that were cut."""
        if not self:
            return ()
        self._shorten()
        if not self._cut:
            return tuple(self)
        return (*self[: self._head], f"[… {self._cut} notes cut …]", *self[self._head :])

    def _shorten(self) -> None:
        """Keep a head and a tail of half the limit each."""
        sizes = [len(note) + _EACH for note in self]
        self._size = sum(sizes)
        if self._size <= self._most:
            return
        half, head, size = self._most // 2, 0, 0
        while size + sizes[head] <= half:
            size += sizes[head]
            head += 1
        tail, size = len(sizes), 0
        while tail > head and size + sizes[tail - 1] <= half:
            tail -= 1
            size += sizes[tail]
        if not self._cut:
            self._head = head
        self._cut += tail - head
        del self[head:tail]
        self._size -= sum(sizes[head:tail])


def kept_notes(notes: list[str], most: int = NOTES_LIMIT) -> tuple[str, ...]:
    """What a result keeps of a backend's remarks, whatever list they are in."""
    return (notes if isinstance(notes, Notes) else Notes(notes, most)).kept()
