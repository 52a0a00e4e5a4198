"""The engine under the criteria: figures of one cache-sized block at a time, in float64, on two threads.

A whole-tensor float64 copy would cost more in first touches of memory than all the arithmetic; so each thread
walks over blocks with scratch that stays in its cache. Figures are kept per block and combined in block order:
the result does not depend on how many threads there were.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Final, TypeVar

import numpy as np

from mluops_gtest.criteria.elements import Elements
from mluops_gtest.files.mapped import let_go
from mluops_gtest.model.dtypes import Array
from mluops_gtest.native.comparing import CELL

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


_Share = TypeVar("_Share", bound=Sequence[int])


def in_shares(work: Callable[[_Share], _T], whole: _Share) -> list[_T]:
    """`work` on consecutive shares of the whole, on all threads; results in order."""
    from concurrent.futures import ThreadPoolExecutor

    share = max(1, -(-len(whole) // _SHARES))
    shares = [whole[first : first + share] for first in range(0, len(whole), share)]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, shares))
