"""A signal handler that records where a fault happened and then lets the handler that was there before go on.

It is machine code, not a Python callback: a callback takes the interpreter's lock, and would wait for ever in a thread
of native code while the thread that holds the lock waits for that one. This handler takes no lock, needs no stack
and is safe at any instruction of any thread. On other machines faults are told by their signal alone.
"""

import ctypes
import mmap
import platform
import signal
import struct
from typing import Any, ClassVar, Final

from mluops_gtest.engine.isolation.fault_record import (
    CONTEXT_BYTES,
    INFO_BYTES,
    INFO_OFFSET,
    FaultRecord,
)

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
    library = ctypes.CDLL(None)
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


def _executable(code: bytes) -> int | None:
    """The address of a page that holds the code and can no longer be written; None where that is not allowed."""
    page = mmap.mmap(-1, mmap.PAGESIZE)
    page.write(code)
    address = ctypes.addressof(ctypes.c_ubyte.from_buffer(page))
    library = ctypes.CDLL(None)
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if library.mprotect(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC):
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
