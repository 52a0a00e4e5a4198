"""A backend to copy: one kernel of your own. Try it from the checkout:

mluops-test run --op masked_im2col_forward --backend examples/python_backend/my_kernels.py:backend
"""

import numpy as np

from mluops_gtest import Declined, OpCall, Status
from mluops_gtest.core.tensor import DType, Layout


class MyKernels:
    """Offers masked_im2col_forward and declines every other operator."""

    name = "my-kernels"

    def run(self, call: OpCall) -> Status:
        """Answer the call as the operator's C function would."""
        if call.operator != "masked_im2col_forward":
            raise Declined(f"no kernel for {call.operator} yet")
        status = check(call)
        if status is Status.SUCCESS and call.tensor("mask_h_idx").dims[0] > 0:
            masked_im2col(call)
        return status


def masked_im2col(call: OpCall) -> None:
    """Copy the part of each window that lies within the image."""
    image, columns = call.array("feature")[0], call.array("data_col")
    channels, height, width = image.shape
    kernel_h, kernel_w = call.param("kernel_h"), call.param("kernel_w")
    # Python integers: mask − pad may leave 32 bits.
    tops = [row - call.param("pad_h") for row in call.array("mask_h_idx").tolist()]
    lefts = [col - call.param("pad_w") for col in call.array("mask_w_idx").tolist()]
    for index, (top, left) in enumerate(zip(tops, lefts, strict=True)):
        window = np.zeros((channels, kernel_h, kernel_w), image.dtype)
        row, row_end = max(top, 0), min(top + kernel_h, height)
        col, col_end = max(left, 0), min(left + kernel_w, width)
        if row < row_end and col < col_end:
            window[:, row - top : row_end - top, col - left : col_end - left] = image[:, row:row_end, col:col_end]
        columns[:, index] = window.reshape(-1)


def check(call: OpCall) -> Status:
    """The parameter checks, in the order of the operator's document."""
    feature, mask_h, mask_w = (call.inputs[name] for name in ("feature", "mask_h_idx", "mask_w_idx"))
    data_col = call.outputs["data_col"]
    if call.handle is None or feature is None or mask_h is None or mask_w is None or data_col is None:
        return Status.BAD_PARAM
    tensors = (feature, mask_h, mask_w, data_col)
    if feature.layout is not Layout.NCHW or feature.dtype not in (DType.FLOAT, DType.HALF):
        return Status.BAD_PARAM
    if [arg.dtype for arg in tensors[1:]] != [DType.INT32, DType.INT32, feature.dtype]:
        return Status.BAD_PARAM
    if len(feature.dims) != 4 or feature.dims[0] != 1 or len(mask_h.dims) != 1 or mask_w.dims != mask_h.dims:
        return Status.BAD_PARAM
    kernel_h, kernel_w = call.param("kernel_h"), call.param("kernel_w")
    if data_col.dims != (feature.dims[1] * kernel_h * kernel_w, *mask_h.dims) or kernel_h <= 0 or kernel_w <= 0:
        return Status.BAD_PARAM
    if any(arg.desc.is_strided or arg.desc.is_large for arg in tensors):
        return Status.NOT_SUPPORTED
    if feature.desc.is_empty:
        return Status.BAD_PARAM
    if mask_h.desc.is_empty:
        return Status.SUCCESS
    workspace_missing = call.workspace is None and call.workspace_size > 0
    return Status.BAD_PARAM if workspace_missing or any(arg.null for arg in tensors) else Status.SUCCESS


backend = MyKernels()
