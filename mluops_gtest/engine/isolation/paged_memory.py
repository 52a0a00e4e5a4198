"""The worker's side of guard pages: every buffer is mapped alone, in the middle of inaccessible address space."""

import contextlib
import ctypes
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mluops_gtest.engine.isolation.fault_handler import report_faults
from mluops_gtest.engine.isolation.fault_record import FaultRecord
from mluops_gtest.engine.isolation.messages import View
from mluops_gtest.engine.isolation.page_layout import Placed, room_bytes
from mluops_gtest.engine.isolation.shared import map_slab
from mluops_gtest.model.dtypes import Array

# Linux on every 64-bit machine.
_PROT_NONE, _PROT_READ, _PROT_WRITE = 0, 1, 2
_MAP_SHARED, _MAP_PRIVATE, _MAP_FIXED, _MAP_ANONYMOUS, _MAP_NORESERVE, _MAP_POPULATE = 1, 2, 0x10, 0x20, 0x4000, 0x8000
# Addresses that nobody else is given: each request gets the next ones, so that a pointer of an earlier one faults.
_FIRST_ADDRESS, _LAST_ADDRESS = 1 << 44, 1 << 46
_MAP_FAILED = ctypes.c_void_p(-1).value


class PagedMemory:
    """The shared files of the arenas, mapped for one request at a time: a pointer that is kept faults afterwards."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._record: FaultRecord | None = None
        self._next = _FIRST_ADDRESS

    def take(self, slot: str, fd: int, size: int) -> None:
        """A shared file came: an arena's, or the page that tells of a fault."""
        if slot == "fault":
            self._record = FaultRecord(map_slab(fd, size))
            os.close(fd)
            report_faults(self._record)
            return
        if slot in self._files:
            os.close(self._files[slot])
        self._files[slot] = fd

    @contextlib.contextmanager
    def mapped(self, pages: Mapping[str, Sequence[Sequence[Any]]]) -> Iterator[dict[str, View]]:
        """The buffers of these arenas while the request lasts."""
        views: dict[str, View] = {}
        with contextlib.ExitStack() as stack:
            for slot, lines in pages.items():
                placed = [Placed(*line) for line in lines]
                base = stack.enter_context(self._reserved(room_bytes(placed)))
                for one in placed:
                    if one.pages:
                        _map_file(base + one.room_offset, one.pages, self._files[slot], one.file_offset)
                if self._record is not None:
                    self._record.set_base(slot, base)
                views[slot] = _view({one.name: base + one.start for one in placed})
            yield views

    @contextlib.contextmanager
    def _reserved(self, size: int) -> Iterator[int]:
        """Address space that faults on every access; gone afterwards with all that was mapped into it."""
        if not size:
            yield 0
            return
        base = _mmap(self._next, size, _PROT_NONE, _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_NORESERVE, -1, 0)
        self._next = base + size if _FIRST_ADDRESS <= base < _LAST_ADDRESS else _FIRST_ADDRESS
        try:
            yield base
        finally:
            _c_library().munmap(base, size)


def _view(addresses: Mapping[str, int]) -> View:
    def view(name: str, _offset: int, dtype: "np.dtype[Any]", count: int) -> Array:
        # At its own address also where it is empty: any access there is outside of the buffer.
        memory = (ctypes.c_ubyte * max(1, count * dtype.itemsize)).from_address(addresses[name])
        return np.frombuffer(memoryview(memory), dtype, count)

    return view


def _map_file(address: int, size: int, fd: int, offset: int) -> None:
    # Populated at once: a fault per page costs more than the copy of its bytes.
    _mmap(address, size, _PROT_READ | _PROT_WRITE, _MAP_SHARED | _MAP_FIXED | _MAP_POPULATE, fd, offset)


def _mmap(address: int, size: int, protection: int, flags: int, fd: int, offset: int) -> int:
    result = _c_library().mmap(address, size, protection, flags, fd, offset)
    if result == _MAP_FAILED:
        problem = os.strerror(ctypes.get_errno())
        raise MemoryError(f"--guard-pages could not map {size} bytes of address space: {problem}")
    return int(result)


@functools.cache
def _c_library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library
