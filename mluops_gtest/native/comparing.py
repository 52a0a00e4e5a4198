"""Two arrays compared by the C library, cell by cell, on the caller's thread and without the interpreter's lock."""

import ctypes
import math
from functools import cache
from struct import Struct
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from mluops_gtest.native.addresses import address_of
from mluops_gtest.native.library import native_library

_Array = npt.NDArray[Any]

# As in enum kind of native.h; any other type becomes float64.
_LIMIT_KINDS: Final = {np.dtype(np.float32): 2, np.dtype(np.float64): 3, np.dtype(np.int64): 10}


class _Spread(ctypes.Structure):
    _fields_: ClassVar = [("numbers", ctypes.c_void_p), ("kind", ctypes.c_int64), ("repeat", ctypes.c_int64)]


class _Limits(ctypes.Structure):
    """struct bound of native.h."""

    _fields_: ClassVar = [
        *((name, _Spread) for name in ("magnitude", "roundings", "unit")),
        *((name, ctypes.c_double) for name in ("roundoff", "blocks_from", "loss", "tiny", "behind")),
        *((name, ctypes.c_double) for name in ("behind_underflow", "sums", "results", "smallest_unit")),
        *((name, ctypes.c_int64) for name in ("smallest", "significant", "rounds_twice")),
    ]


class NativeLimits:
    """The bound of every element of an output of that shape: three numbers that broadcast to it, and constants."""

    def __init__(
        self, shape: tuple[int, ...], magnitude: Any, roundings: Any, unit: Any, **constants: float | int
    ) -> None:
        # Kept: the addresses in the structure are theirs.
        self.arrays = [_laid_out(values, shape) for values in (magnitude, roundings, unit)]
        spreads = (_Spread(address_of(array), _LIMIT_KINDS[array.dtype], repeat) for array, repeat in self.arrays)
        self.structure = _Limits(*spreads, **constants)


def _laid_out(values: Any, shape: tuple[int, ...]) -> tuple[_Array, int]:
    """A flat array, and how many elements of the output share each of its numbers."""
    given = np.asarray(values)
    whole = np.broadcast_to(given if given.dtype in _LIMIT_KINDS else given.astype(np.float64), shape)
    axes = len(shape)
    while axes and (whole.strides[axes - 1] == 0 or shape[axes - 1] == 1):
        axes -= 1
    own = whole[(slice(None),) * axes + (0,) * (len(shape) - axes)]
    return np.ascontiguousarray(own).reshape(-1), math.prod(shape[axes:])


# Parts of one cell: sums are kept for each, so that they do not depend on how an array is cut into shares.
LANES: Final = 256
ROWS: Final = 128
CELL: Final = LANES * ROWS

