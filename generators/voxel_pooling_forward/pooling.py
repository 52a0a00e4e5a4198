"""Sums of the points in each cell: exact, so the answer depends on no order, then rounded once to float32.

The native core adds the points where they lie and tells whether any order gives these sums. Otherwise points are sorted
by cell and gathered block by block in rank order: first the first point of every cell of the block, then the second of
those that have one, and so on. Each rank is then one vectorised add ("rank rounds").
"""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from mluops_gtest.authoring import Array
from mluops_gtest.authoring.rows import native_add_rows
from mluops_gtest.authoring.sums import exact_sums, magnitudes, sums_are_exact

# A crowded cell is summed in segments of at most this many points, so that rounds stay few and wide.
SEGMENT = 1024
_BLOCK = 1 << 19  # elements gathered at a time: 2 MiB of float32
_THREADS = 2
_MANTISSA = 24  # bits of a float32


@dataclass(frozen=True, slots=True)
class Segments:
    """Runs of points of one cell: `order[start : start + count]` are the points, `whole` says if they are all."""

    order: Array
    cell: Array
    start: Array
    count: Array
    whole: Array

    def part(self, first: int, last: int) -> "Segments":
        """The segments first … last − 1."""
        chosen = slice(first, last)
        return Segments(self.order, self.cell[chosen], self.start[chosen], self.count[chosen], self.whole[chosen])


def pooled(features: Array, points: Array, cells: Array, cell_count: int, *, absolute: bool = False) -> Array:
    """float32 [cell_count, C]: row `cells[i]` sums features[points[i]], or |…|, 0 where no point falls.

    `features` is float32 [P, C]; NaN and infinities follow IEEE, every NaN of the result is the same one.
    """
    sums = _added_where_they_lie(features, points, cells, cell_count, absolute=absolute)
    if sums is None:
        out = _in_rank_rounds(features, segmented(points, cells), cell_count, absolute=absolute)
    else:
        with np.errstate(over="ignore"):
            out = sums.astype(np.float32)
    np.copyto(out, np.float32(np.nan), where=np.isnan(out))
    return out


def _added_where_they_lie(
    features: Array, points: Array, cells: Array, cell_count: int, *, absolute: bool
) -> Array | None:
    """float64 sums by the native core, point after point; None without it, and where an addition may have rounded."""
    sums = np.zeros((cell_count, features.shape[1]), np.float64)
    added = native_add_rows(sums, cells, features, points, absolute=absolute)
    if added is None or not math.isfinite(added.largest):
        return None
    most = int(np.bincount(cells).max(initial=0))
    return sums if sums_are_exact(_lowest_bit(added.smallest), added.largest, most) else None


