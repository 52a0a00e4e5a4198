"""How the operators on masked pixels misread mask_h_idx and mask_w_idx; for suspects and mutants."""

from collections.abc import Callable

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.suspects import with_inputs

Masks = tuple[Array, Array]


def with_masks(change: Callable[[Array, Array], Masks]) -> Callable[[OpCall], OpCall]:
    """Makes of a call the one with other rows and columns of its masks."""

    def read(call: OpCall) -> OpCall:
        rows, cols = change(call.array("mask_h_idx"), call.array("mask_w_idx"))
        return with_inputs(call, mask_h_idx=rows, mask_w_idx=cols)

    return read


def exchanged(rows: Array, cols: Array) -> Masks:
    """Columns for rows."""
    return cols, rows


def in_image_order(rows: Array, cols: Array) -> Masks:
    """Row by row, as the pixels stand in the image."""
    order = np.lexsort((cols, rows))
    return rows[order], cols[order]


def rows_sorted_alone(rows: Array, cols: Array) -> Masks:
    """The columns stay where they are."""
    return np.sort(rows), cols


def in_type(narrow: Callable[[Array], Array]) -> Callable[[Array, Array], Masks]:
    """Both pass through a narrow type."""
    return lambda rows, cols: (narrow(rows.astype(np.int64)), narrow(cols.astype(np.int64)))
