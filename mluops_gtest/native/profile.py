"""Where and how much two float32 arrays differ, counted by the C library on the caller's thread; False: use numpy."""

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
        self.profile = library.mluops_profile
        numbers = (number, number, number)
        self.profile.argtypes = [
            *(pointer, pointer, *numbers, pointer, pointer),
            *(number, number, ctypes.c_double, pointer, pointer),
        ]
        self.profile.restype = None


_functions: Final = cache(_Functions)


def native_profile(
    evaluated: _Array,
    baseline: _Array,
    start: int,
    lines: tuple[_Array, _Array],
    lowest: int,
    epsilon: float,
    counts: _Array,
    cells: _Array,
) -> bool:
    """Add two contiguous float32 arrays, part of larger ones from `start` on, to `counts` and `cells`.

    `lines` are int64: the first cell of each line of the map, and the cell of each place within a line.
    """
    library = native_library()
    if library is None:
        return False
    down, across = lines
    _functions(library).profile(
        *(address_of(evaluated), address_of(baseline), start, evaluated.size, len(across)),
        *(address_of(down), address_of(across), len(counts), lowest, epsilon, address_of(counts), address_of(cells)),
    )
    return True
