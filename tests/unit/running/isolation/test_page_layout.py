"""Buffers end flush with their pages or begin with them, and nobody shares a page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.core.buffers import BufferSpec, Side
from mluops_gtest.core.cause import Overrun
from mluops_gtest.running.workers.memory import GAP_BYTES, PAGE_BYTES, PagedArena, file_bytes, place, reserved_bytes

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
