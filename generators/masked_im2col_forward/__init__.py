"""masked_im2col_forward: copies the window at every mask position of a feature map into one column each."""

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
    ParamField,
    ParamMessage,
    QueryChecks,
    SizedAxis,
    Status,
    TensorSpec,
    Theory,
    axis,
    c_api,
    checks,
    exact,
)
from mluops_gtest.authoring.copy_of import CopyOf, define_copies
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction
from mluops_gtest.authoring.suspects import Suspect, as_read, misread, with_params

from .._shared import masks

# What is checked, in normative order; the device's architecture is not.

CHECKS = (
    checks.handle("§3.7"),
    checks.descriptors(doc="§3.7"),
    checks.layouts("feature", doc="§1.4"),
    checks.ranks("feature", doc="§1.1"),
    checks.dtypes("feature", "data_col = feature", "mask_h_idx", "mask_w_idx", doc="§1.4"),
    checks.ranks("mask_h_idx", "mask_w_idx", doc="§1.1"),
    checks.dims("mask_w_idx.0", "feature.0", doc="§1.4"),
    checks.ranks("data_col", doc="§1.1"),
    checks.dims("data_col.0", "data_col.1", doc="§1.4"),
    checks.params("kernel_h", "kernel_w", doc="§3.7"),
    checks.strided(doc="§1.4"),
    checks.large(doc="released"),
    # §1.1: no feature is an error, no mask position is not.
    checks.empty("feature", doc="§1.1", status=Status.BAD_PARAM),
    checks.require(
        "data_col_dim0_empty", lambda call: call.tensor("data_col").dims[0] != 0, "data_col must have rows", "§1.1"
    ),
    checks.empty("mask_h_idx", doc="§1.1"),
    checks.workspace("§3.7"),
    checks.pointers(doc="§3.7"),
)

# The definition: windows of a channels-first image, and 0 outside of it.


def copies(call: OpCall) -> CopyOf:
    """data_col, every element a copy of a feature's bits or +0."""
    feature = call.array("feature")
    # §1.4, not §1.1: rows are channel-major, (c·kernel_h + i)·kernel_w + j.
    return CopyOf(feature.reshape(feature.shape[1], -1), _cells(call).ravel(), _dims(call))


def _dims(call: OpCall) -> tuple[int, int]:
    window = call.param("kernel_h") * call.param("kernel_w")
    return call.tensor("feature").dims[1] * window, call.tensor("mask_h_idx").dims[0]


def _cells(call: OpCall) -> Array:
    """[kernel_h, kernel_w, m]: the linear cell that each window element copies, −1 outside the image."""
    _, _, height, width = call.tensor("feature").dims
    rows = _window(call.array("mask_h_idx"), call.param("pad_h"), call.param("kernel_h"))[:, None, :]
    cols = _window(call.array("mask_w_idx"), call.param("pad_w"), call.param("kernel_w"))[None, :, :]
    # §1.2: outside the image the value is 0, however far outside.
    inside = (rows >= 0) & (rows < height) & (cols >= 0) & (cols < width)
    return np.where(inside, rows * width + cols, -1)


def _window(first: Array, pad: int, length: int) -> Array:
    """[length, m]: the coordinates that each window covers on one axis."""
    # §3.2 prints the end as exclusive and then copies it as inclusive; the CUDA listing beside it is right.
    # Every int32 is a legal mask index and every int a legal pad, so their difference needs 64 bits.
    return first.astype(np.int64) - pad + np.arange(length, dtype=np.int64)[:, None]


def theory(call: OpCall) -> Theory:
    """Pure IO: the cells under some window, the mask positions, the columns; no arithmetic."""
    feature, listed = call.tensor("feature"), call.tensor("mask_h_idx")
    _, channels, height, width = feature.dims
    cells = _cells(call)
    covered = np.zeros(height * width, bool)
    covered[cells[cells >= 0]] = True
    elements = channels * (int(np.count_nonzero(covered)) + cells.size)
    return Theory(io_bytes=elements * feature.dtype.itemsize + 2 * listed.desc.nbytes, ops=0)


DEFINITION = define_copies("data_col", copies)


# Mistakes that kernels make about which cell a window element copies.


