"""Rows that lie anywhere, summed by the C library on the caller's thread; None: use numpy."""

import ctypes
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mluops_gtest.native.addresses import address_of
from mluops_gtest.native.library import native_library

_Array = npt.NDArray[Any]


class _Functions:
    def __init__(self, library: ctypes.CDLL) -> None:
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self.sum_rows = library.mluops_sum_rows
        self.sum_rows.argtypes = [pointer, number, pointer, pointer, pointer, number, ctypes.c_int, pointer]
        self.sum_rows.restype = None


_functions: Final = cache(_Functions)


class RowAdder:
    """Sums of rows that lie anywhere."""

    def __init__(self, functions: _Functions) -> None:
        self._functions = functions

    def __call__(
        self, rows: _Array, order: _Array, starts: _Array, counts: _Array, *, absolute: bool = False
    ) -> _Array:
        """float64 [S, W]: sum s adds the float32 rows order[starts[s]], …, counts[s] of them, or |…|, in that order."""
        sums = np.empty((len(counts), rows.shape[1]), np.float64)
        values = np.ascontiguousarray(rows, np.float32)
        indices = [np.ascontiguousarray(array, np.int64) for array in (order, starts, counts)]
        self._functions.sum_rows(
            *(address_of(values), values.shape[1]),
            *(*map(address_of, indices), len(counts)),
            *(int(absolute), address_of(sums)),
        )
        return sums


def row_adder() -> RowAdder | None:
    """What adds float32 rows into float64 sums in C; None without the native core. Ask before threads are started."""
    library = native_library()
    return None if library is None else RowAdder(_functions(library))
