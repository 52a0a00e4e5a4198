"""Mistakes that kernels make about which cell a window element copies."""

from collections.abc import Callable, Mapping

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.suspects import Suspect, as_read, with_inputs, with_params

from .reference import reference


def _with_masks(change: Callable[[Array, Array], tuple[Array, Array]]) -> Suspect:
    """Other rows and columns of the image."""

    def read(call: OpCall) -> OpCall:
        rows, columns = change(call.array("mask_h_idx"), call.array("mask_w_idx"))
        return with_inputs(call, mask_h_idx=rows, mask_w_idx=columns)

    return as_read(reference, read)


def _in_image_order(rows: Array, columns: Array) -> tuple[Array, Array]:
    order = np.lexsort((columns, rows))
    return rows[order], columns[order]


def _with_pads(change: Callable[[OpCall], tuple[int, int]]) -> Suspect:
    """Other numbers of rows above and columns to the left of the image."""

    def read(call: OpCall) -> OpCall:
        above, left = change(call)
        return with_params(call, pad_h=above, pad_w=left)

    return as_read(reference, read)


def _with_image(change: Callable[[Array], Array]) -> Suspect:
    """Another image [1, C, H, W] of the same shape."""
    return as_read(
        reference, lambda call: with_inputs(call, feature=np.ascontiguousarray(change(call.array("feature"))))
    )


def _channels_last(image: Array) -> Array:
    _, channels, height, width = image.shape
    return image.reshape(1, height, width, channels).transpose(0, 3, 1, 2)


def _columns_first(image: Array) -> Array:
    _, channels, height, width = image.shape
    return image.reshape(1, channels, width, height).swapaxes(2, 3)


def _kernel_major(call: OpCall) -> Mapping[str, Array]:
    columns = reference(call).outputs["data_col"]
    by_channel = columns.reshape(call.tensor("feature").dims[1], -1, columns.shape[1])
    return {"data_col": by_channel.swapaxes(0, 1).reshape(columns.shape)}


SUSPECTS = {
    "windows begin at the mask position, without the padding": as_read(
        reference, lambda call: with_params(call, pad_h=0, pad_w=0)
    ),
    "mask_h_idx and mask_w_idx are exchanged": _with_masks(lambda rows, columns: (columns, rows)),
    "masks are counted from 1": _with_masks(lambda rows, columns: (rows - 1, columns - 1)),
    "masks are taken in the order of the image": _with_masks(_in_image_order),
    "mask_h_idx is sorted without mask_w_idx": _with_masks(lambda rows, columns: (np.sort(rows), columns)),
    "windows begin at the mask position plus the padding": _with_pads(
        lambda call: (-call.param("pad_h"), -call.param("pad_w"))
    ),
    "pad_h and pad_w are exchanged": _with_pads(lambda call: (call.param("pad_w"), call.param("pad_h"))),
    "pad_h holds for both axes": _with_pads(lambda call: (call.param("pad_h"), call.param("pad_h"))),
    "masks name the middle of the window": _with_pads(
        lambda call: (call.param("kernel_h") // 2, call.param("kernel_w") // 2)
    ),
    "kernel_h and kernel_w are exchanged": as_read(
        reference,
        lambda call: with_params(call, kernel_h=call.param("kernel_w"), kernel_w=call.param("kernel_h")),
    ),
    "feature is read as NHWC": _with_image(_channels_last),
    "feature is read as NCWH": _with_image(_columns_first),
    "every channel is the first one": _with_image(lambda image: np.broadcast_to(image[:, :1], image.shape)),
    # §1.1's order.
    "rows stand by kernel offset, then by channel": _kernel_major,
}
