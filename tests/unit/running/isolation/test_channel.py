"""Messages, descriptors and shared memory between processes; a broken other side is an error, never a hang."""

import os
import socket
import struct
import sys

import numpy as np
import pytest

from mluops_gtest.core.buffers import BufferSpec
from mluops_gtest.core.call import Handle, OpCall, TensorArg
from mluops_gtest.core.tensor import DType, Layout, TensorDesc
from mluops_gtest.running.workers.memory import SharedArena, SharedSlab, call_from, call_message, map_slab, view_of
from mluops_gtest.running.workers.protocol import Channel, ClosedError

linux = pytest.mark.skipif(sys.platform != "linux", reason="memfd is Linux's")


@pytest.fixture
def pair():
    left, right = Channel.pair()
    yield left, right
    left.close()
    right.close()


def test_messages_and_descriptors_arrive(pair):
    left, right = pair
    slab = SharedSlab(10)
    slab.bytes[:] = 7
    left.send({"a": [1, None, "x" * 100_000]}, (slab.fd,))
    message, fds = right.receive()
    assert message == {"a": [1, None, "x" * 100_000]}
    seen = map_slab(fds[0], 10)
    assert seen.tolist() == [7] * 10
    seen[3] = 9
    assert slab.bytes[3] == 9
    os.close(fds[0])
    slab.close()


@pytest.mark.parametrize(
    "garbage",
    [b"", b"\x01", struct.pack("<I", 5) + b"{", struct.pack("<I", 3) + b"[1]", struct.pack("<I", 2**31) + b"x"],
)
def test_a_broken_other_side_is_told(pair, garbage):
    left, right = pair
    left.socket.sendall(garbage)
    left.socket.shutdown(socket.SHUT_WR)
    with pytest.raises(ClosedError):
        right.receive()


def test_sending_to_nobody_is_told(pair):
    left, right = pair
    right.close()
    with pytest.raises(ClosedError):
        left.send({"a": "x" * 1_000_000})


def test_a_call_is_the_same_on_the_other_side():
    slab = np.zeros(256, np.uint8)
    values = slab[64:88].view("<f4").reshape(2, 3)
    values[...] = np.arange(6).reshape(2, 3)
    strided = TensorDesc(DType.INT32, Layout.NCHW, (2, 2), (3, 1))
    call = OpCall(
        "op",
        {"n": 3, "pad": (1, 2), "none": None},
        {
            "x": TensorArg(TensorDesc(DType.FLOAT, Layout.ARRAY, (2, 3)), values),
            "s": TensorArg(strided, strided.view(slab[128:148].view("<i4"))),
            "null": TensorArg(strided, None, null=True),
            "paper": TensorArg(TensorDesc(DType.HALF, Layout.ARRAY, (2**40,)), None),
            "absent": None,
        },
        {},
        Handle(270, 9),
        workspace=slab[200:210],
        workspace_size=10,
        device=4,
    )

    def place(array):
        return array.ctypes.data - slab.ctypes.data

    again = call_from(call_message(call, place, place), view_of(slab), view_of(slab))
    assert again.params == call.params
    assert again.inputs["x"].array.tolist() == values.tolist()
    assert np.shares_memory(again.inputs["x"].array, values)
    there = ("x", "s", "null", "paper")
    assert [again.inputs[n].desc for n in there] == [call.inputs[n].desc for n in there]
    assert again.inputs["null"].null
    assert not again.inputs["paper"].null
    assert again.inputs["absent"] is None
    assert (again.handle, again.workspace_size, again.workspace.size, again.device) == (Handle(270, 9), 10, 10, 4)


@linux
@pytest.mark.parametrize("size", [0, 4096 * 4, 1])
def test_nobody_resizes_a_slab(size):
    slab = SharedSlab(4096)
    with pytest.raises(PermissionError):
        os.ftruncate(slab.fd, size)
    slab.close()


@linux
def test_a_slab_has_no_name_that_could_be_left_behind():
    slab = SharedSlab(100)
    assert os.readlink(f"/proc/self/fd/{slab.fd}").startswith("/memfd:")
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
