"""What the points carry, conditioned so that float32 sums in any order stay well within the criterion."""

import math
from collections.abc import Callable

import numpy as np

from mluops_gtest.authoring import Array, Draw, diff1_and_diff2
from mluops_gtest.authoring.sums import (
    assert_conditioned,
    exact_sums,
    largest_magnitude,
    lattice_exponent,
    sums_are_exact,
)

# §1.5.1
CRITERIA = diff1_and_diff2(3e-3)
# Terms that the conditioning test looks at, the most crowded cells first.
_TESTED = 1 << 18

Values = Callable[[Draw, Array, int], Array]


def full(draw: Draw, cells: Array, channels: int) -> Array:
    """±1.m · 2^e, every mantissa bit random, e in −3 … 0: any order of 2^26 terms is exact in float64."""
    lanes = draw.stream("input_features").lanes(len(cells) * channels)
    # Sign, mantissa and the two low bits of the exponent are the lane's; the other six exponent bits are 011111.
    lanes &= np.uint32(0x81FFFFFF)
    lanes |= np.uint32(0x3E000000)
    features: Array = lanes.astype("<u4", copy=False).view("<f4").reshape(len(cells), channels)
    if not sums_are_exact(lattice_exponent(features), largest_magnitude(features), len(cells)):
        raise ValueError(f"{len(cells)} points are too many for sums that are exact in float64; draw fewer")
    return features


def exact(draw: Draw, cells: Array, channels: int) -> Array:
    """So few bits that float32 sums of any cell are exact in any order: whoever loses one addition is seen."""
    most = int(np.bincount(cells[cells >= 0], minlength=1).max())
    return draw.stream("input_features").lattice((len(cells), channels), bits=24 - math.ceil(math.log2(max(most, 2))))


def positive(draw: Draw, cells: Array, channels: int) -> Array:
    """Like `full` without signs: the sum grows with every term."""
    return np.abs(full(draw, cells, channels))


def small(draw: Draw, cells: Array, channels: int) -> Array:
    """Like `full`, around 10^-6: sums in steps of a fixed point lose them."""
    return full(draw, cells, channels) * np.float32(2.0**-20)


def leading(draw: Draw, cells: Array, channels: int) -> Array:
    """Positive, and the first point of each cell outweighs another by 2^11: half precision would lose the others."""
    features = positive(draw, cells, channels)
    features[ranks(cells) == 0] *= np.float32(2048)
    return features


def wide(draw: Draw, cells: Array, channels: int) -> Array:
    """Exponents over 41 binades, more than one float64 accumulator holds exactly."""
    return draw.stream("input_features").mantissas((len(cells), channels), exponents=(-30, 10))


def wider(draw: Draw, cells: Array, channels: int) -> Array:
    """Exponents over 121 binades, far more than any pair of float64 accumulators holds exactly."""
    return draw.stream("input_features").mantissas((len(cells), channels), exponents=(-60, 60))


def cancelling(draw: Draw, cells: Array, channels: int) -> Array:
    """Points in pairs of one cell that cancel but for five bits."""
    features = full(draw, cells, channels)
    rest = np.abs(draw.stream("rest").lattice((len(cells), channels), bits=19))
    order = np.argsort(cells, kind="stable")
    second = ranks(cells)[order] % 2 == 1
    # Sorted by cell, the point before the second of a pair is the first.
    partner = features[order[np.flatnonzero(second) - 1]]
    features[order[second]] = -partner * (np.float32(1) - rest[order[second]] / np.float32(32))
    return features


def tiny(draw: Draw, cells: Array, channels: int) -> Array:
    """±k · 2^-149 with k of 12 bits: a thousand of them still sum to a subnormal number, exactly and in any order."""
    return draw.stream("input_features").lattice((len(cells), channels), bits=12, scale=149)


def nearly_normal(draw: Draw, cells: Array, channels: int) -> Array:
    """±k · 2^-149 with k of 22 bits: subnormal all of them, but four may sum to a normal number, exactly."""
    return draw.stream("input_features").lattice((len(cells), channels), bits=22, scale=149)


VALUES: dict[str, Values] = {
    kind.__name__: kind
    for kind in (full, exact, positive, small, leading, wide, wider, cancelling, tiny, nearly_normal)
}


def ranks(cells: Array) -> Array:
    """How many earlier points lie in the same cell."""
    order = np.argsort(cells, kind="stable")
    firsts = np.flatnonzero(np.diff(cells[order], prepend=cells[order[0]] - 1))
    counts = np.diff(firsts, append=len(cells))
    result = np.empty(len(cells), np.int64)
    result[order] = np.arange(len(cells)) - np.repeat(firsts, counts)
    return result


def assert_any_order(features: Array, cells: Array) -> None:
    """float32 sums of the most crowded cells pass the criterion with room, in any order; points at −1 do not count."""
    order = np.argsort(cells, kind="stable")[np.count_nonzero(cells < 0) :]
    firsts = np.flatnonzero(np.diff(cells[order], prepend=-1))
    if len(firsts) == 0:
        return
    counts = np.diff(firsts, append=len(order))
    longest, channels = int(counts.max()), features.shape[1]
    crowded = np.argsort(-counts, kind="stable")[: max(1, _TESTED // (longest * channels))]
    terms = np.zeros((longest, len(crowded), channels), np.float64)
    for place, (first, count) in enumerate(zip(firsts[crowded], counts[crowded], strict=True)):
        terms[:count, place] = features[order[first : first + count]]
    columns = terms.reshape(longest, len(crowded) * channels)
    assert_conditioned(columns, exact_sums(columns), CRITERIA)
