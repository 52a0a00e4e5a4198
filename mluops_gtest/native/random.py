"""Random lanes and lattice values drawn by the C library on the caller's thread; False: use numpy."""

import ctypes
from functools import cache
from typing import Any, Final

import numpy.typing as npt

from mluops_gtest.native.addresses import address_of
from mluops_gtest.native.library import native_library

_Array = npt.NDArray[Any]


class _Functions:
    def __init__(self, library: ctypes.CDLL) -> None:
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self.lanes, self.lattice = library.mluops_lanes, library.mluops_lattice
        self.lanes.argtypes = [pointer, ctypes.c_uint64, number, pointer]
        self.lattice.argtypes = [pointer, ctypes.c_uint64, number, ctypes.c_uint64, ctypes.c_float, pointer]
        self.lanes.restype = self.lattice.restype = None


_functions: Final = cache(_Functions)


def fill_lanes(key: _Array, start: int, out: _Array) -> bool:
    """Write the uint32 lanes from lane `start` on of the stream with this key of two words."""
    library = native_library()
    if library is None:
        return False
    _functions(library).lanes(address_of(key), start, len(out), address_of(out))
    return True


def fill_lattice(key: _Array, start: int, bits: int, scale: float, out: _Array) -> bool:
    """Write the float32 lattice values of the lanes from `start`, a multiple of 8, on."""
    library = native_library()
    if library is None:
        return False
    _functions(library).lattice(address_of(key), start, len(out), (1 << bits) - 1, scale, address_of(out))
    return True
