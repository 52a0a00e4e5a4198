"""Mistakes that kernels make about which pixel a column goes to."""

from collections.abc import Callable, Mapping

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.suspects import Suspect, as_read, with_inputs

from .precondition import precondition
from .reference import reference


def _masks_exchanged(call: OpCall) -> OpCall | None:
    read = with_inputs(call, mask_h_idx=call.array("mask_w_idx"), mask_w_idx=call.array("mask_h_idx"))
    return None if precondition(read) else read


def _masks_ignored(call: OpCall) -> OpCall | None:
    _, _, height, width = call.tensor("im").dims
    masks = call.array("mask_h_idx")
    if len(masks) > height * width:
        return None
    rows, cols = np.divmod(np.arange(len(masks), dtype=masks.dtype), masks.dtype.type(width))
    return with_inputs(call, mask_h_idx=rows, mask_w_idx=cols)


def _sorted(rows: Array, cols: Array) -> tuple[Array, Array]:
    order = np.lexsort((cols, rows))
    return rows[order], cols[order]


def _with_masks(change: Callable[[Array, Array], tuple[Array, Array]]) -> Suspect:
    """The same rows and columns in another order."""

    def read(call: OpCall) -> OpCall:
        rows, cols = change(call.array("mask_h_idx"), call.array("mask_w_idx"))
        return with_inputs(call, mask_h_idx=rows, mask_w_idx=cols)

    return as_read(reference, read)


def _at(place: Callable[[Array, Array, int, int], Array]) -> Suspect:
    """Columns at other linear places of their plane, by row, column, height and width; none outside of im."""

    def outputs(call: OpCall) -> Mapping[str, Array]:
        im = call.tensor("im")
        _, channels, height, width = im.dims
        image = np.zeros(im.dims, im.dtype.storage).reshape(-1)
        rows, cols = (call.array(name).astype(np.int64) for name in ("mask_h_idx", "mask_w_idx"))
        places = np.arange(channels)[:, None] * height * width + place(rows, cols, height, width)
        inside = (places >= 0) & (places < image.size)
        image[places[inside]] = call.array("col")[inside]
        return {"im": image.reshape(im.dims)}

    return outputs


def _col_as_masks_first(call: OpCall) -> OpCall:
    col = call.array("col")
    return with_inputs(call, col=np.ascontiguousarray(col.reshape(col.shape[::-1]).T))


SUSPECTS = {
    "mask_h_idx and mask_w_idx are exchanged": as_read(reference, _masks_exchanged),
    "column j goes to pixel j, whatever the masks say": as_read(reference, _masks_ignored),
    "masks are sorted without their columns": _with_masks(_sorted),
    "mask_h_idx is sorted without mask_w_idx": _with_masks(lambda rows, cols: (np.sort(rows), cols)),
    "masks are counted from 1": _at(lambda rows, cols, _, width: (rows - 1) * width + cols - 1),
    "masks name the row above": _at(lambda rows, cols, _, width: (rows + 1) * width + cols),
    "masks name the column to the left": _at(lambda rows, cols, _, width: rows * width + cols + 1),
    "a row of im has H elements": _at(lambda rows, cols, height, _: rows * height + cols),
    "mask_w_idx is the row": _at(lambda rows, cols, _, width: cols * width + rows),
    "col is read as [m, C]": as_read(reference, _col_as_masks_first),
}
