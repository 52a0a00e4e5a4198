"""The figures of two arrays from the C library, in one read; None wherever numpy must find them."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from mluops_gtest.criteria import blocks
from mluops_gtest.criteria.elements import Elements
from mluops_gtest.criteria.figures import EQUAL, NOWHERE, BlockStats, Errors, Occurrences, merged
from mluops_gtest.criteria.sums import Sums
from mluops_gtest.files.mapped import let_go
from mluops_gtest.model.dtypes import Array
from mluops_gtest.native.comparing import CELL, NativePair, ShareFigures, native_pair

_T = TypeVar("_T")


class NativePass:
    """Two arrays that the C library compares."""

    def __init__(self, arrays: NativePair, baseline: Array) -> None:
        self._arrays = arrays
        self._baseline = baseline

    @staticmethod
    def over(evaluated: Array, baseline: Array, elements: Elements) -> "NativePass | None":
        """None where there is no library."""
        arrays = native_pair(evaluated, baseline, elements.native, parts=elements.parts, small=elements.small)
        return None if arrays is None else NativePass(arrays, baseline)

    def stats(self) -> BlockStats:
        """The figures of the whole."""
        return merged([_stats(figures) for figures in self._each(self._figures)])

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
        if cells < self._arrays.cells:
            # A share of many: of a mapped file no more is kept in memory than is being read.
            parts = self._baseline.reshape(-1).view(np.uint8).reshape(self._arrays.count, -1)
            let_go(parts[first * CELL : (first + cells) * CELL])
        return figures

    def _each(self, work: Callable[[int, int], _T]) -> list[_T]:
        """`work` on shares of the cells, in order."""
        cells = self._arrays.cells
        if self._arrays.count < blocks.SHARED_FROM:
            return [work(0, cells)] if cells else []
        return blocks.in_shares(lambda share: work(share.start, len(share)), range(cells))


def _stats(figures: ShareFigures) -> BlockStats:
    if not figures.bits_unequal:
        return EQUAL
    mismatched = NOWHERE
    if figures.mismatched:
        mismatched = Occurrences(figures.mismatched, figures.first_mismatched, figures.last_mismatched)
    return BlockStats(
        figures.bits_unequal,
        Occurrences(figures.unequal, figures.first_unequal, figures.last_unequal),
        mismatched,
        Errors(figures.largest, figures.relative, figures.error, figures.worst, figures.ulp),
    )
