"""The engine under the criteria: figures of one cache-sized block at a time, in float64, on two threads.

A whole-tensor float64 copy would cost more in first touches of memory than all the arithmetic; so each thread
walks over blocks with scratch that stays in its cache. Figures are kept per block and combined in block order:
the result does not depend on how many threads there were.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Final, TypeVar

import numpy as np

from mluops_gtest.criteria.elements import Elements
from mluops_gtest.model.dtypes import Array

# Parts per block: three float64 scratch arrays of 256 KiB stay in a core's second-level cache.
BLOCK = 1 << 15
THREADS = 2
# Starting threads costs about 0.1 ms: fewer blocks are done sooner without.
_BLOCKS_FOR_THREADS: Final = 16
# More shares than threads: one that is held up, or meets only equal blocks, leaves its rest to the other.
_SHARES: Final = 8

_T = TypeVar("_T")


class Scratch:
    """Three float64 arrays and a mask that blocks reuse."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.difference = np.empty(size)
        self.magnitude = np.empty(size)
        self.quotient = np.empty(size)
        self.mask = np.empty(size, bool)


# Idle scratch; a list and not thread-local, so that it outlives the threads of one comparison.
_IDLE: Final[list[Scratch]] = []


@contextmanager
def _scratch(size: int) -> Iterator[Scratch]:
    try:
        scratch = _IDLE.pop()
    except IndexError:
        scratch = Scratch(size)
    yield scratch if scratch.size >= size else Scratch(size)
    _IDLE.append(scratch)


class Blocks:
    """Two flat arrays of parts, cut into blocks of whole elements."""

    def __init__(self, evaluated: Array, baseline: Array, elements: Elements) -> None:
        self.evaluated = elements.flat(evaluated)
        self.baseline = elements.flat(baseline)
        self.elements = elements
        self.step = max(BLOCK - BLOCK % elements.parts, elements.parts)
        self.starts = range(0, len(self.baseline), self.step)

    def parts(self, start: int) -> tuple[Array, Array]:
        """Both sides of the block that starts there, as stored."""
        end = start + self.step
        return self.evaluated[start:end], self.baseline[start:end]

    def numbers(self, start: int) -> tuple[Array, Array]:
        """Both sides of the block that starts there, in a type that numpy computes with."""
        evaluated, baseline = self.parts(start)
        return self.elements.values(evaluated), self.elements.values(baseline)

    def each(self, work: Callable[[int, Scratch], _T], starts: Sequence[int]) -> list[_T]:
        """`work` on every block, in block order; many blocks are shared between threads."""
        if len(starts) < _BLOCKS_FOR_THREADS:
            return self._walk(work, starts)
        share = -(-len(starts) // _SHARES)
        shares = [starts[first : first + share] for first in range(0, len(starts), share)]
        with ThreadPoolExecutor(THREADS) as pool:
            return list(chain.from_iterable(pool.map(partial(self._walk, work), shares)))

    def _walk(self, work: Callable[[int, Scratch], _T], starts: Sequence[int]) -> list[_T]:
        # NaN and Inf are looked for in the figures; they need no warning on the way.
        with _scratch(self.step) as scratch, np.errstate(all="ignore"):
            return [work(start, scratch) for start in starts]
