"""Mistakes that kernels make about which pixel a column goes to."""

import numpy as np

from mluops_gtest.authoring import OpCall
from mluops_gtest.authoring.suspects import as_read, with_inputs

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


SUSPECTS = {
    "mask_h_idx and mask_w_idx are exchanged": as_read(reference, _masks_exchanged),
    "column j goes to pixel j, whatever the masks say": as_read(reference, _masks_ignored),
}
