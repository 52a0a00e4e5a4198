import os
import sys

import numpy as np
import pytest

from mluops_gtest.core.buffers import BufferSpec
from mluops_gtest.running.workers.memory import SharedArena, SharedSlab, map_slab


@pytest.mark.skipif(sys.platform != "linux", reason="memfd is Linux's")
@pytest.mark.parametrize("size", [0, 4096 * 4, 1])
def test_nobody_resizes_a_slab(size):
    slab = SharedSlab(4096)
    with pytest.raises(PermissionError):
        os.ftruncate(slab.fd, size)
    slab.close()


@pytest.mark.skipif(sys.platform != "linux", reason="memfd is Linux's")
def test_a_slab_has_no_name_that_could_be_left_behind():
    slab = SharedSlab(100)
    assert os.readlink(f"/proc/self/fd/{slab.fd}").startswith("/memfd:")
    slab.close()


def test_both_sides_see_the_same_bytes():
    slab = SharedSlab(100)
    map_slab(slab.fd, 100)[:] = 7
    assert (slab.bytes == 7).all()
    slab.close()


def test_a_retired_slab_serves_the_case_it_has_and_no_other():
    arena = SharedArena()
    first = arena.allocate([BufferSpec("a", 64)])["a"]
    before = arena.shared
    old = map_slab(before.fd, before.size)
    arena.retire()
    assert arena.shared is before
    assert arena.offset_of(first.data) > 0
    second = arena.allocate([BufferSpec("a", 64)])["a"]
    second.data[:] = 1
    old[:] = 9
    assert arena.shared is not before
    assert np.unique(second.data).tolist() == [1]
    assert np.unique(first.data).tolist() == [9]
    arena.allocate([BufferSpec("a", 64)])
    kept = arena.shared
    arena.allocate([BufferSpec("a", 32)])
    assert arena.shared is kept
    arena.close()
