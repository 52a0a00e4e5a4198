"""The worker's side of guard pages: buffers mapped alone, and a signal handler that records where a fault happened."""

import contextlib
import ctypes
import functools
import mmap
import os
import platform
import signal
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from mluops_gtest.core.tensor import Array
from mluops_gtest.running.workers.memory import (
    CONTEXT_BYTES,
    INFO_BYTES,
    INFO_OFFSET,
    FaultRecord,
    Placed,
    View,
    map_slab,
    reserved_bytes,
)
from mluops_gtest.running.workers.protocol import CodeRange

_SA_SIGINFO, _SA_ONSTACK, _SA_NODEFER = 4, 0x08000000, 0x40000000


class _Action(ctypes.Structure):
    """`struct sigaction` of Linux's C libraries on 64-bit machines."""

    _fields_: ClassVar = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


# Memory of handlers that are installed: the process needs it until it ends.
_installed: list[Any] = []


def report_faults(record: FaultRecord) -> None:
    """From now on SIGSEGV and SIGBUS are recorded before they take their course."""
    machine = platform.machine()
    if machine not in CONTEXT_BYTES:
        return
    library = _c_library()
    for number in (signal.SIGSEGV, signal.SIGBUS):
        before = _Action()
        library.sigaction(int(number), None, ctypes.byref(before))
        if before.handler in (None, 1):
            continue  # default or ignored: there is no handler to go on with
        code = _executable(_CODE_OF[machine](record.address, before.handler))
        if code is None:
            return  # a hardened system: the signal alone must do
        ours = _Action(code, before.mask, _SA_SIGINFO | _SA_ONSTACK | _SA_NODEFER)
        _installed.append(record)
        library.sigaction(int(number), ctypes.byref(ours), None)


def code_ranges() -> tuple[CodeRange, ...]:
    """Where this process has code of files."""
    found = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
            addresses, protection, offset, _, _, *path = line.split(maxsplit=5)
            if "x" in protection and path and path[0].startswith("/"):
                start, end = (int(one, 16) for one in addresses.split("-"))
                found.append(CodeRange(start, end, int(offset, 16), path[0]))
    return tuple(found)


def _executable(code: bytes) -> int | None:
    """The address of a page that holds the code and can no longer be written; None where that is not allowed."""
    page = mmap.mmap(-1, mmap.PAGESIZE)
    page.write(code)
    address = ctypes.addressof(ctypes.c_ubyte.from_buffer(page))
    if _c_library().mprotect(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC):
        return None
    _installed.append(page)
    return address


def _x86_64(record: int, before: int) -> bytes:
    """handler(edi: signal, rsi: siginfo, rdx: ucontext)."""
    return b"".join(
        (
            b"\x89\xf8",  # mov  eax, edi
            b"\x49\x89\xf0",  # mov  r8, rsi
            b"\x48\xbf" + struct.pack("<Q", record + INFO_OFFSET),  # mov  rdi, record
            b"\xb9" + struct.pack("<I", INFO_BYTES),  # mov  ecx, INFO_BYTES
            b"\xf3\xa4",  # rep movsb
            b"\x48\x89\xd6",  # mov  rsi, rdx
            b"\xb9" + struct.pack("<I", CONTEXT_BYTES["x86_64"]),  # mov  ecx, CONTEXT_BYTES
            b"\xf3\xa4",  # rep movsb
            b"\x89\xc7",  # mov  edi, eax
            b"\x4c\x89\xc6",  # mov  rsi, r8
            b"\x48\xb8" + struct.pack("<Q", before),  # mov  rax, before
            b"\xff\xe0",  # jmp  rax
        )
    )


def _aarch64(record: int, before: int) -> bytes:
    """handler(w0: signal, x1: siginfo, x2: ucontext)."""
    count = CONTEXT_BYTES["aarch64"]
    words = (
        0x58000203,  # ldr  x3, record
        0x58000224,  # ldr  x4, before
        0xAA0103E5,  # mov  x5, x1
        0xD2800006 | INFO_BYTES << 5,  # mov  x6, INFO_BYTES
        *_ARM_COPY,
        0xAA0203E5,  # mov  x5, x2
        0xD2800006 | count << 5,  # mov  x6, CONTEXT_BYTES
        *_ARM_COPY,
        0xD61F0080,  # br   x4
        0xD503201F,  # nop
    )
    return struct.pack(f"<{len(words)}IQQ", *words, record + INFO_OFFSET, before)


# x6 bytes from x5 to x3.
_ARM_COPY: Final = (
    0xF84084A7,  # ldr  x7, [x5], 8
    0xF8008467,  # str  x7, [x3], 8
    0xF10020C6,  # subs x6, x6, 8
    0x54FFFFA1,  # b.ne the ldr
)
_CODE_OF: Final = {"x86_64": _x86_64, "aarch64": _aarch64}


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
                base = stack.enter_context(self._reserved(reserved_bytes(placed)))
                # Populated at once: a fault per page costs more than the copy of its bytes.
                how = _PROT_READ | _PROT_WRITE, _MAP_SHARED | _MAP_FIXED | _MAP_POPULATE, self._files.get(slot, -1)
                for one in placed:
                    if one.pages:
                        _mmap(base + one.space_offset, one.pages, *how, one.file_offset)
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
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library
