"""What each element may be off by, laid out for the C library: numbers that runs of elements share, and constants."""

import ctypes
import math
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from mluops_gtest.native.addresses import address_of

_Array = npt.NDArray[Any]

# As in enum kind of native.h; any other type becomes float64.
_KINDS: Final = {np.dtype(np.float32): 2, np.dtype(np.float64): 3, np.dtype(np.int64): 10}


class _Spread(ctypes.Structure):
    _fields_: ClassVar = [("numbers", ctypes.c_void_p), ("kind", ctypes.c_int64), ("repeat", ctypes.c_int64)]


class _Limits(ctypes.Structure):
    """struct bound of native.h."""

    _fields_: ClassVar = [
        *((name, _Spread) for name in ("magnitude", "roundings", "unit")),
        *((name, ctypes.c_double) for name in ("roundoff", "loss", "tiny", "behind", "behind_underflow")),
        *((name, ctypes.c_double) for name in ("sums", "results", "smallest_unit")),
        *((name, ctypes.c_int64) for name in ("smallest", "significant", "rounds_twice")),
    ]


class NativeLimits:
    """The bound of every element of an output of that shape: three numbers that broadcast to it, and constants."""

    def __init__(
        self, shape: tuple[int, ...], magnitude: Any, roundings: Any, unit: Any, **constants: float | int
    ) -> None:
        # Kept: the addresses in the structure are theirs.
        self.arrays = [_laid_out(values, shape) for values in (magnitude, roundings, unit)]
        spreads = (_Spread(address_of(array), _KINDS[array.dtype], repeat) for array, repeat in self.arrays)
        self.structure = _Limits(*spreads, **constants)


def _laid_out(values: Any, shape: tuple[int, ...]) -> tuple[_Array, int]:
    """A flat array, and how many elements of the output share each of its numbers."""
    given = np.asarray(values)
    whole = np.broadcast_to(given if given.dtype in _KINDS else given.astype(np.float64), shape)
    axes = len(shape)
    while axes and (whole.strides[axes - 1] == 0 or shape[axes - 1] == 1):
        axes -= 1
    own = whole[(slice(None),) * axes + (0,) * (len(shape) - axes)]
    return np.ascontiguousarray(own).reshape(-1), math.prod(shape[axes:])