# By what numpy calls it; the order is that of enum kind in native.h. bfloat16 has no numpy type.
_NAMES: Final = ("f2", "bfloat16", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
_KINDS: Final = {name: number for number, name in enumerate(_NAMES)}
_SIZES: Final = tuple(2 if name == "bfloat16" else int(name[1:]) for name in _NAMES)

# What one share says, the fields of struct figures in native.h; places count parts from the beginning of the arrays.
ShareFigures = tuple[Any, ...]
# struct figures and struct pair of native.h, packed at once, where a ctypes.Structure takes its fields one by one.
_FIGURES: Final = Struct("7q3dqQ4q2d")
_PAIR: Final = Struct("2P3qdP")
# struct one_cell: what is given, then what is found, and the sums of one cell.
_CELL_FOUND: Final = Struct(f"{_FIGURES.format}4d")
_Cell: Final = ctypes.c_char * (_PAIR.size + _CELL_FOUND.size + 8)
_Room: Final = ctypes.c_char * _FIGURES.size


class _Functions:
    def __init__(self, library: ctypes.CDLL) -> None:
        pointer = ctypes.c_void_p
        self.compare, self.weigh, self.beyond = library.mluops_compare, library.mluops_weigh, library.mluops_beyond
        self.first_difference = library.mluops_first_difference
        self.first_difference.argtypes, self.first_difference.restype = (
            [pointer, pointer, ctypes.c_int64],
            ctypes.c_int64,
        )
        self.compare.argtypes = [ctypes.c_int, pointer, pointer, pointer, pointer]
        self.compare_cell = library.mluops_compare_cell
        self.compare_cell.argtypes = [ctypes.c_int, pointer]
        self.compare.restype = self.compare_cell.restype = None
        self.weigh.argtypes = [ctypes.c_int, pointer, pointer, pointer]
        self.weigh.restype = ctypes.c_int64
        self.beyond.argtypes = [ctypes.c_int, pointer, ctypes.c_double, ctypes.c_double]
        self.beyond.restype = ctypes.c_int64


_functions: Final = cache(_Functions)


class NativePair:
    """Two contiguous arrays of one type seen as parts, and the sums of their cells."""

    def __init__(
        self, functions: _Functions, kind: int, evaluated: _Array, baseline: _Array, parts: int, small: float | None
    ) -> None:
        # Kept: the addresses below are theirs.
        self._arrays = evaluated, baseline
        self._functions, self._kind = functions, kind
        self._part_size = _SIZES[kind]
        self.count = baseline.nbytes // self._part_size
        self.cells = -(-self.count // CELL)
        self._parts, self._small = parts, 0.0 if small is None else small
        self._addresses = address_of(evaluated), address_of(baseline)
        self._sums = (ctypes.c_double * (4 * self.cells))()
        # Cells whose bits are the same on both sides: their sums are zeros until they are weighed.
        self._equal = (ctypes.c_char * self.cells)()
        self._limits: NativeLimits | None = None

    def differs(self, first: int, cells: int) -> bool:
        """Some bit of these cells does."""
        start = first * CELL * self._part_size
        size = min(cells * CELL * self._part_size, self.count * self._part_size - start)
        evaluated, baseline = self._addresses
        return bool(self._functions.first_difference(evaluated + start, baseline + start, size) >= 0)

    def hold_to(self, limits: NativeLimits) -> None:
        """Let `figures` say, too, which elements are beyond these; for floating-point types of one part."""
        self._limits = limits

    def figures(self, first: int, cells: int) -> ShareFigures:
        """Compare these cells, and keep their sums."""
        found = _Room()
        self._functions.compare(self._kind, self._pair(first, cells), found, *self._kept(first))
        return _FIGURES.unpack(found)

    def weigh(self, first: int, cells: int, *, all_cells: bool = False) -> int:
        """Fill in the weights of those of these cells that are equal, or of all; how many of their parts are finite."""
        if all_cells:
            ctypes.memset(ctypes.addressof(self._equal) + first, 1, cells)
        return int(self._functions.weigh(self._kind, self._pair(first, cells), *self._kept(first)))

    def beyond(self, first: int, cells: int, threshold: float, scale: float) -> int:
        """Elements of these cells with |e−b| > threshold · max(|b|, scale)."""
        return int(self._functions.beyond(self._kind, self._pair(first, cells), threshold, scale))

    @property
    def has_equal_cells(self) -> bool:
        """Some are not weighed yet."""
        return b"\1" in self._equal.raw

    def sums(self) -> list[list[float]]:
        """Σ|e−b|, Σ(e−b)², Σ|b| and Σb² of every cell."""
        numbers = self._sums[:]
        return [numbers[which::4] for which in range(4)]

    def _pair(self, first: int, cells: int) -> bytes:
        start = first * CELL
        offset = start * self._part_size
        evaluated, baseline = self._addresses
        count = min(cells * CELL, self.count - start)
        limits = 0 if self._limits is None else ctypes.addressof(self._limits.structure)
        return _PAIR.pack(evaluated + offset, baseline + offset, start, count, self._parts, self._small, limits)

    def _kept(self, first: int) -> tuple[int, int]:
        """Where the sums of the cells from that one on are, and their marks of equality."""
        return ctypes.addressof(self._sums) + 32 * first, ctypes.addressof(self._equal) + first


def cell_figures(
    evaluated: _Array, baseline: _Array, part: str, *, parts: int = 1, small: float | None = None
) -> tuple[ShareFigures, tuple[float, ...]] | None:
    """What unequal arrays of at most one cell say, and Σ|e−b|, Σ(e−b)², Σ|b| and Σb²; None as for `native_pair`."""
    library = native_library()
    if library is None:
        return None
    evaluated, baseline = np.ascontiguousarray(evaluated), np.ascontiguousarray(baseline)
    kind, cell = _KINDS[part], _Cell()
    count, addresses = baseline.nbytes // _SIZES[kind], (address_of(evaluated), address_of(baseline))
    _PAIR.pack_into(cell, 0, *addresses, 0, count, parts, small or 0.0, 0)
    _functions(library).compare_cell(kind, cell)
    found = _CELL_FOUND.unpack_from(cell, _PAIR.size)
    return found[:-4], found[-4:]


def native_pair(
    evaluated: _Array, baseline: _Array, part: str, *, parts: int = 1, small: float | None = None
) -> NativePair | None:
    """The arrays for the C library, or None where numpy must compare them.

    `part` is "bfloat16" or the numpy type of a part ("f4"), of which `parts` make an element.
    """
    library = native_library()
    if library is None:
        return None
    contiguous = np.ascontiguousarray(evaluated), np.ascontiguousarray(baseline)
    return NativePair(_functions(library), _KINDS[part], *contiguous, parts, small)
