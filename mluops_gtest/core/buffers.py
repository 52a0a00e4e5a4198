"""The bytes around every buffer, on the host and on a device, that no backend may write.

The memory a backend works on: owned by the harness, poisoned, between guard zones.
"""

import ctypes
from collections.abc import Sequence
from enum import Enum
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mluops_gtest.base.files import pieces
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.native.arrays import address_of
from mluops_gtest.base.native.library import native_library
from mluops_gtest.core.cause import Overrun
from mluops_gtest.core.tensor import Array, DType

# On either side of a buffer; the pattern differs from every poison.
GUARD_BYTES: Final = 1024
GUARD_PATTERN: Final = 0x5C


_Array = npt.NDArray[Any]


class _Functions:
    def __init__(self, library: ctypes.CDLL) -> None:
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self.first_difference, self.count_holding = library.mluops_first_difference, library.mluops_count_holding
        self.first_difference.argtypes = [pointer, pointer, number]
        self.count_holding.argtypes = [pointer, number, pointer, ctypes.c_int]
        self.first_difference.restype = self.count_holding.restype = number


_functions: Final = cache(_Functions)


def native_first_difference(left: _Array, right: _Array) -> int | None:
    """The offset of the first byte that differs between two contiguous arrays of one size; −1 where none does."""
    library = native_library()
    if library is None:
        return None
    return int(_functions(library).first_difference(address_of(left), address_of(right), left.nbytes))


