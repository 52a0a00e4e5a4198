"""The bytes of a fault in words: who, what, where, on every machine that tells."""

import signal
import struct

import numpy as np
import pytest

from mluops_gtest.core.buffers import BufferSpec, Side
from mluops_gtest.core.cause import format_reason
from mluops_gtest.running.workers.memory import (
    CONTEXT_BYTES,
    CONTEXT_OFFSET,
    GAP_BYTES,
    INFO_OFFSET,
    RECORD_BYTES,
    FaultRecord,
    RecordedFault,
    place,
)

BASE = 0x7F00_0000_0000


def record(number=signal.SIGSEGV, code=2, address=BASE, context=b""):
    memory = np.zeros(RECORD_BYTES, np.uint8)
    struct.pack_into("<iii4xQ", memory.data, INFO_OFFSET, number, 0, code, address)
    memory[CONTEXT_OFFSET : CONTEXT_OFFSET + len(context)] = np.frombuffer(context, np.uint8)
    return FaultRecord(memory)


def x86(error, trap=14):
    return b"\0" * 192 + struct.pack("<QQ", error, trap)


def arm(syndrome, *, before=528):
    floats = struct.pack("<II", 0x46508001, before) + b"\0" * (before - 8)
    return b"\0" * 464 + floats + struct.pack("<IIQ", 0x45535201, 16, syndrome)


@pytest.mark.parametrize(
    ("context", "machine", "access"),
    [
        (x86(4), "x86_64", "read"),
        (x86(6), "x86_64", "wrote"),
        (x86(6, trap=13), "x86_64", "touched"),
        (arm(0x24 << 26), "aarch64", "read"),
        (arm(0x24 << 26 | 1 << 6), "aarch64", "wrote"),
        (arm(0x20 << 26 | 1 << 6), "aarch64", "touched"),
        (b"", "aarch64", "touched"),
        (arm(0x24 << 26, before=2 * CONTEXT_BYTES["aarch64"])[:4560], "aarch64", "touched"),
        (x86(6), "riscv64", "touched"),
    ],
)
def test_a_read_and_a_write_are_told_apart_where_the_machine_does(context, machine, access):
    assert record(context=context).fault(machine) == RecordedFault(signal.SIGSEGV, BASE, access)


@pytest.mark.parametrize(
    ("number", "code", "fault"),
    [
        (0, 0, None),
        (signal.SIGSEGV, 0, None),
        (signal.SIGSEGV, -6, None),
        (signal.SIGFPE, 1, None),
        (signal.SIGSEGV, 0x80, RecordedFault(signal.SIGSEGV, None)),
        (signal.SIGBUS, 1, RecordedFault(signal.SIGBUS, None)),
        (signal.SIGBUS, 2, RecordedFault(signal.SIGBUS, BASE)),
    ],
)
def test_only_a_fault_is_one(number, code, fault):
    assert record(number, code).fault("other") == fault


def test_a_record_is_forgotten_and_keeps_the_bases():
    one = record()
    one.set_base("workspace", BASE)
    one.clear()
    assert one.fault() is None
    assert (one.base("tensors"), one.base("workspace")) == (0, BASE)


X, Y = place([BufferSpec("x", 100, 4, 4), BufferSpec("bytes", 10)], Side.BEHIND)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (BASE + X.end, "SIGSEGV, touched 4 bytes past the end of x"),
        (BASE + X.end + 3, "SIGSEGV, touched 4 bytes past the end of x"),
        (BASE + X.end + 4, "SIGSEGV, touched 8 bytes past the end of x"),
        (BASE + X.start - 1, "SIGSEGV, touched 4 bytes before the start of x"),
        (BASE + X.start - 4, "SIGSEGV, touched 4 bytes before the start of x"),
        (BASE + X.start - 5, "SIGSEGV, touched 8 bytes before the start of x"),
        (BASE + Y.end, "SIGSEGV, touched 1 byte past the end of bytes"),
        (BASE + Y.end + 1, "SIGSEGV, touched 2 bytes past the end of bytes"),
        (BASE + Y.start - 1, "SIGSEGV, touched 1 byte before the start of bytes"),
        (BASE + X.end + GAP_BYTES - 4, f"SIGSEGV, touched {GAP_BYTES} bytes past the end of x"),
        (
            BASE + Y.end + GAP_BYTES,
            f"SIGSEGV, touched at address {BASE + Y.end + GAP_BYTES:#x}, far from every buffer",
        ),
        (BASE + X.start + 8, "SIGSEGV, touched byte 8 of x"),
        (0, "SIGSEGV, touched at address 0x0, a null pointer"),
    ],
)
def test_an_address_is_told_by_the_nearest_buffer(address, words):
    assert format_reason((RecordedFault(signal.SIGSEGV, address).placed({BASE: (X, Y)}),)) == words
