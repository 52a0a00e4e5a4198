"""Sums of many terms in a dozen right ways: other orders, other shapes of the tree, fused, wider."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mluops_gtest.core.tensor import Array

# Products that one case is summed from; of larger cases some rows are taken.
MAX_PRODUCTS = 1 << 16


@dataclass(frozen=True)
class Sums:
    """total[rows[k]] += x[k] · y[k] for every k, in `count` rows; x and y are float32 and broadcast to [K, width]."""

    rows: Array
    x: Array
    y: Array
    count: int
    # Terms after which a kernel that works offset by offset rounds to half.
    block: int = 16

    @property
    def width(self) -> int:
        return max(self.x.shape[1], self.y.shape[1])

    def few_enough(self) -> tuple["Sums", Array]:
        """The sums of so many rows that they stay affordable, and which: the ends, the most crowded, others."""
        if (len(self.rows) + self.count) * self.width <= MAX_PRODUCTS:
            return self, np.arange(self.count)
        sizes = np.bincount(self.rows, minlength=self.count)
        others = np.random.default_rng(1).integers(0, self.count, MAX_PRODUCTS // self.width + 1)
        order = np.concatenate([[0, self.count - 1, sizes.argmax()], others])
        fitting = int((np.cumsum((sizes[order] + 1) * self.width) <= MAX_PRODUCTS).sum())
        taken = np.unique(order[: max(3, fitting)])
        place = np.full(self.count, -1)
        place[taken] = np.arange(len(taken))
        kept = place[self.rows] >= 0
        x, y = (values[kept] if len(values) == len(self.rows) else values for values in (self.x, self.y))
        return replace(self, rows=place[self.rows[kept]], x=x, y=y, count=len(taken)), taken

    def by(self, order: "Order") -> Array:
        """float32 [count, width]: every row by that order."""
        total = np.zeros((self.count, self.width), np.float32)
        for rows, terms in self.groups:
            total[rows] = order(terms)
        return total

    def offset_by_offset(self, terms: "Terms") -> Array:
        """The products of an offset in float, each sum rounded to half and added there, as released kernels do."""
        return half_blocks(terms.rounded, self.block)

    @cached_property
    def groups(self) -> list[tuple[Array, "Terms"]]:
        """Rows of about equally many terms together, padded with zeros, which every sum survives."""
        by_row = np.argsort(self.rows, kind="stable")
        rows, starts, counts = np.unique(self.rows[by_row], return_index=True, return_counts=True)
        buckets = np.frexp(counts)[1]
        found = []
        for bucket in np.unique(buckets):
            chosen = buckets == bucket
            rank = np.arange(counts[chosen].max())[:, None]
            there = rank < counts[chosen]
            places = by_row[np.where(there, starts[chosen] + rank, starts[chosen])]
            x, y = (values[places] if len(values) == len(self.rows) else values for values in (self.x, self.y))
            found.append((rows[chosen], Terms(x, y, there[..., None])))
        return found


@dataclass(frozen=True)
class Terms:
    """Factors [T, r, width] of r sums of up to T products; `there` is False where a sum has fewer."""

    x: Array
    y: Array
    there: Array

    @cached_property
    def rounded(self) -> Array:
        """The products in float32."""
        return np.where(self.there, self.x * self.y, np.float32(0))

    @cached_property
    def by_size(self) -> Array:
        """The products in float32 from the smallest magnitude on."""
        return np.take_along_axis(self.rounded, np.argsort(np.abs(self.rounded), axis=0), axis=0)

    @cached_property
    def in_half(self) -> Array:
        """The products of half factors, rounded to half."""
        return self.rounded.astype(np.float16)

    @cached_property
    def exact(self) -> Array:
        """The products in float64, which holds them."""
        return np.where(self.there, self.x.astype(np.float64) * self.y, 0.0)


Order = Callable[[Terms], Array]


def one_by_one(terms: Array) -> Array:
    """From the first on."""
    return np.add.accumulate(terms, axis=0)[-1]


def in_pairs(terms: Array) -> Array:
    """Neighbours meet, then their sums."""
    while len(terms) > 1:
        odd = terms[len(terms) // 2 * 2 :]
        terms = np.concatenate([terms[0 : len(terms) - 1 : 2] + terms[1::2], odd])
    return terms[0]


def in_halves(terms: Array) -> Array:
    """The first meets the middle one, as warps reduce."""
    while len(terms) > 1:
        half = -(-len(terms) // 2)
        rest = terms[half:]
        terms = np.concatenate([terms[: len(rest)] + rest, terms[len(rest) : half]])
    return terms[0]


def in_blocks(terms: Array, size: int) -> Array:
    """Each block one by one, then the blocks."""
    if len(terms) <= size:
        return one_by_one(terms)
    missing = -len(terms) % size
    padded = np.concatenate([terms, np.zeros((missing, *terms.shape[1:]), terms.dtype)])
    return one_by_one(one_by_one(padded.reshape(-1, size, *terms.shape[1:]).swapaxes(0, 1)))


def half_blocks(terms: Array, size: int) -> Array:
    """Each block in float, rounded to half; then the blocks in half."""
    padded = np.concatenate([terms, np.zeros((-len(terms) % size, *terms.shape[1:]), terms.dtype)])
    blocks = one_by_one(padded.reshape(-1, size, *terms.shape[1:]).swapaxes(0, 1))
    return one_by_one(blocks.astype(np.float16))


def half_fused(terms: Array) -> Array:
    """One rounding to half for a product and its addition."""
    total = np.zeros(terms.shape[1:], np.float16)
    for term in terms:
        total = (total + term).astype(np.float16)
    return total


def split(terms: Array, lanes: int) -> Array:
    """Every lane takes each lanes-th term; the lanes meet in pairs."""
    return in_pairs(np.stack([one_by_one(terms[lane::lanes]) for lane in range(min(lanes, len(terms)))]))


def fused(terms: Array) -> Array:
    """One rounding for a product and its addition, 64 terms a lane; then the lanes."""
    lanes = -(-len(terms) // 64)
    totals = np.zeros((lanes, *terms.shape[1:]), np.float32)
    for step in range(0, len(terms), lanes):
        part = terms[step : step + lanes]
        totals[: len(part)] = (totals[: len(part)] + part).astype(np.float32)
    return one_by_one(totals)


def by_sign(terms: Array) -> Array:
    """What is positive and what is negative by itself: all cancellation comes last."""
    return one_by_one(np.where(terms > 0, terms, 0)) + one_by_one(np.where(terms > 0, 0, terms))


def shuffled(terms: Array) -> Array:
    return one_by_one(terms[np.random.default_rng(len(terms)).permutation(len(terms))])


def compensated(terms: Array) -> Array:
    """Kahan's sum in float32, 256 terms a lane; then the lanes."""
    lanes = -(-len(terms) // 256)
    total, lost = np.zeros((2, lanes, *terms.shape[1:]), np.float32)
    for step in range(0, len(terms), lanes):
        part = terms[step : step + lanes]
        here = slice(0, len(part))
        corrected = part - lost[here]
        bigger = total[here] + corrected
        lost[here] = (bigger - total[here]) - corrected
        total[here] = bigger
    # An infinity minus itself; a plain sum has its answer.
    return np.where(np.isfinite(total).all(axis=0), one_by_one(total), one_by_one(terms))


ORDERS: dict[str, Order] = {
    "forward": lambda terms: one_by_one(terms.rounded),
    "backward": lambda terms: one_by_one(terms.rounded[::-1]),
    "shuffled": lambda terms: shuffled(terms.rounded),
    "small first": lambda terms: one_by_one(terms.by_size),
    "large first": lambda terms: one_by_one(terms.by_size[::-1]),
    "by sign": lambda terms: by_sign(terms.rounded),
    "in pairs": lambda terms: in_pairs(terms.rounded),
    "in halves": lambda terms: in_halves(terms.rounded),
    "blocks of 7": lambda terms: in_blocks(terms.rounded, 7),
    "blocks of 64": lambda terms: in_blocks(terms.rounded, 64),
    "eight lanes": lambda terms: split(terms.rounded, 8),
    "fused": lambda terms: fused(terms.exact),
    "fused backward": lambda terms: fused(terms.exact[::-1]),
    "compensated": lambda terms: compensated(terms.rounded),
    "double": lambda terms: terms.exact.sum(axis=0).astype(np.float32),
}
# For half factors alone: what is added is kept in half.
HALF_ORDERS: dict[str, Order] = {
    "half forward": lambda terms: one_by_one(terms.in_half),
    "half backward": lambda terms: one_by_one(terms.in_half[::-1]),
    "half in pairs": lambda terms: in_pairs(terms.in_half),
    "half in halves": lambda terms: in_halves(terms.in_half),
    "half blocks of 7": lambda terms: in_blocks(terms.in_half, 7),
    "half fused": lambda terms: half_fused(terms.exact),
    "half, float products": lambda terms: half_blocks(terms.rounded, 1),
    "half, float blocks of 64": lambda terms: half_blocks(terms.rounded, 64),
}