def native_count_holding(cells: _Array, pattern: _Array) -> int | None:
    """How many cells of a contiguous array have the bits of the one in `pattern`."""
    library = native_library()
    if library is None:
        return None
    size = pattern.itemsize
    return int(_functions(library).count_holding(address_of(cells), cells.nbytes // size, address_of(pattern), size))


# The slab of an earlier, larger case goes on behind the last buffer. Bytes of it that are looked at, too: a fixed
# number costs 7 µs whatever ran before. Punching a hole there and asking for data in it (SEEK_DATA) would see all of
# it, but measured 20 ms for the hole and 100 ms to fill the pages again where cases of 64 MiB and of 4 KiB alternate.
TAIL_BYTES = 64 << 10
_ALIGNMENT = 64
_BLOCK = 1 << 20
_SMALL = 1 << 14  # bytes below which copying to bytes beats two numpy calls
_GUARD = np.full(GUARD_BYTES + _ALIGNMENT + TAIL_BYTES, GUARD_PATTERN, np.uint8)
_GUARDED = _GUARD.tobytes()


class Side(Enum):
    """Where inaccessible pages lie flush against every buffer."""

    BEHIND = "behind"
    IN_FRONT = "in front of"


class BufferSpec(Value):
    """A buffer that a call needs; `alignment` is what its address must be a multiple of wherever it lies."""

    name: str
    size: int
    itemsize: int = 1
    alignment: int = 1


class Buffer(Value):
    """`data` between two guard zones, all parts of one slab."""

    before: Array
    data: Array
    after: Array

    def guard(self) -> None:
        """Both zones get their pattern."""
        self.before[:] = _GUARD[: self.before.size]
        self.after[:] = _GUARD[: self.after.size]

    def overrun(self, name: str) -> Overrun | None:
        """Where a guard zone of the buffer of that name was written; None when both are intact."""
        # Somebody may be writing: what differs at one moment may not at the next.
        if not _GUARDED.startswith(self.after.data) and (places := np.flatnonzero(self.after != GUARD_PATTERN)).size:
            return Overrun(name, "behind", int(places[0]) + 1)
        if not _GUARDED.startswith(self.before.data) and (places := np.flatnonzero(self.before != GUARD_PATTERN)).size:
            return Overrun(name, "in front", self.before.size - int(places[-1]))
        return None


class Arena:
    """One slab, reused from case to case: the first touch of fresh memory costs more than the copy."""

    def __init__(self) -> None:
        self._slab: Array = np.empty(0, np.uint8)
        # Where the slab lies, and where in it the first aligned byte is.
        self._address = self._start = 0

    def allocate(self, wanted: Sequence[BufferSpec], side: Side | None = None) -> dict[str, Buffer]:
        """Aligned buffers with fresh guard zones and undefined contents; all earlier ones are forgotten."""
        assert side is None, "this memory has no pages that are inaccessible"
        self._reserve(_ALIGNMENT + sum(_stride(one.size) for one in wanted) + TAIL_BYTES)
        start = self._start
        buffers = {}
        for number, one in enumerate(wanted, 1):
            first, end = start + GUARD_BYTES, start + GUARD_BYTES + one.size
            start += _stride(one.size)
            limit = start + TAIL_BYTES if number == len(wanted) else start
            buffer = Buffer(self._slab[first - GUARD_BYTES : first], self._slab[first:end], self._slab[end:limit])
            buffer.guard()
            buffers[one.name] = buffer
        return buffers

    def _reserve(self, size: int) -> None:
        """A slab of at least that size."""
        if size > self._slab.size:
            self._slab = np.empty(0, np.uint8)  # freed before the larger one is taken
            self._slab = self._new_slab(size)
            self._address = address_of(self._slab)
            self._start = -self._address % _ALIGNMENT

    def _new_slab(self, size: int) -> Array:
        """A slab of that size; an arena that is shared between processes takes it elsewhere."""
        return np.empty(size, np.uint8)

    def offset_of(self, array: Array) -> int:
        """Where in the slab an array of this arena begins."""
        return int(array.ctypes.data) - self._address if array.size else 0


def _stride(size: int) -> int:
    """From the start of one buffer's front zone to the next one's."""
    used = 2 * GUARD_BYTES + size
    return used + -used % _ALIGNMENT


@cache
def pattern_of(dtype: DType, preset: int | None) -> Array:
    """One element's bits before the call: the preset value, else the dtype's poison."""
    if preset is not None:
        # A faulty call may give the output a type that does not hold it.
        return np.array([preset]).astype(dtype.storage).view(_cell(dtype))
    return np.frombuffer(dtype.poison, _cell(dtype))


def fill(data: Array, pattern: Array) -> None:
    """Every element of the buffer gets the pattern."""
    data.view(pattern.dtype)[:] = pattern[0]


def places_holding(values: Array, pattern: Array) -> Array:
    """The flat indices of the elements that still hold the pattern."""
    cells = _cells(values, pattern)
    # Almost always there are none: to know that takes one read, without a mask.
    if cells.nbytes > _SMALL and native_count_holding(cells, pattern) == 0:
        return np.zeros(0, np.int64)
    return np.flatnonzero(cells == pattern[0])


def places_touched(values: Array, pattern: Array) -> Array:
    """The flat indices of the elements that no longer hold it."""
    cells = _cells(values, pattern)
    if cells.nbytes > _SMALL and native_count_holding(cells, pattern) == cells.size:
        return np.zeros(0, np.int64)
    return np.flatnonzero(cells != pattern[0])


def first_difference(left: Array, right: Array) -> int | None:
    """The offset of the first byte that differs between two byte arrays of one size."""
    if left.size <= _SMALL and left.tobytes() == right.tobytes():
        return None
    for place, piece in pieces(right):
        offset = _difference_in_piece(left[place], piece)
        if offset is not None:
            return int(place.start) + offset
    return None


def _difference_in_piece(left: Array, right: Array) -> int | None:
    found = native_first_difference(left, right)
    if found is not None:
        return found if found >= 0 else None
    for start in range(0, left.size, _BLOCK):
        a, b = left[start : start + _BLOCK], right[start : start + _BLOCK]
        if not _same_bytes(a, b) and (places := np.flatnonzero(a != b)).size:
            return start + int(places[0])
    return None


def _cells(values: Array, pattern: Array) -> Array:
    return np.ascontiguousarray(values).reshape(-1).view(pattern.dtype)


def _same_bytes(left: Array, right: Array) -> bool:
    if left.size <= _SMALL:
        return left.tobytes() == right.tobytes()
    words = left.size // 8 * 8
    return bool((left[:words].view("u8") == right[:words].view("u8")).all()) and bool(
        (left[words:] == right[words:]).all()
    )


def _cell(dtype: DType) -> "np.dtype[np.generic]":
    return dtype.bits if dtype.itemsize <= 8 else np.dtype(f"V{dtype.itemsize}")
