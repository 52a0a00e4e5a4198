"""masked_col2im_forward: writes the columns of a matrix to the mask positions of an image that is 0 elsewhere."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from mluops_gtest.authoring import (
    SIZE_NULL,
    Array,
    DType,
    Layout,
    OpCall,
    Operator,
    OutputSpec,
    QueryChecks,
    SizedAxis,
    Status,
    TensorSpec,
    axis,
    c_api,
    checks,
    exact,
)
from mluops_gtest.authoring.copy_of import CopyOf, define_copies
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction
from mluops_gtest.authoring.suspects import Suspect, as_read, with_inputs

from .._shared import masks

# What is checked, in normative order; the device's architecture is not.

CHECKS = (
    checks.handle("§3.7"),
    checks.descriptors(doc="§3.7"),
    checks.ranks("col", "im", "mask_h_idx", "mask_w_idx", doc="§1.1"),
    checks.layouts("im", doc="§1.4"),
    checks.dtypes("col", "im = col", "mask_h_idx", "mask_w_idx", doc="§1.4"),
    checks.dims("im.0", "mask_w_idx.0", "col.1", "col.0", doc="§1.4"),
    checks.strided(doc="§1.4"),
    # mask_w_idx is as long as mask_h_idx. All three answer alike, so their order is free: mask_h_idx comes last because
    # it alone can be large where im, which is asked next, is empty.
    checks.large("col", "im", "mask_h_idx", doc="released"),
    # §1.1: an image without elements is an error, no mask position is not.
    checks.empty("im", doc="§1.1", status=Status.BAD_PARAM),
    checks.require("col_dim0_empty", lambda call: call.tensor("col").dims[0] != 0, "col must have rows", "§1.1"),
    # §1.1 says no more than SUCCESS; the operator owns all of im, so it is cleared without masks, too.
    checks.empty("mask_h_idx", doc="§1.1", writes=True),
    checks.workspace("§3.7"),
    checks.pointers(doc="§3.7"),
)

# What the document takes for granted about the mask positions: they are addresses, and nothing checks them.


def precondition(call: OpCall) -> str | None:
    """No mask position is there twice (§1.4)."""
    if call.tensor("mask_h_idx").desc.is_empty:
        return None
    rows, cols = call.array("mask_h_idx").astype(np.int64), call.array("mask_w_idx").astype(np.int64)
    pixels = rows * call.tensor("im").dims[3] + cols
    order = np.argsort(pixels, kind="stable")
    same = np.flatnonzero(pixels[order[1:]] == pixels[order[:-1]])
    if same.size:
        first, second = order[same[0]], order[same[0] + 1]
        return f"masks {first} and {second} are the same pixel [{rows[first]}, {cols[first]}]"
    return None


# The definition: which column every pixel shows.


def copies(call: OpCall) -> CopyOf:
    """im, every element a copy of the bits of col or +0."""
    im, col = call.tensor("im"), call.tensor("col")
    _, _, height, width = im.dims
    # §1.1: the operator clears im itself, also where there is no mask position; mmcv leaves that to its caller.
    source = np.full(height * width, -1)
    if col.dims[1] == 0:
        return CopyOf(np.empty(col.dims, im.dtype.storage), source, im.dims)
    # §1.2: column j of col goes to row y = mask_h_idx[j] and column x = mask_w_idx[j] of every channel; what the
    # document calls (x, y, c) is im[0, c, y, x]. §3.6's mask_d_idx is mask_w_idx.
    rows, cols = call.array("mask_h_idx").astype(np.int64), call.array("mask_w_idx").astype(np.int64)
    source[rows * width + cols] = np.arange(len(rows))
    return CopyOf(call.array("col"), source, im.dims)


DEFINITION = define_copies("im", copies)


# Mistakes that kernels make about which pixel a column goes to.


def _masks_exchanged(call: OpCall) -> OpCall | None:
    read = masks.with_masks(masks.exchanged)(call)
    return None if OPERATOR.broken(read) else read


def _masks_ignored(call: OpCall) -> OpCall:
    width = call.tensor("im").dims[3]
    pixels = np.arange(call.tensor("mask_h_idx").dims[0], dtype="<i4")
    return masks.with_masks(lambda *_: (pixels // width, pixels % width))(call)


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
    "mask_h_idx and mask_w_idx are exchanged": as_read(DEFINITION.reference, _masks_exchanged),
    "column j goes to pixel j, whatever the masks say": as_read(DEFINITION.reference, _masks_ignored),
    "masks are sorted without their columns": as_read(DEFINITION.reference, masks.with_masks(masks.in_image_order)),
    "mask_h_idx is sorted without mask_w_idx": as_read(DEFINITION.reference, masks.with_masks(masks.rows_sorted_alone)),
    "masks are counted from 1": _at(lambda rows, cols, _, width: (rows - 1) * width + cols - 1),
    "masks name the row above": _at(lambda rows, cols, _, width: (rows + 1) * width + cols),
    "masks name the column to the left": _at(lambda rows, cols, _, width: rows * width + cols + 1),
    "a row of im has H elements": _at(lambda rows, cols, height, _: rows * height + cols),
    "mask_w_idx is the row": _at(lambda rows, cols, _, width: cols * width + rows),
    "col is read as [m, C]": as_read(DEFINITION.reference, _col_as_masks_first),
}


# One element of im as §1.2 defines it.


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


# The kernel that the numpy backend runs: im is cleared, and every column goes to its pixel.


def kernel(call: OpCall) -> Status:
    """Check the call, then write every pixel of im."""
    early = masks.answer_early(call, "im", "col", lambda channels: channels)
    # §1.1: im is cleared without masks, too.
    if early in (None, Status.SUCCESS):
        call.array("im")[...] = 0
    if early is not None:
        return early
    call.array("im")[0, :, call.array("mask_h_idx"), call.array("mask_w_idx")] = call.array("col").T
    return Status.SUCCESS


# With torch: one copy of all columns by the index of their pixel, on the elements' bits.


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write im."""
    import torch

    im = outputs["im"]
    # Integers of the same size: NaN payloads and −0 pass unchanged.
    bits = torch.int16 if im.dtype == torch.float16 else torch.int32
    _, channels, _, width = im.shape
    image = im.view(bits).view(channels, -1)
    image.zero_()
    # §1.1: without masks im is cleared, and the other pointers may be null.
    if call.tensor("mask_h_idx").desc.is_empty:
        return
    pixels = inputs["mask_h_idx"].to(torch.int64) * width + inputs["mask_w_idx"]
    image.index_copy_(1, pixels, inputs["col"].view(bits))


