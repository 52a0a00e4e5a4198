"""The kernel that the numpy backend runs: §3.1's steps on a channels-last image with a border of zeros."""

import numpy as np

from mluops_gtest.authoring import Array, DType, Layout, OpCall, Status, TensorArg


def kernel(call: OpCall) -> Status:
    """Check the call, then copy every window into its column of data_col."""
    status, computes = _verdict(call)
    if computes:
        _copy_windows(call)
    return status


def _copy_windows(call: OpCall) -> None:
    image = call.array("feature")[0]
    channels, height, width = image.shape
    kernel_h, kernel_w = call.param("kernel_h"), call.param("kernel_w")
    # §3.1 step 1: channels last, so that a pixel is one run of memory. A window that is wholly outside
    # moves to the border, which is as wide as the kernel: there it reads zeros, whatever its distance was.
    bordered = np.zeros((height + 2 * kernel_h, width + 2 * kernel_w, channels), image.dtype)
    bordered[kernel_h : kernel_h + height, kernel_w : kernel_w + width] = image.transpose(1, 2, 0)
    top = _first(call.array("mask_h_idx"), call.param("pad_h"), kernel_h, height)
    left = _first(call.array("mask_w_idx"), call.param("pad_w"), kernel_w, width)
    columns = left + np.arange(kernel_w)[:, None]
    windows = call.array("data_col").reshape(channels, kernel_h, kernel_w, len(top))
    for row in range(kernel_h):
        windows[:, row] = bordered[top + row, columns].transpose(2, 0, 1)


def _first(mask: Array, pad: int, length: int, extent: int) -> Array:
    """Where each window begins on one axis of the bordered image."""
    return np.clip(mask.astype(np.int64) - pad, -length, extent) + length


def _verdict(call: OpCall) -> tuple[Status, bool]:
    """The status, and whether there is anything to compute."""
    feature, mask_h = call.inputs["feature"], call.inputs["mask_h_idx"]
    mask_w, data_col = call.inputs["mask_w_idx"], call.outputs["data_col"]
    if call.handle is None or feature is None or mask_h is None or mask_w is None or data_col is None:
        return Status.BAD_PARAM, False
    tensors = (feature, mask_h, mask_w, data_col)
    if not _types_agree(*tensors) or not _shapes_agree(call, *tensors):
        return Status.BAD_PARAM, False
    if any(arg.desc.is_strided or arg.desc.is_large for arg in tensors):
        return Status.NOT_SUPPORTED, False
    if feature.desc.is_empty:
        return Status.BAD_PARAM, False
    if mask_h.desc.is_empty:
        return Status.SUCCESS, False
    if (call.workspace is None and call.workspace_size > 0) or any(arg.null for arg in tensors):
        return Status.BAD_PARAM, False
    return Status.SUCCESS, True


def _types_agree(feature: TensorArg, mask_h: TensorArg, mask_w: TensorArg, data_col: TensorArg) -> bool:
    return (
        feature.layout is Layout.NCHW
        and feature.dtype in (DType.FLOAT, DType.HALF)
        and data_col.dtype is feature.dtype
        and mask_h.dtype is mask_w.dtype is DType.INT32
    )


def _shapes_agree(call: OpCall, feature: TensorArg, mask_h: TensorArg, mask_w: TensorArg, data_col: TensorArg) -> bool:
    if len(feature.dims) != 4 or len(mask_h.dims) != 1 or feature.dims[0] != 1:
        return False
    kernel_h, kernel_w = call.param("kernel_h"), call.param("kernel_w")
    rows = feature.dims[1] * kernel_h * kernel_w
    return kernel_h > 0 and kernel_w > 0 and mask_w.dims == mask_h.dims and data_col.dims == (rows, mask_h.dims[0])
