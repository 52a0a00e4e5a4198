"""What operators on masked pixels share: what their kernels refuse, and how mask_h_idx and mask_w_idx are misread."""

from collections.abc import Callable

import numpy as np

from mluops_gtest.authoring import Array, DType, Layout, OpCall, Status
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


def answer_early(call: OpCall, image: str, columns: str, rows: Callable[[int], int | None]) -> Status | None:
    """What a kernel answers without a look at the data; None where it copies.

    `rows`: how many rows the columns have for so many channels of the image; None where the parameters allow none.
    """
    tensors = {**call.inputs, **call.outputs}
    pixels, matrix, mask_h, mask_w = (tensors[name] for name in (image, columns, "mask_h_idx", "mask_w_idx"))
    if call.handle is None or pixels is None or matrix is None or mask_h is None or mask_w is None:
        return Status.BAD_PARAM
    if pixels.layout is not Layout.NCHW or pixels.dtype not in (DType.FLOAT, DType.HALF):
        return Status.BAD_PARAM
    if matrix.dtype is not pixels.dtype or not (mask_h.dtype is mask_w.dtype is DType.INT32):
        return Status.BAD_PARAM
    if len(mask_h.dims) != 1 or len(pixels.dims) != 4 or pixels.dims[0] != 1:
        return Status.BAD_PARAM
    if mask_w.dims != mask_h.dims or matrix.dims != (rows(pixels.dims[1]), *mask_h.dims):
        return Status.BAD_PARAM
    arguments = (pixels, matrix, mask_h, mask_w)
    if any(one.desc.is_strided or one.desc.is_large for one in arguments):
        return Status.NOT_SUPPORTED
    if pixels.desc.is_empty:
        return Status.BAD_PARAM
    if mask_h.desc.is_empty:
        # §1.1: a success without a look at workspace or pointers.
        return Status.SUCCESS
    if (call.workspace is None and call.workspace_size > 0) or any(one.null for one in arguments):
        return Status.BAD_PARAM
    return None
