"""Arrays walked block by block: the engine under the criteria, and the profile of an output that differs.

A whole-tensor float64 copy would cost more in first touches of memory than all the arithmetic; so each thread
walks over cache-sized blocks with scratch that stays in its cache. Figures are kept per block and combined in block
order: the result does not depend on how many threads there were.

Σx and Σx² in float64, in one fixed order: the same bits on any machine, on any number of threads, natively or not.

Parts are cut into cells of 128 rows of 256. Part i of a cell belongs to lane i mod 256, and each lane adds its parts
one after the other. Then the upper half of the lanes is added to the lower half, until one is left. Sums of cells are
added exactly and rounded once. Products are rounded before they are added; parts that do not count are zeros.

A profile is a histogram of relative errors and a coarse map of the largest ones: the last axis across, all others
down, what is long and thin folded.
"""

import ctypes
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from mluops_gtest.base.errors import ContentError
from mluops_gtest.base.files import let_go
from mluops_gtest.base.native.arrays import CELL, LANES, ROWS, address_of
from mluops_gtest.base.native.library import native_function
from mluops_gtest.core.explanation import MAX_CELLS
from mluops_gtest.core.result import Profile
from mluops_gtest.core.tensor import Array, DType, widened

# The formulas' guard against a division by zero.
EPSILON: Final = 1e-9
# diff3 looks at |e−b| instead of the relative error where |b| is below this; 16-bit types have the coarse one.
_SMALL: Final = 1e-6
_SMALL_16_BIT: Final = 1e-4

_COMPLEX: Final = {
    DType.COMPLEX_HALF: "<f2",
    DType.COMPLEX64: "<f4",
    DType.COMPLEX_FLOAT: "<f4",
    DType.COMPLEX128: "<f8",
    DType.COMPLEX_DOUBLE: "<f8",
}


@dataclass(frozen=True, slots=True)
class Elements:
    """A data type as real numbers: `parts` of them make one element, two for complex types."""

    real: "np.dtype[Any]"
    parts: int = 1
    # Where diff3 turns from relative to absolute; None: an integer, compared exactly.
    small: float | None = None
    # bfloat16 has no numpy type: `real` holds the upper 16 bits of a float32.
    upper_half: bool = False
    # The bits of a part as a signed integer: equality needs no sign, the distance in ulp does.
    pattern: "np.dtype[Any]" = field(init=False)
    # What the C library calls a part.
    native: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pattern", np.dtype(f"i{self.real.itemsize}"))
        name = "bfloat16" if self.upper_half else f"{self.real.kind}{self.real.itemsize}"
        object.__setattr__(self, "native", name)

    @property
    def exact(self) -> bool:
        """Integers: any difference counts."""
        return self.small is None

    @property
    def wide(self) -> bool:
        """64-bit integers, which float64 cannot hold."""
        return self.small is None and self.real.itemsize == 8

    def values(self, parts: Array) -> Array:
        """The numbers that stored parts stand for, in a type that numpy computes with."""
        return widened(parts, DType.BFLOAT16) if self.upper_half else parts


@cache
def elements_of(dtype: DType) -> Elements:
    """How that data type is compared, or an error for a type without arithmetic."""
    if dtype.is_integer:
        return Elements(dtype.storage)
    if dtype is DType.BFLOAT16:
        return Elements(dtype.storage, small=_SMALL_16_BIT, upper_half=True)
    if dtype.is_float:
        return Elements(dtype.storage, small=_small(dtype.storage))
    if dtype in _COMPLEX:
        real = np.dtype(_COMPLEX[dtype])
        return Elements(real, parts=2, small=_small(real))
    raise ContentError(
        f"Outputs of type {dtype.value} cannot be compared: no criterion is defined for it."
        " Allowed: integers, bool, half, bfloat16, float, double, complex types; store the output as one of these."
    )


def value_text(value: object, dtype: DType) -> str:
    """One element for people; a NaN with its bits."""
    stored = np.asarray(value)
    scalar = widened(stored, dtype)
    if scalar.dtype.kind == "f" and np.isnan(scalar):
        return f"nan (0x{int(stored.view(dtype.bits)):0{2 * dtype.itemsize}x})"
    return str(scalar)


