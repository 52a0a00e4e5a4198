"""An output seen through a coarse map: the last axis across, all others down, what is long and thin folded.

Where and how much an output differs: a histogram of relative errors and a coarse map of the largest ones.
"""

import ctypes
import math
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mluops_gtest.base.native.arrays import address_of
from mluops_gtest.base.native.library import native_library
from mluops_gtest.core.explanation import MAX_CELLS
from mluops_gtest.core.result import Profile
from mluops_gtest.core.tensor import Array, DType
from mluops_gtest.judging.blocks import Blocks, Elements, Scratch, elements_of
from mluops_gtest.judging.figures import EPSILON

# Fewer cells than this along one axis say little, where the other axis has more elements than cells.
_THIN: Final = 8


class Picture(NamedTuple):
    """The output as height × width elements, seen through rows × columns cells."""

    height: int
    width: int
    rows: int
    columns: int

    @staticmethod
    def over(shape: tuple[int, ...], most: tuple[int, int] = (MAX_CELLS, MAX_CELLS)) -> "Picture":
        """In at most so many rows and columns of cells."""
        width = folded_width(shape, most) or (shape[-1] if shape else 1)
        height = -(-math.prod(shape) // width)
        return Picture(height, width, min(height, most[0]), min(width, most[1]))

    def cell_of(self, element: Array) -> Array:
        """The cell of each flat index."""
        down = element // self.width
        across = element - down * self.width
        # In place: fresh memory for each step would cost more than the arithmetic.
        for axis, cells, length in ((down, self.rows, self.height), (across, self.columns, self.width)):
            np.floor_divide(np.multiply(axis, cells, out=axis), length, out=axis)
        cell: Array = np.add(np.multiply(down, self.columns, out=down), across, out=down)
        return cell

    @property
    def lines(self) -> tuple[Array, Array]:
        """The same as two tables: the first cell of each line of elements, and the cell of each place within one."""
        down, across = np.arange(self.height), np.arange(self.width)
        return down * self.rows // self.height * self.columns, across * self.columns // self.width

    @property
    def sizes(self) -> Array:
        """How many elements each cell has; in a folded map the last one has room for more than there are."""
        down = np.bincount(np.arange(self.height) * self.rows // self.height, minlength=self.rows)
        across = np.bincount(np.arange(self.width) * self.columns // self.width, minlength=self.columns)
        return np.outer(down, across).reshape(-1)


def folded_width(shape: tuple[int, ...], most: tuple[int, int] = (MAX_CELLS, MAX_CELLS)) -> int:
    """Elements across the folded map of a long and thin output, whole rows where they are short; else 0."""
    width, count = (shape[-1] if shape else 1), math.prod(shape)
    height = count // width if width else 0
    if min(height, width) >= _THIN or (height <= most[0] and width <= most[1]):
        return 0
    side = math.isqrt(count - 1) + 1
    return side if height < width else max(1, side // width) * width


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


BINS: Final = 32
# The binary exponent that falls into bin 0, with everything below it.
LOWEST: Final = -30
# Enough for a colour and a tooltip; a map of full doubles would be twice as large in the report.
_DIGITS: Final = 4
# Float types that float32 holds exactly.
_NARROW: Final = (np.dtype(np.float32), np.dtype(np.float16))


class _Part(NamedTuple):
    """What one block adds."""

    counts: Array
    cells: Array


def profile_of(
    output: str,
    evaluated: Array,
    baseline: Array,
    dtype: DType,
    most: tuple[int, int] = (MAX_CELLS, MAX_CELLS),
) -> Profile | None:
    """The profile of an output of equal shape to its baseline, in at most so many rows and columns of cells.

    None where no element differs.

    The error of an element is |e−b|/(|b|+1e-9), of a complex one that of its worse part; NaN or an infinity that does
    not meet its like is infinitely wrong.
    """
    elements = elements_of(dtype)
    blocks = Blocks(np.ascontiguousarray(evaluated), np.ascontiguousarray(baseline), elements)
    picture = Picture.over(evaluated.shape, most)
    lines = picture.lines
    parts = blocks.each(lambda start, scratch: _part(blocks, start, scratch, picture, lines), blocks.starts)
    differing = [part for part in parts if part is not None]
    if not differing:
        return None
    counts = np.sum([part.counts for part in differing], axis=0)
    cells = np.max([part.cells for part in differing], axis=0)
    return Profile(
        output,
        tuple(counts.tolist()),
        picture.rows,
        picture.columns,
        tuple(float(f"{cell:.{_DIGITS}g}") for cell in cells.tolist()),
        folded_width(evaluated.shape, most),
    )


def _part(blocks: Blocks, start: int, scratch: Scratch, picture: Picture, lines: tuple[Array, Array]) -> _Part | None:
    elements = blocks.elements
    if not np.not_equal(*blocks.patterns(start), out=scratch.mask).any():
        return None
    e, b = blocks.numbers(start)
    if elements.parts == 1 and e.dtype in _NARROW:
        e, b = e.astype(np.float32, copy=False), b.astype(np.float32, copy=False)
        counts, cells = np.zeros(BINS, np.int64), np.zeros(picture.rows * picture.columns)
        if native_profile(e, b, start, lines, LOWEST, EPSILON, counts, cells):
            return _Part(counts, cells) if counts.any() else None
    places = np.flatnonzero((e != b) & ~(np.isnan(e) & np.isnan(b)))
    if not places.size:
        return None
    errors = _errors(e[places], b[places], elements)
    where = (places + start) // elements.parts
    if elements.parts > 1:
        where, first = np.unique(where, return_index=True)
        errors = np.maximum.reduceat(errors, first)
    cells = np.zeros(picture.rows * picture.columns)
    np.maximum.at(cells, picture.cell_of(where), errors)
    return _Part(np.bincount(_bins(errors), minlength=BINS), cells)


def _errors(e: Array, b: Array, elements: Elements) -> Array:
    """Relative errors in float64."""
    if elements.wide:
        # Unsigned subtraction wraps to the true distance, which may need all 64 bits.
        distance = (np.maximum(e, b).view(np.uint64) - np.minimum(e, b).view(np.uint64)).astype(np.float64)
        magnitude = np.abs(b.astype(np.float64))
    else:
        magnitude = b.astype(np.float64)
        distance = e.astype(np.float64)
        np.abs(np.subtract(distance, magnitude, out=distance), out=distance)
        np.abs(magnitude, out=magnitude)
    finite = np.isfinite(distance) & np.isfinite(magnitude)
    errors: Array = np.divide(distance, np.add(magnitude, EPSILON, out=magnitude), out=distance)
    # A baseline of Inf gives NaN or 0; neither says how wrong a finite number is there.
    errors[~finite] = np.inf
    return errors


def _bins(errors: Array) -> Array:
    # frexp: error = m · 2^x with 0.5 ≤ m < 1.
    exponents = np.frexp(errors)[1].astype(np.int64) - 1
    exponents[np.isinf(errors)] = BINS
    return np.clip(exponents - LOWEST, 0, BINS - 1)
