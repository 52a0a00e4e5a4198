"""Buffers end flush with their pages or begin with them; the bytes of a fault in words, on every machine that tells."""

import signal
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.core.buffers import BufferSpec, Side
from mluops_gtest.core.cause import Overrun, format_reason
from mluops_gtest.running.workers.memory import (
    CONTEXT_BYTES,
    CONTEXT_OFFSET,
    GAP_BYTES,
    INFO_OFFSET,
    PAGE_BYTES,
    RECORD_BYTES,
    FaultRecord,
    PagedArena,
    RecordedFault,
    file_bytes,
    place,
    reserved_bytes,
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


@pytest.mark.parametrize(("machine", "offset"), [("x86_64", 168), ("aarch64", 440)])
def test_the_instruction_is_recorded_where_the_machine_is_known(machine, offset):
    context = b"\0" * offset + struct.pack("<Q", BASE + 7)
    assert record(context=context).fault(machine).instruction == BASE + 7
    assert record(context=context).fault("riscv64").instruction == 0


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
        (BASE + Y.end + GAP_BYTES, f"SIGSEGV, touched at address {BASE + Y.end + GAP_BYTES:#x}, far from every buffer"),
        (BASE + X.start + 8, "SIGSEGV, touched byte 8 of x"),
        (0, "SIGSEGV, touched at address 0x0, a null pointer"),
    ],
)
def test_an_address_is_told_by_the_nearest_buffer(address, words):
    assert format_reason((RecordedFault(signal.SIGSEGV, address).placed({BASE: (X, Y)}, ()),)) == words


SIZES = st.lists(st.integers(0, 3 * PAGE_BYTES // 4).map(lambda n: 4 * n), max_size=6)


@given(SIZES, st.sampled_from(Side))
def test_every_buffer_lies_flush_in_pages_of_its_own(sizes, side):
    placed = place([BufferSpec(str(i), size, 4, 4) for i, size in enumerate(sizes)], side)
    assert [one.size for one in placed] == sizes
    for before, one in zip((None, *placed), placed, strict=False):
        assert one.pages % PAGE_BYTES == one.file_offset % PAGE_BYTES == one.space_offset % PAGE_BYTES == 0
        assert one.pages - one.size in range(PAGE_BYTES)
        assert one.end == one.space_offset + one.pages if side is Side.BEHIND else one.start == one.space_offset
        if before is not None:
            assert one.file_offset == before.file_offset + before.pages
            assert one.space_offset - (before.space_offset + before.pages) == 2 * GAP_BYTES
    if placed:
        assert placed[0].space_offset >= GAP_BYTES
        assert reserved_bytes(placed) - (placed[-1].space_offset + placed[-1].pages) >= GAP_BYTES
        assert file_bytes(placed) == placed[-1].file_offset + placed[-1].pages


def test_at_least_64_mib_are_inaccessible():
    assert GAP_BYTES >= 64 << 20


@pytest.mark.parametrize(("size", "slack"), [(100, 12), (96, 0), (1, 15), (16, 0)])
def test_a_workspace_keeps_its_alignment(size, slack):
    (one,) = place([BufferSpec("workspace", size, alignment=16)], Side.BEHIND)
    assert one.start % 16 == 0
    assert one.space_offset + one.pages - one.end == slack


@pytest.mark.parametrize("side", Side)
def test_what_is_left_of_the_pages_is_a_guard_zone(side):
    arena = PagedArena()
    try:
        for _ in range(2):
            buffers = arena.allocate(
                [BufferSpec("x", 100, 4, 4), BufferSpec("none", 0), BufferSpec("y", PAGE_BYTES, 4, 4)], side
            )
            zone = buffers["x"].before if side is Side.BEHIND else buffers["x"].after
            assert zone.size == PAGE_BYTES - 100
            assert [buffer.overrun(name) for name, buffer in buffers.items()] == [None] * 3
            zone[-1 if side is Side.BEHIND else 0] = 0
            assert buffers["x"].overrun("x") == Overrun("x", "in front" if side is Side.BEHIND else "behind", 1)
            for buffer in buffers.values():
                buffer.data[:] = 0
    finally:
        arena.close()