def index_of(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of the element at that place in memory."""
    return tuple(int(i) for i in np.unravel_index(flat, shape))


def _small(real: "np.dtype[Any]") -> float:
    return _SMALL_16_BIT if real.itemsize == 2 else _SMALL


# Parts per block: |e−b| and |b| in float64 and the block itself stay in a core's second-level cache. Whole cells, so
# that no sum depends on it and no complex element is cut.
BLOCK = CELL
# Parts from which threads share the work (starting them costs about 0.1 ms), and parts per block then: threads meet at
# the interpreter's lock after every call into numpy, so calls must be longer than the cache alone would ask for.
SHARED_FROM = 1_000_000
SHARED_BLOCK = 2 * CELL
THREADS = 2
# More shares than threads: one that is held up, or meets only equal blocks, leaves its rest to the other.
_SHARES: Final = 8

_T = TypeVar("_T")


class Scratch:
    """Arrays that blocks reuse, cut to the length of the block at hand."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._numbers = np.empty((4, size))
        self._mask = np.empty(size, bool)
        self.cut(size)

    def cut(self, length: int) -> None:
        """Make all arrays that long; almost always they are already."""
        self.length = length
        # All four rows, of which the last two are spare.
        self.rows = self._numbers[:, :length]
        self.difference, self.magnitude, self.spare, _ = self.rows
        # |e−b| over |b|: what is done to both is done in one call.
        self.both = self._numbers[:2, :length]
        self.mask = self._mask[:length]


# Idle scratch; a list and not thread-local, so that it outlives the threads of one comparison.
_IDLE: Final[list[Scratch]] = []


class Blocks:
    """Two flat arrays of parts, cut into blocks."""

    def __init__(self, evaluated: Array, baseline: Array, elements: Elements) -> None:
        self.elements = elements
        self.evaluated, self.baseline = (
            np.ascontiguousarray(side).reshape(-1).view(elements.real) for side in (evaluated, baseline)
        )
        self._patterns = self.evaluated.view(elements.pattern), self.baseline.view(elements.pattern)
        self._shared = len(self.baseline) >= SHARED_FROM
        self.step = SHARED_BLOCK if self._shared else BLOCK
        self.starts = range(0, len(self.baseline), self.step)

    def patterns(self, start: int) -> tuple[Array, Array]:
        """The bits of both sides of the block that starts there, as signed integers."""
        end = start + self.step
        evaluated, baseline = self._patterns
        return evaluated[start:end], baseline[start:end]

    def differs(self, start: int, scratch: Scratch) -> bool:
        """Some bit of the block that starts there does."""
        return bool(np.not_equal(*self.patterns(start), out=scratch.mask).any())

    def numbers(self, start: int) -> tuple[Array, Array]:
        """Both sides of the block that starts there, in a type that numpy computes with."""
        end = start + self.step
        evaluated, baseline = self.evaluated[start:end], self.baseline[start:end]
        return self.elements.values(evaluated), self.elements.values(baseline)

    def each(self, work: Callable[[int, Scratch], _T], starts: Sequence[int]) -> list[_T]:
        """`work` on these blocks, in block order; threads share them where there is much to do."""
        if not self._shared:
            return self._walk(work, starts)
        return list(chain.from_iterable(in_shares(partial(self._walk, work), starts)))

    def _walk(self, work: Callable[[int, Scratch], _T], starts: Sequence[int]) -> list[_T]:
        try:
            scratch = _IDLE.pop()
        except IndexError:
            scratch = Scratch(self.step)
        if scratch.size < self.step:
            scratch = Scratch(self.step)
        results = []
        # NaN and Inf are looked for in the figures; they need no warning on the way.
        with np.errstate(all="ignore"):
            for start in starts:
                length = min(self.step, len(self.baseline) - start)
                if scratch.length != length:
                    scratch.cut(length)
                results.append(work(start, scratch))
        _IDLE.append(scratch)
        if starts:
            let_go(self.baseline[starts[0] : starts[-1] + self.step])
        return results


def unequal_parts(blocks: Blocks, start: int) -> tuple[Array, Array, Array]:
    """The parts that differ in the block that starts there: their places in the whole, |e−b| and |b| in float64.

    The first is infinite where one of the two is no finite number.
    """
    e, b = blocks.numbers(start)
    places = np.flatnonzero((e != b) & ~(np.isnan(e) & np.isnan(b)))
    e, b = e[places], b[places]
    magnitude = b.astype(np.float64)
    error = wide_distance(e, b).astype(np.float64) if blocks.elements.wide else np.abs(e.astype(np.float64) - magnitude)
    error[~np.isfinite(error)] = np.inf
    return places + start, error, np.abs(magnitude)


def wide_distance(evaluated: Array, baseline: Array) -> Array:
    """|e−b| of 64-bit integers: unsigned subtraction wraps to the true distance, which may need all 64 bits."""
    larger, smaller = np.maximum(evaluated, baseline), np.minimum(evaluated, baseline)
    return larger.view(np.uint64) - smaller.view(np.uint64)


_Share = TypeVar("_Share", bound=Sequence[int])


def in_shares(work: Callable[[_Share], _T], whole: _Share) -> list[_T]:
    """`work` on consecutive shares of the whole, on all threads; results in order."""
    from concurrent.futures import ThreadPoolExecutor

    share = max(1, -(-len(whole) // _SHARES))
    shares = [whole[first : first + share] for first in range(0, len(whole), share)]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, shares))


# Σx and Σx² of each cell: of the differences the numerators of diff1 and diff2, of the baseline their denominators.
Sums = tuple[list[float], list[float]]
NO_SUMS: Final[Sums] = ([], [])


def sums(numbers: Array, count: int) -> list[Sums]:
    """Σx and Σx² of each of the first `count` rows, which are not negative, as lists with an entry per cell.

    The squares are written into as many rows behind them: to sum all rows at once takes half as many calls.
    """
    np.multiply(numbers[:count], numbers[:count], out=numbers[count : 2 * count])
    found = cell_sums(numbers[: 2 * count])
    return list(zip(found[:count], found[count:], strict=True))


def cell_sums(numbers: Array) -> list[list[float]]:
    """Of every row the sums of its cells."""
    count, length = numbers.shape
    cells = length // CELL
    lanes = np.zeros((count, -(-length // CELL), LANES))
    if cells:
        # A reduction over an axis that is not the last adds row by row.
        np.add.reduce(numbers[:, : cells * CELL].reshape(count, cells, ROWS, LANES), axis=2, out=lanes[:, :cells])
    if length > cells * CELL:
        rest = numbers[:, cells * CELL :]
        whole = rest.shape[1] // LANES * LANES
        if whole:
            np.add.reduce(rest[:, :whole].reshape(count, -1, LANES), axis=1, out=lanes[:, cells])
        lanes[:, cells, : rest.shape[1] - whole] += rest[:, whole:]
    # Lanes first: half of them is one piece of memory then, and added in half the time.
    lanes = lanes.reshape(-1, LANES).T.copy()
    width = LANES
    while width > 1:
        width //= 2
        # Lanes beyond a short array are zeros, which change no sum.
        lanes = lanes[:width] + lanes[width:] if length > width else lanes[:width]
    found: list[list[float]] = lanes[0].reshape(count, -1).tolist()
    return found


def joined(blocks: Iterable[Sums]) -> Sums:
    """The sums of all cells of these blocks."""
    plain: list[float] = []
    squares: list[float] = []
    for of_block in blocks:
        plain += of_block[0]
        squares += of_block[1]
    return plain, squares


def total(parts: Iterable[float]) -> float:
    """The correctly rounded sum of non-negative numbers; infinite where it leaves float64."""
    try:
        return math.fsum(parts)
    except OverflowError:
        return math.inf


# Fewer cells than this along one axis say little, where the other axis has more elements than cells.
_THIN: Final = 8


class Picture(NamedTuple):
    """The output as lines of `width` elements, seen through rows × columns cells."""

    width: int
    rows: int
    columns: int
    # The first cell of each line of elements, and the cell of each place within one.
    down: Array
    across: Array

    @staticmethod
    def over(shape: tuple[int, ...], most: tuple[int, int] = (MAX_CELLS, MAX_CELLS)) -> "Picture":
        """In at most so many rows and columns of cells."""
        width = folded_width(shape, most) or (shape[-1] if shape else 1)
        height = -(-math.prod(shape) // width)
        rows, columns = min(height, most[0]), min(width, most[1])
        down, across = np.arange(height) * rows // height * columns, np.arange(width) * columns // width
        return Picture(width, rows, columns, down, across)

    def cell_of(self, element: Array) -> Array:
        """The cell of each flat index."""
        line, place = np.divmod(element, self.width)
        cell: Array = self.down[line] + self.across[place]
        return cell

    @property
    def sizes(self) -> Array:
        """How many elements each cell has; in a folded map the last one has room for more than there are."""
        return np.outer(np.bincount(self.down // self.columns), np.bincount(self.across)).reshape(-1)


def folded_width(shape: tuple[int, ...], most: tuple[int, int] = (MAX_CELLS, MAX_CELLS)) -> int:
    """Elements across the folded map of a long and thin output, whole rows where they are short; else 0."""
    width, count = (shape[-1] if shape else 1), math.prod(shape)
    height = count // width if width else 0
    if min(height, width) >= _THIN or (height <= most[0] and width <= most[1]):
        return 0
    side = math.isqrt(count - 1) + 1
    return side if height < width else max(1, side // width) * width


def native_profile(
    evaluated: Array, baseline: Array, start: int, picture: Picture, counts: Array, cells: Array
) -> bool:
    """Add two contiguous float32 arrays, part of larger ones from `start` on, to `counts` and `cells`."""
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    of_arrays, of_map = (pointer, pointer, number, number, number), (pointer, pointer)
    add = native_function("profile", None, *of_arrays, *of_map, number, number, ctypes.c_double, pointer, pointer)
    if add is None:
        return False
    add(
        *(address_of(evaluated), address_of(baseline), start, evaluated.size, picture.width),
        *(address_of(picture.down), address_of(picture.across)),
        *(len(counts), LOWEST, EPSILON, address_of(counts), address_of(cells)),
    )
    return True


BINS: Final = 32
# The binary exponent that falls into bin 0, with everything below it.
LOWEST: Final = -30
# Enough for a colour and a tooltip; a map of full doubles would be twice as large in the report.
_DIGITS: Final = 4
# Float types that float32 holds exactly.
_NARROW: Final = (np.dtype(np.float32), np.dtype(np.float16))


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
    parts = blocks.each(lambda start, scratch: _part(blocks, start, scratch, picture), blocks.starts)
    differing = [part for part in parts if part is not None]
    if not differing:
        return None
    counts = np.sum([counts for counts, _ in differing], axis=0)
    cells = np.max([cells for _, cells in differing], axis=0)
    return Profile(
        output,
        tuple(counts.tolist()),
        picture.rows,
        picture.columns,
        tuple(float(f"{cell:.{_DIGITS}g}") for cell in cells.tolist()),
        folded_width(evaluated.shape, most),
    )


def _part(blocks: Blocks, start: int, scratch: Scratch, picture: Picture) -> tuple[Array, Array] | None:
    """What one block adds: how many elements are in each bin, and the largest error in each cell."""
    elements = blocks.elements
    if not blocks.differs(start, scratch):
        return None
    e, b = blocks.numbers(start)
    if elements.parts == 1 and e.dtype in _NARROW:
        e, b = e.astype(np.float32, copy=False), b.astype(np.float32, copy=False)
        counts, cells = np.zeros(BINS, np.int64), np.zeros(picture.rows * picture.columns)
        if native_profile(e, b, start, picture, counts, cells):
            return (counts, cells) if counts.any() else None
    places, error, magnitude = unequal_parts(blocks, start)
    if not places.size:
        return None
    errors = error / (magnitude + EPSILON)
    # A baseline of Inf gives NaN.
    errors[np.isinf(error)] = np.inf
    where = places // elements.parts
    if elements.parts > 1:
        where, first = np.unique(where, return_index=True)
        errors = np.maximum.reduceat(errors, first)
    cells = np.zeros(picture.rows * picture.columns)
    np.maximum.at(cells, picture.cell_of(where), errors)
    return np.bincount(_bins(errors), minlength=BINS), cells


def _bins(errors: Array) -> Array:
    # frexp: error = m · 2^x with 0.5 ≤ m < 1.
    exponents = np.frexp(errors)[1].astype(np.int64) - 1
    exponents[np.isinf(errors)] = BINS
    return np.clip(exponents - LOWEST, 0, BINS - 1)
