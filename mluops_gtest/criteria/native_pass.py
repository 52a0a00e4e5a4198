"""The figures of two arrays from the C library, in one read; None wherever numpy must find them."""

from collections.abc import Callable
from typing import Final, TypeVar

import numpy as np

from mluops_gtest.criteria import blocks
from mluops_gtest.criteria.elements import Elements
from mluops_gtest.criteria.figures import EQUAL, NOWHERE, WITHIN, Beyond, BlockStats, Errors, Occurrences, merged
from mluops_gtest.criteria.sums import Sums
from mluops_gtest.files.mapped import let_go
from mluops_gtest.model.dtypes import Array
from mluops_gtest.native.comparing import CELL, NativePair, ShareFigures, cell_figures, native_pair
from mluops_gtest.native.limits import NativeLimits

# Cells that are looked through at once for a first difference.
_SCANNED: Final = 64

_T = TypeVar("_T")


class NativePass:
    """Two arrays that the C library compares."""

    def __init__(self, arrays: NativePair, baseline: Array) -> None:
        self._arrays = arrays
        self._baseline = baseline
        self._limits: NativeLimits | None = None

    @staticmethod
    def over(evaluated: Array, baseline: Array, elements: Elements) -> "NativePass | None":
        """None where there is no library."""
        arrays = native_pair(evaluated, baseline, elements.native, parts=elements.parts, small=elements.small)
        return None if arrays is None else NativePass(arrays, baseline)

    def differs(self) -> bool:
        """Some bit does."""
        for first in range(0, self._arrays.cells, _SCANNED):
            cells = min(_SCANNED, self._arrays.cells - first)
            if self._arrays.differs(first, cells):
                return True
            self._let_go(first, cells)
        return False

    def hold_to(self, limits: NativeLimits) -> None:
        """Let `stats` say, too, which elements are beyond these."""
        self._arrays.hold_to(limits)
        self._limits = limits

    def stats(self) -> BlockStats:
        """The figures of the whole."""
        found = self._each(self._figures)
        return _stats(found[0]) if len(found) == 1 else merged(map(_stats, found))

    def sums(self) -> tuple[Sums, Sums]:
        """Of the differences and of the baseline, after `stats`."""
        if self._arrays.has_equal_cells:
            self._each(self._arrays.weigh)
        difference, difference_squared, weight, weight_squared = self._arrays.sums()
        return (difference, difference_squared), (weight, weight_squared)

    def weights(self) -> tuple[Sums, int]:
        """Σ|b| and Σb² over the finite parts of the baseline, and how many they are."""
        finite = sum(self._each(lambda first, cells: self._arrays.weigh(first, cells, all_cells=True)))
        _, _, weight, weight_squared = self._arrays.sums()
        return (weight, weight_squared), finite

    def beyond(self, threshold: float, scale: float) -> int:
        """Elements with |e−b| > threshold · max(|b|, scale)."""
        return sum(self._each(lambda first, cells: self._arrays.beyond(first, cells, threshold, scale)))

    def _figures(self, first: int, cells: int) -> ShareFigures:
        figures = self._arrays.figures(first, cells)
        self._let_go(first, cells)
        return figures

    def _let_go(self, first: int, cells: int) -> None:
        """Of a mapped file no more is kept in memory than is being read: a share of many goes when it was."""
        if cells == self._arrays.cells:
            return
        parts = self._baseline.reshape(-1).view(np.uint8).reshape(self._arrays.count, -1)
        let_go(parts[first * CELL : (first + cells) * CELL])
        if self._limits is not None:
            magnitude, repeat = self._limits.arrays[0]
            let_go(magnitude[first * CELL // repeat : (first + cells) * CELL // repeat])

    def _each(self, work: Callable[[int, int], _T]) -> list[_T]:
        """`work` on shares of the cells, in order."""
        cells = self._arrays.cells
        if self._arrays.count < blocks.SHARED_FROM:
            return [work(0, cells)] if cells else []
        return blocks.in_shares(lambda share: work(share.start, len(share)), range(cells))


def small_stats(evaluated: Array, baseline: Array, elements: Elements) -> tuple[BlockStats, Sums, Sums] | None:
    """The figures of a few parts of which some differ, and their sums; None where there is no library."""
    found = cell_figures(evaluated, baseline, elements.native, parts=elements.parts, small=elements.small)
    if found is None:
        return None
    figures, (difference, difference_squared, weight, weight_squared) = found
    return _stats(figures), ([difference], [difference_squared]), ([weight], [weight_squared])


def _stats(figures: ShareFigures) -> BlockStats:
    bits_unequal, mismatches, furthest = figures[0], figures[4], figures[15]
    if not bits_unequal:
        return EQUAL
    return BlockStats(
        bits_unequal,
        Occurrences(*figures[1:4]),
        Occurrences(*figures[4:7]) if mismatches else NOWHERE,
        Errors(*figures[7:12]),
        Beyond(Occurrences(*figures[12:15]), *figures[15:]) if furthest >= 0 else WITHIN,
    )