OPERATOR = Operator(
    name="masked_col2im_forward",
    released_name="masked_col2im_forward",
    op_type=("MASKED_COL2IM_FORWARD", 2201),
    summary="Writes every column of col to the pixel at its mask position, in all channels; elsewhere im is 0.",
    inputs=(
        TensorSpec("col", "[C, m]", (DType.FLOAT, DType.HALF)),
        # §1.4 calls the image "col" and prints the range of mask_w_idx without its 0; both ranges are those of im.
        TensorSpec("mask_h_idx", "[m]", (DType.INT32,), names="H"),
        TensorSpec("mask_w_idx", "[m]", (DType.INT32,), names="W"),
    ),
    # §1.5.1: a pure copy, so diff3 = 0. The operator clears im itself, so the caller presets nothing.
    outputs=(OutputSpec("im", "[1, C, H, W]", {DType.FLOAT: exact(), DType.HALF: exact()}, (Layout.NCHW,)),),
    axes={
        "masks": axis("m", of="mask_h_idx"),
        "channels": axis("C", of="im"),
        "height": axis("H", of="im"),
        "width": axis("W", of="im"),
    },
    checks=CHECKS,
    subsumed={"col_dim0_empty": "col has a row per channel of im, so im is empty"},
    # As released: the size is asked for behind the handle, then come the operator's own checks up to the early return.
    queries={"mluOpGetMaskedCol2imForwardWorkspaceSize": QueryChecks(("handle_null", SIZE_NULL, "… workspace_null"))},
    definition=DEFINITION,
    precondition=precondition,
    kernel=kernel,
    suspects=SUSPECTS,
    sizes={"masks": SizedAxis("col", 1)},
    # The size of the workspace comes before the workspace.
    c_api=c_api.c_function(
        "mluOpMaskedCol2imForward",
        query="mluOpGetMaskedCol2imForwardWorkspaceSize",
        arguments=(
            c_api.HANDLE,
            *c_api.tensor("col", "mask_h_idx", "mask_w_idx"),
            c_api.WORKSPACE_SIZE,
            c_api.WORKSPACE,
            *c_api.tensor("im"),
        ),
    ),
    exact=elements,
    torch_kernel=torch_kernel,
)
