"""Guard zones see every stray byte, patterns see every unwritten element."""

import ctypes

import numpy as np
import pytest

from mluops_gtest.core import buffers
from mluops_gtest.core.buffers import (
    GUARD_BYTES,
    TAIL_BYTES,
    Arena,
    BufferSpec,
    fill,
    pattern_of,
    places_holding,
    places_touched,
)
from mluops_gtest.core.cause import Overrun, format_reason
from mluops_gtest.core.tensor import DType


@pytest.mark.parametrize("size", [0, 1, 7, 64, 1000, 100_000])
def test_buffers_are_aligned_apart_and_intact(size):
    arena = Arena()
    for _ in range(3):
        buffers = list(arena.allocate([BufferSpec("a", size), BufferSpec("b", 5), BufferSpec("c", size)]).values())
        for value, buffer in enumerate(buffers):
            assert buffer.data.size == 0 or buffer.data.ctypes.data % 64 == 0
            buffer.data[:] = value
        assert [buffer.overrun("x") for buffer in buffers] == [None] * 3
        assert [set(buffer.data.tolist()) <= {value} for value, buffer in enumerate(buffers)] == [True] * 3


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (13, "wrote past the end of x, first at byte 1 behind it"),
        (14, "wrote past the end of x, first at byte 2 behind it"),
        (13 + GUARD_BYTES - 1, "wrote past the end of x, first at byte 1024 behind it"),
        (-1, "wrote before the start of x, first at byte 1 in front of it"),
        (-GUARD_BYTES, "wrote before the start of x, first at byte 1024 in front of it"),
    ],
)
def test_one_stray_byte_is_seen_and_located(offset, words):
    buffer = Arena().allocate([BufferSpec("x", 13)])["x"]
    ctypes.memset(buffer.data.ctypes.data + offset, 0, 1)
    assert format_reason((buffer.overrun("x"),)) == words


def test_no_byte_between_two_buffers_goes_unseen():
    buffers = Arena().allocate([BufferSpec("x", 13), BufferSpec("y", 13)])
    start = buffers["x"].data.ctypes.data + 13
    for address in range(start, buffers["y"].data.ctypes.data):
        ctypes.memset(address, 0, 1)
        assert [buffer.overrun(name) for name, buffer in buffers.items()] != [None, None], address - start
        for buffer in buffers.values():
            buffer.guard()


def test_what_an_earlier_case_left_behind_the_last_buffer_is_looked_at():
    arena = Arena()
    arena.allocate([BufferSpec("x", 10_000_000)])["x"].data[:] = 1
    buffers = arena.allocate([BufferSpec("x", 8), BufferSpec("y", 8)])
    assert [buffer.overrun(name) for name, buffer in buffers.items()] == [None, None]
    ctypes.memset(buffers["y"].data.ctypes.data + 8 + TAIL_BYTES, 0, 1)
    assert buffers["y"].overrun("y") == Overrun("y", "behind", TAIL_BYTES + 1)


@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize("preset", [None, -1])
def test_patterns_fill_and_are_found_again(dtype, preset):
    if preset is not None and (not dtype.is_integer or dtype.storage.kind == "u"):
        preset = 1
    data = np.zeros(7 * dtype.itemsize, np.uint8)
    pattern = pattern_of(dtype, preset)
    fill(data, pattern)
    values = data.view(dtype.storage)
    assert places_holding(values, pattern).size == 7
    data[3 * dtype.itemsize] ^= 1
    assert places_touched(values, pattern).tolist() == [3]


def test_poison_is_the_documented_pattern():
    assert pattern_of(DType.FLOAT, None)[0] == 0x7FA5A5A5
    assert pattern_of(DType.HALF, None)[0] == 0x7EA5
    assert pattern_of(DType.INT32, None)[0] == 0xA5A5A5A5


def test_a_difference_that_is_gone_at_the_second_look_is_none(monkeypatch):
    """Somebody may be writing: the quick look says that something differs, and by then it does not."""
    (buffer,) = buffers.Arena().allocate([buffers.BufferSpec("y", 64)]).values()
    monkeypatch.setattr(buffers, "_GUARDED", b"")
    assert buffer.overrun("y") is None
