"""One element of im as §1.2 defines it."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from mluops_gtest.authoring import OpCall
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The column of the mask position that is this cell, or 0 where there is none."""
    if call.tensor("col").dims[1] == 0:
        # Without a mask position im is cleared all the same; the pointers of what is empty may be null.
        return {"im": lambda *_: Fraction(0)}
    col, mask_h, mask_w = (call.array(name) for name in ("col", "mask_h_idx", "mask_w_idx"))

    def im(_: int, channel: int, h: int, w: int) -> Fraction | float:
        columns = np.flatnonzero((mask_h == h) & (mask_w == w))
        return fraction(col[channel, columns[0]]) if columns.size else Fraction(0)

    return {"im": im}
