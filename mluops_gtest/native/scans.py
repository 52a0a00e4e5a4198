"""Bytes that must be as they were, looked through by the C library at the speed of memory; None: use numpy."""

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
        self.first_difference, self.count_holding = library.mluops_first_difference, library.mluops_count_holding
        self.first_difference.argtypes = [pointer, pointer, number]
        self.count_holding.argtypes = [pointer, number, pointer, ctypes.c_int]
        self.first_difference.restype = self.count_holding.restype = number


_functions: Final = cache(_Functions)


def native_first_difference(left: _Array, right: _Array) -> int | None:
    """The offset of the first byte that differs between two contiguous arrays of one size; −1 where none does."""
    library = native_library()
    if library is None:
        return None
    return int(_functions(library).first_difference(address_of(left), address_of(right), left.nbytes))


def native_count_holding(cells: _Array, pattern: _Array) -> int | None:
    """How many cells of a contiguous array have the bits of the one in `pattern`."""
    library = native_library()
    if library is None:
        return None
    size = pattern.itemsize
    return int(_functions(library).count_holding(address_of(cells), cells.nbytes // size, address_of(pattern), size))