def _as_read(read: Callable[[OpCall], OpCall]) -> Suspect:
    return as_read(DEFINITION.reference, read)


def _with_params(change: Callable[[Mapping[str, int]], Mapping[str, int]]) -> Suspect:
    """Other parameters, by those of the call."""
    names = ("kernel_h", "kernel_w", "pad_h", "pad_w")
    return _as_read(lambda call: with_params(call, **change({name: int(call.param(name)) for name in names})))


def _channels_last(image: Array) -> Array:
    _, channels, height, width = image.shape
    return image.reshape(1, height, width, channels).transpose(0, 3, 1, 2)


def _columns_first(image: Array) -> Array:
    _, channels, height, width = image.shape
    return image.reshape(1, channels, width, height).swapaxes(2, 3)


def _kernel_major(call: OpCall) -> Mapping[str, Array]:
    columns = DEFINITION.reference(call).outputs["data_col"]
    by_channel = columns.reshape(call.tensor("feature").dims[1], -1, columns.shape[1])
    return {"data_col": by_channel.swapaxes(0, 1).reshape(columns.shape)}


SUSPECTS = {
    "windows begin at the mask position, without the padding": _with_params(lambda _: {"pad_h": 0, "pad_w": 0}),
    "mask_h_idx and mask_w_idx are exchanged": _as_read(masks.with_masks(masks.exchanged)),
    "masks are counted from 1": _as_read(masks.with_masks(lambda rows, cols: (rows - 1, cols - 1))),
    "masks are taken in the order of the image": _as_read(masks.with_masks(masks.in_image_order)),
    "mask_h_idx is sorted without mask_w_idx": _as_read(masks.with_masks(masks.rows_sorted_alone)),
    "windows begin at the mask position plus the padding": _with_params(
        lambda p: {"pad_h": -p["pad_h"], "pad_w": -p["pad_w"]}
    ),
    "pad_h and pad_w are exchanged": _with_params(lambda p: {"pad_h": p["pad_w"], "pad_w": p["pad_h"]}),
    "pad_h holds for both axes": _with_params(lambda p: {"pad_w": p["pad_h"]}),
    "masks name the middle of the window": _with_params(
        lambda p: {"pad_h": p["kernel_h"] // 2, "pad_w": p["kernel_w"] // 2}
    ),
    "kernel_h and kernel_w are exchanged": _with_params(
        lambda p: {"kernel_h": p["kernel_w"], "kernel_w": p["kernel_h"]}
    ),
    "feature is read as NHWC": _as_read(misread(feature=_channels_last)),
    "feature is read as NCWH": _as_read(misread(feature=_columns_first)),
    # §1.1's order.
    "rows stand by kernel offset, then by channel": _kernel_major,
}


# One element of data_col as §1.2 and §1.4 define it.


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """A cell of the window of a mask position, or 0 outside the image."""
    feature, mask_h, mask_w = (call.array(name) for name in ("feature", "mask_h_idx", "mask_w_idx"))
    _, _, height, width = feature.shape

    def data_col(row: int, column: int) -> Fraction | float:
        # Rows are channel-major: (c·kernel_h + i)·kernel_w + j.
        window_row, j = divmod(row, call.param("kernel_w"))
        channel, i = divmod(window_row, call.param("kernel_h"))
        h = int(mask_h[column]) - call.param("pad_h") + i
        w = int(mask_w[column]) - call.param("pad_w") + j
        inside = 0 <= h < height and 0 <= w < width
        return fraction(feature[0, channel, h, w]) if inside else Fraction(0)

    return {"data_col": data_col}


# The kernel that the numpy backend runs: §3.1's steps on a channels-last image with a border of zeros.


def kernel(call: OpCall) -> Status:
    """Check the call, then copy every window into its column of data_col."""
    kernel_h, kernel_w = call.param("kernel_h"), call.param("kernel_w")
    is_positive = kernel_h > 0 and kernel_w > 0
    early = masks.answer_early(call, "feature", "data_col", lambda c: c * kernel_h * kernel_w if is_positive else None)
    if early is not None:
        return early
    image = call.array("feature")[0]
    channels, height, width = image.shape
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
    return Status.SUCCESS


def _first(mask: Array, pad: int, length: int, extent: int) -> Array:
    """Where each window begins on one axis of the bordered image."""
    return np.clip(mask.astype(np.int64) - pad, -length, extent) + length


# With torch: one gather along the pixels for all windows, on the elements' bits.


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write every window into its column of data_col."""
    import torch

    # Integers of the same size: NaN payloads and −0 pass through a copy and a product with 1 unchanged.
    bits = torch.int16 if inputs["feature"].dtype == torch.float16 else torch.int32
    image = inputs["feature"].view(bits)[0]
    channels, height, width = image.shape
    rows, in_height = _reached(inputs["mask_h_idx"], call.param("pad_h"), call.param("kernel_h"), height)
    cols, in_width = _reached(inputs["mask_w_idx"], call.param("pad_w"), call.param("kernel_w"), width)
    # §1.4: row (c·kh + i)·kw + j, column the mask position.
    pixels = (rows[:, None] * width + cols).flatten()
    inside = in_height[:, None] & in_width
    windows = outputs["data_col"].view(bits).view(channels, -1)
    torch.gather(image.view(channels, -1), 1, pixels.expand(channels, -1), out=windows)
    windows *= inside.flatten()


def _reached(mask: Any, pad: int, length: int, extent: int) -> tuple[Any, Any]:
    """[length, m]: the image's row or column under each window position, and whether it exists."""
    import torch

    # 64 bits: any int32 position is legal, and the subtraction must not wrap around.
    position = mask.to(torch.int64) - pad + torch.arange(length, device=mask.device)[:, None]
    return position.clamp(0, extent - 1), (position >= 0) & (position < extent)


OPERATOR = Operator(
    name="masked_im2col_forward",
    released_name="masked_im2col_forward",
    op_type=("MASKED_IM2COL_FORWARD", 2202),
    summary="Copies the kernel_h×kernel_w window at every mask position of a feature map; outside the map it is 0.",
    inputs=(
        TensorSpec("feature", "[1, C, H, W]", (DType.FLOAT, DType.HALF), (Layout.NCHW,)),
        TensorSpec("mask_h_idx", "[m]", (DType.INT32,), names="H", outside="skipped"),
        TensorSpec("mask_w_idx", "[m]", (DType.INT32,), names="W", outside="skipped"),
    ),
    # §1.5.1: a pure copy, so diff3 = 0.
    outputs=(OutputSpec("data_col", "[C·kernel_h·kernel_w, m]", {DType.FLOAT: exact(), DType.HALF: exact()}),),
    params=ParamMessage(
        field="masked_im2col_forward_param",
        number=2201,
        message="MaskedIm2colForwardParam",
        fields=(
            ParamField("kernel_h", 1, default=3, least=1),
            ParamField("kernel_w", 2, default=3, least=1),
            ParamField("pad_h", 3, default=1),
            ParamField("pad_w", 4, default=1),
        ),
    ),
    axes={
        "masks": axis("m", of="mask_h_idx"),
        "channels": axis("C", of="feature"),
        "height": axis("H", of="feature"),
        "width": axis("W", of="feature"),
    },
    checks=CHECKS,
    subsumed={
        "mask_w_idx_large": "mask_w_idx is as long as mask_h_idx, which is checked first",
        "data_col_dim0_empty": "data_col has C·kernel_h·kernel_w rows and the kernel is positive, so feature is empty",
    },
    # The operator's own checks up to the early return. No case breaks another check beside the size, whose place is
    # open.
    queries={"mluOpGetMaskedIm2colForwardWorkspaceSize": QueryChecks((SIZE_NULL, "… workspace_null"))},
    definition=DEFINITION,
    kernel=kernel,
    suspects=SUSPECTS,
    sizes={"rows": SizedAxis("data_col", 0)},
    theory=theory,
    c_api=c_api.c_function(
        "mluOpMaskedIm2colForward",
        query="mluOpGetMaskedIm2colForwardWorkspaceSize",
        query_arguments=(
            c_api.HANDLE,
            *c_api.descriptor("feature", "mask_h_idx", "mask_w_idx"),
            *c_api.scalar("kernel_h", "kernel_w"),
            *c_api.descriptor("data_col"),
            c_api.ASKED_SIZE,
        ),
    ),
    exact=elements,
    torch_kernel=torch_kernel,
)
