"""A coarse map of the wrong elements of an output."""

from typing import Final

import numpy as np

from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.explanation import WrongMap
from mluops_gtest.model.picture import Picture, folded_width

_SIGNS: Final = np.array(list(".123456789#"))


def map_of(wrong: Array) -> WrongMap:
    """Which share of each cell is wrong."""
    picture = Picture.over(wrong.shape)
    counts = np.bincount(picture.cell_of(np.flatnonzero(wrong)), minlength=picture.rows * picture.columns)
    shares = counts / picture.sizes
    # From a single one on it is some, and all only where it is all.
    classes = np.where(shares >= 1, 10, np.clip(np.ceil(shares * 9), counts > 0, 9)).astype(int)
    cells = "".join(_SIGNS[classes].tolist())
    return WrongMap(picture.rows, picture.columns, cells, folded_width(wrong.shape))