def _in_rank_rounds(features: Array, segments: Segments, cell_count: int, *, absolute: bool) -> Array:
    out = np.zeros((cell_count, features.shape[1]), np.float32)
    split = np.flatnonzero(~segments.whole)
    parts = np.empty((len(split), features.shape[1]), np.float64)

    def pool(bounds: tuple[int, int]) -> None:
        block = segments.part(*bounds)
        with np.errstate(invalid="ignore", over="ignore"):
            sums = segment_sums(features, block, absolute=absolute)
            out[block.cell[block.whole]] = sums[block.whole]
        first, last = np.searchsorted(split, bounds)
        parts[first:last] = sums[~block.whole]

    _each_block(pool, segments, max(1, _BLOCK // features.shape[1]))
    crowded = segments.cell[split]
    for cell in np.unique(crowded):
        with np.errstate(over="ignore"):
            out[cell] = exact_sums(parts[crowded == cell])
    return out


def segmented(points: Array, cells: Array) -> Segments:
    """The points by cell, ascending, crowded cells in several segments."""
    shift = max(1, len(points)).bit_length()
    # Sorting packed keys is several times faster than argsort; a position takes the low bits.
    keys = (cells.astype(np.int64) << shift) | np.arange(len(points))
    keys.sort()
    order = points[keys & ((1 << shift) - 1)]
    keys >>= shift
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(starts, append=len(keys))
    pieces = -(-counts // SEGMENT)
    piece = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    start = np.repeat(starts, pieces) + piece * SEGMENT
    count = np.minimum(np.repeat(starts + counts, pieces) - start, SEGMENT)
    return Segments(order, keys[start], start, count, np.repeat(pieces == 1, pieces))


def segment_sums(features: Array, segments: Segments, *, absolute: bool = False) -> Array:
    """float64 [segments, C]: the exact sum of each segment, rounded at most once."""
    # Crowded segments first: those that still have a point at some rank are then a leading slice.
    by_count = np.argsort(-segments.count, kind="stable")
    counts = segments.count[by_count]
    widths = len(counts) - np.searchsorted(counts[::-1], np.arange(counts[0]), side="right")
    ranks = np.repeat(np.arange(len(widths)), widths)
    places = np.arange(len(ranks)) - np.repeat(np.cumsum(widths) - widths, widths)
    rows = segments.order[segments.start[by_count][places] + ranks]
    # take is twice as fast as indexing with an array; all rows exist, and "clip" spares the check of each.
    gathered = features.take(rows, axis=0, mode="clip")
    if absolute:
        np.abs(gathered, out=gathered)
    sums = np.empty((len(counts), features.shape[1]), np.float64)
    sums[by_count] = _exact(gathered, widths.tolist())
    return sums


def _lowest_bit(smallest: float) -> int:
    """math.frexp gives 0.1xxx · 2^e, so the last of the 24 bits weighs 2^(e − 24)."""
    return math.frexp(smallest)[1] - _MANTISSA


def _exact(gathered: Array, widths: list[int]) -> Array:
    smallest, largest = magnitudes(gathered)
    terms = len(widths)
    exponent = _lowest_bit(smallest)
    if sums_are_exact(exponent, largest, terms):
        return _rounds(gathered, widths)
    # Two float64 accumulators: multiples of 2^coarse, and the rest below it. One addition joins them.
    coarse = math.frexp(largest)[1] + terms.bit_length() - 51
    if sums_are_exact(exponent, math.ldexp(1.0, coarse), terms) and np.isfinite(gathered).all():
        wide = gathered.astype(np.float64)
        # Adding 1.5 · 2^(52 + coarse) rounds to a multiple of 2^coarse.
        magic = math.ldexp(1.5, 52 + coarse)
        high = (wide + magic) - magic
        return _rounds(high, widths) + _rounds(wide - high, widths)
    return _one_by_one(gathered, widths)


def _rounds(gathered: Array, widths: list[int]) -> Array:
    """Rank after rank added to float64 accumulators."""
    sums = np.zeros((widths[0], gathered.shape[1]), np.float64)
    first = 0
    for width in widths:
        leading = sums[:width]
        np.add(leading, gathered[first : first + width], out=leading)
        first += width
    return sums


def _one_by_one(gathered: Array, widths: list[int]) -> Array:
    firsts = np.cumsum([0, *widths[:-1]])
    return np.stack(
        [
            exact_sums(gathered[firsts[: np.count_nonzero(np.array(widths) > place)] + place].astype(np.float64))
            for place in range(widths[0])
        ]
    )


def _each_block(pool: Callable[[tuple[int, int]], None], segments: Segments, points: int) -> None:
    blocks = list(_blocks(segments.count, points))
    if len(blocks) < 2:
        for bounds in blocks:
            pool(bounds)
        return
    with ThreadPoolExecutor(_THREADS) as executor:
        for _ in executor.map(pool, blocks):
            pass


def _blocks(counts: Array, points: int) -> Iterator[tuple[int, int]]:
    """Bounds of consecutive segments that hold about `points` points together."""
    ends = np.cumsum(counts)
    first = 0
    while first < len(counts):
        done = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + points, side="right")))
        yield first, last
        first = last
