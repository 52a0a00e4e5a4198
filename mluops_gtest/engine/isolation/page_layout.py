"""Buffers in pages of their own: packed in the shared file, far apart in the worker's address space."""

import mmap
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from typing import Any

from mluops_gtest.engine.buffers import Side, Wanted
from mluops_gtest.value import Value

PAGE_BYTES = mmap.PAGESIZE
# Address space on either side of every buffer that nobody may touch.
ROOM_BYTES = 64 << 20


class Placed(Value):
    """A buffer of `size` bytes that begins `lead` bytes into its own pages; an empty one has no pages at all."""

    name: str
    size: int
    itemsize: int
    # Of its pages: where they begin in the file and in the reserved address space, and how many bytes they are.
    file_offset: int
    room_offset: int
    pages: int
    lead: int

    @property
    def start(self) -> int:
        """Where the buffer begins in the reserved address space."""
        return self.room_offset + self.lead

    @property
    def end(self) -> int:
        """Where the first byte behind the buffer lies in the reserved address space."""
        return self.start + self.size

    def to_message(self) -> tuple[Any, ...]:
        """Plain values for a pipe."""
        return astuple(self)


def place(wanted: Iterable[Wanted], side: Side) -> tuple[Placed, ...]:
    """Every buffer flush with an end of its pages: the last where what lies behind is watched, else the first.

    What is reserved between two buffers is twice the room, so that a stray address is nearest to the buffer it left.
    """
    placed = []
    file_offset, room_offset = 0, ROOM_BYTES
    for one in wanted:
        pages = one.size + -one.size % PAGE_BYTES
        lead = (pages - one.size) // one.alignment * one.alignment if side is Side.BEHIND else 0
        placed.append(Placed(one.name, one.size, one.itemsize, file_offset, room_offset, pages, lead))
        file_offset += pages
        room_offset += pages + 2 * ROOM_BYTES
    return tuple(placed)


def file_bytes(placed: Sequence[Placed]) -> int:
    """How long the shared file must be."""
    return placed[-1].file_offset + placed[-1].pages if placed else 0


def room_bytes(placed: Sequence[Placed]) -> int:
    """How much address space is reserved for all of them."""
    return placed[-1].room_offset + placed[-1].pages + ROOM_BYTES if placed else 0
