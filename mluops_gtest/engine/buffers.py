"""The memory a backend works on: owned by the harness, poisoned, between guard zones."""

from dataclasses import dataclass

import numpy as np

from mluops_gtest.model.dtypes import Array, DType

# Bytes before and after every buffer that nobody may write; the pattern differs from every poison.
GUARD_BYTES = 1024
GUARD_PATTERN = 0x5C
_ALIGNMENT = 64
_BLOCK = 1 << 20
_SMALL = 1 << 14  # bytes below which copying to bytes beats two numpy calls
_GUARD = np.full(GUARD_BYTES, GUARD_PATTERN, np.uint8)
_GUARD_BYTES = _GUARD.tobytes()


@dataclass(frozen=True, slots=True)
class Buffer:
    """`data` between two guard zones, all parts of one slab."""

    before: Array
    data: Array
    after: Array

    def overrun(self) -> str | None:
        """Where a guard zone was written, in words; None when both are intact."""
        if self.after.tobytes() != _GUARD_BYTES:
            offset = int(np.flatnonzero(self.after != GUARD_PATTERN)[0])
            return f"{offset} bytes past its end"
        if self.before.tobytes() != _GUARD_BYTES:
            offset = GUARD_BYTES - int(np.flatnonzero(self.before != GUARD_PATTERN)[-1])
            return f"{offset} bytes before its start"
        return None


class Arena:
    """One slab, reused from case to case: the first touch of fresh memory costs more than the copy."""

    def __init__(self) -> None:
        self._slab: Array = np.empty(0, np.uint8)
        self._used = 0

    def reset(self, sizes: list[int]) -> None:
        """Forget all buffers and make room for buffers of these sizes."""
        needed = _ALIGNMENT + sum(2 * GUARD_BYTES + size + _ALIGNMENT for size in sizes)
        if needed > self._slab.size:
            self._slab = np.empty(0, np.uint8)  # freed before the larger one is taken
            self._slab = self._allocate(needed)
        self._used = -self._slab.ctypes.data % _ALIGNMENT

    def _allocate(self, size: int) -> Array:
        """A slab of that size; an arena that is shared between processes takes it elsewhere."""
        return np.empty(size, np.uint8)

    def offset_of(self, array: Array) -> int:
        """Where in the slab an array of this arena begins."""
        return array.ctypes.data - self._slab.ctypes.data if array.size else 0

    def take(self, size: int) -> Buffer:
        """An aligned buffer of `size` bytes with fresh guard zones and undefined contents."""
        start = self._used + GUARD_BYTES
        end = start + size
        buffer = Buffer(self._slab[self._used : start], self._slab[start:end], self._slab[end : end + GUARD_BYTES])
        buffer.before[:] = _GUARD
        buffer.after[:] = _GUARD
        self._used = end + GUARD_BYTES + -(end + GUARD_BYTES - self._used) % _ALIGNMENT
        return buffer


def pattern_of(dtype: DType, preset: int | None) -> Array:
    """One element's bits before the call: the preset value, else the dtype's poison."""
    if preset is not None:
        return np.array([preset], dtype.storage).view(_cell(dtype))
    return np.frombuffer(dtype.poison, _cell(dtype))


def fill(data: Array, pattern: Array) -> None:
    """Every element of the buffer gets the pattern."""
    data.view(pattern.dtype)[:] = pattern[0]


def holding(values: Array, pattern: Array) -> Array:
    """Which elements still hold the pattern, as a flat mask."""
    mask: Array = values.reshape(-1).view(pattern.dtype) == pattern[0]
    return mask


def first_difference(left: Array, right: Array) -> int | None:
    """The offset of the first byte that differs between two byte arrays of one size, in blocks."""
    for start in range(0, left.size, _BLOCK):
        a, b = left[start : start + _BLOCK], right[start : start + _BLOCK]
        if not _same_bytes(a, b):
            return start + int(np.flatnonzero(a != b)[0])
    return None


def _same_bytes(left: Array, right: Array) -> bool:
    if left.size <= _SMALL:
        return left.tobytes() == right.tobytes()
    words = left.size // 8 * 8
    return bool((left[:words].view("u8") == right[:words].view("u8")).all()) and bool(
        (left[words:] == right[words:]).all()
    )


def _cell(dtype: DType) -> "np.dtype[np.generic]":
    return dtype.bits if dtype.itemsize <= 8 else np.dtype(f"V{dtype.itemsize}")
