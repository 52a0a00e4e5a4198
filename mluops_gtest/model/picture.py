"""An output seen through a coarse map: the last axis across, all others down, what is long and thin folded."""

import math
from typing import Final, NamedTuple

import numpy as np

from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.explanation import MAX_CELLS

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
