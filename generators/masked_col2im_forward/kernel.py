"""The kernel that the numpy backend runs: every pixel looks up the column that it shows."""

import numpy as np

from mluops_gtest.authoring import DType, Layout, OpCall, Status, TensorArg


def kernel(call: OpCall) -> Status:
    """Check the call, then write every pixel of im."""
    status, writes = _verdict(call)
    if writes:
        _show_columns(call)
    return status


def _show_columns(call: OpCall) -> None:
    im = call.array("im")
    masks = call.tensor("mask_h_idx").dims[0]
    if masks == 0:
        im[...] = 0
        return
    _, channels, height, width = im.shape
    # A pixel without a mask shows the column behind the last, which is +0.
    shown = np.full((height, width), masks)
    shown[call.array("mask_h_idx"), call.array("mask_w_idx")] = np.arange(masks)
    columns = np.zeros((channels, masks + 1), im.dtype)
    columns[:, :masks] = call.array("col")
    # All indices are in range; "clip" spares numpy the check of each, and a copy of im.
    np.take(columns, shown.ravel(), axis=1, out=im.reshape(channels, -1), mode="clip")


def _verdict(call: OpCall) -> tuple[Status, bool]:
    """The status, and whether im is written."""
    col, mask_h, mask_w, im = *call.inputs.values(), call.outputs["im"]
    if call.handle is None or col is None or mask_h is None or mask_w is None or im is None:
        return Status.BAD_PARAM, False
    tensors = (col, mask_h, mask_w, im)
    if not _shapes_agree(*tensors) or not _types_agree(*tensors):
        return Status.BAD_PARAM, False
    if any(arg.desc.is_strided or arg.desc.is_large for arg in tensors):
        return Status.NOT_SUPPORTED, False
    if im.desc.is_empty:
        return Status.BAD_PARAM, False
    if mask_h.desc.is_empty:
        # §1.1: a success without a look at workspace or pointers, and im is cleared all the same.
        return Status.SUCCESS, True
    if (call.workspace is None and call.workspace_size > 0) or any(arg.null for arg in tensors):
        return Status.BAD_PARAM, False
    return Status.SUCCESS, True


def _shapes_agree(col: TensorArg, mask_h: TensorArg, mask_w: TensorArg, im: TensorArg) -> bool:
    if len(mask_h.dims) != 1 or len(im.dims) != 4 or im.dims[0] != 1:
        return False
    return mask_w.dims == mask_h.dims and col.dims == (im.dims[1], *mask_h.dims)


def _types_agree(col: TensorArg, mask_h: TensorArg, mask_w: TensorArg, im: TensorArg) -> bool:
    return (
        im.layout is Layout.NCHW
        and col.dtype in (DType.FLOAT, DType.HALF)
        and im.dtype is col.dtype
        and mask_h.dtype is mask_w.dtype is DType.INT32
    )
