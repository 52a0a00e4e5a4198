"""Memory: outside of buffers, too much of it, and the shared segments themselves."""

import ctypes
import mmap
import os
import resource
from pathlib import Path

import numpy as np

from tests.campaign.faults import fault, faults


def _address(array) -> int:
    return array.__array_interface__["data"][0]


def _shared_files() -> list[int]:
    found = []
    for fd in Path("/proc/self/fd").iterdir():
        try:
            if "memfd" in os.readlink(fd):
                found.append(int(fd.name))
        except OSError:
            continue
    return found


def _shared_maps() -> list[str]:
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if "memfd" in line]


@fault("memory", "memory")
def writes_one_byte_behind_an_output(call):
    y = call.array("y")
    ctypes.memset(_address(y) + y.nbytes, 1, 1)


@fault("memory", "memory")
def writes_one_byte_before_an_output(call):
    ctypes.memset(_address(call.array("y")) - 1, 1, 1)


@fault("memory", "memory")
def writes_behind_an_input(call):
    x = call.array("x")
    ctypes.memset(_address(x) + x.nbytes + 16, 0, 64)


@fault("memory", "memory", "crashed", "failed")
def writes_a_megabyte_behind_an_output(call):
    y = call.array("y")
    ctypes.memset(_address(y) + y.nbytes, 0, 1 << 20)


@fault("memory", "memory", "crashed", "failed")
def writes_over_everything_that_is_shared(call):
    for line in _shared_maps():
        low, high = (int(part, 16) for part in line.split()[0].split("-"))
        if "w" in line.split()[1]:
            ctypes.memset(low, 0, high - low)


@fault("memory", "memory", "error", "crashed")
def writes_into_an_input(call):
    x = call.array("x")
    ctypes.memset(_address(x), 7, 4)


@fault("memory", "passed", "crashed", "error")
def truncates_the_shared_files(call):
    for fd in _shared_files():
        os.ftruncate(fd, 0)


@fault("memory", "passed", "crashed", "error")
def truncates_the_shared_files_by_their_maps(call):
    for line in _shared_maps():
        fd = os.open(f"/proc/self/map_files/{line.split()[0]}", os.O_RDWR)
        os.ftruncate(fd, 0)


@fault("memory", "passed", "crashed", "error")
def grows_the_shared_files(call):
    for fd in _shared_files():
        os.ftruncate(fd, 1 << 40)


@fault("memory", "crashed", "memory", "failed")
def unmaps_the_tensors(call):
    for line in _shared_maps():
        low, high = (int(part, 16) for part in line.split()[0].split("-"))
        ctypes.CDLL(None).munmap(ctypes.c_void_p(low), ctypes.c_size_t(high - low))
    call.array("y")[...] = 0


faults(
    "memory",
    "crashed",
    allocates_too_much=lambda call: bytearray(3 << 30),
    allocates_an_absurd_amount=lambda call: np.zeros(1 << 45, np.uint8),
)


@fault("memory", "crashed", slow=True)
def allocates_in_small_pieces(call):
    kept = []
    while True:
        kept.append(bytearray(16 << 20))


@fault("memory", "crashed", "passed", "error")
def raises_its_memory_limit(call):
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    mmap.mmap(-1, 1 << 30).close()


@fault("memory", "passed", "crashed")
def leaks_memory(call):
    ctypes.CDLL(None).malloc.restype = ctypes.c_void_p
    ctypes.CDLL(None).malloc(ctypes.c_size_t(64 << 20))


@fault("memory", "passed", "crashed", "error", unseen=True)
def corrupts_the_heap(call):
    """The C library notices it when it uses these places again, if ever."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    place = libc.malloc(ctypes.c_size_t(24))
    ctypes.memset(place, 0x41, 64)
    libc.free(place)


@fault("memory", "crashed")
def frees_twice(call):
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    place = libc.malloc(ctypes.c_size_t(1 << 20))
    libc.free(place)
    libc.free(place)
    place = libc.malloc(ctypes.c_size_t(24))
    libc.free(place)
    libc.free(place)
