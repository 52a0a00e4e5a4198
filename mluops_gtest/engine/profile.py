"""Where and how much an output differs: a histogram of relative errors and a coarse map of the largest ones."""

import ctypes
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mluops_gtest.criteria.blocks import Blocks, Elements, Scratch, elements_of
from mluops_gtest.criteria.figures import EPSILON
from mluops_gtest.model.dtypes import Array, DType
from mluops_gtest.model.explanation import MAX_CELLS
from mluops_gtest.model.picture import Picture, folded_width
from mluops_gtest.model.result import Profile
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
