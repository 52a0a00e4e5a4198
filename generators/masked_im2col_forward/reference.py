"""The oracle: one gather from the feature map with a zero cell appended; and the figures for efficiency."""

import numpy as np

from mluops_gtest.authoring import Array, Baseline, OpCall, Theory


def reference(call: OpCall) -> Baseline:
    """data_col, every element a copy of a feature's bits or +0."""
    feature = call.array("feature")
    _, channels, height, width = feature.shape
    cells = _cells(call)
    # The cell behind the last stands for everything outside the image.
    image = np.zeros((channels, height * width + 1), feature.dtype)
    image[:, :-1] = feature.reshape(channels, -1)
    # All indices are in range; "clip" spares numpy the check of each.
    columns = np.take(image, cells.ravel(), axis=1, mode="clip")
    # §1.4, not §1.1: rows are channel-major, (c·kernel_h + i)·kernel_w + j.
    return Baseline({"data_col": columns.reshape(-1, cells.shape[-1])})


def theory(call: OpCall) -> Theory:
    """Pure IO: the cells under some window, the mask positions, the columns; no arithmetic."""
    feature, masks = call.tensor("feature"), call.tensor("mask_h_idx")
    _, channels, height, width = feature.dims
    cells = _cells(call)
    covered = np.zeros(height * width + 1, bool)
    covered[cells] = True
    elements = channels * (int(np.count_nonzero(covered[:-1])) + cells.size)
    return Theory(io_bytes=elements * feature.dtype.itemsize + 2 * masks.desc.nbytes, ops=0)


def _cells(call: OpCall) -> Array:
    """[kernel_h, kernel_w, m]: the linear cell that each window element copies, height·width outside the image."""
    _, _, height, width = call.tensor("feature").dims
    rows = _window(call.array("mask_h_idx"), call.param("pad_h"), call.param("kernel_h"))[:, None, :]
    cols = _window(call.array("mask_w_idx"), call.param("pad_w"), call.param("kernel_w"))[None, :, :]
    # §1.2: outside the image the value is 0, however far outside.
    inside = (rows >= 0) & (rows < height) & (cols >= 0) & (cols < width)
    return np.where(inside, rows * width + cols, height * width)


def _window(first: Array, pad: int, length: int) -> Array:
    """[length, m]: the coordinates that each window covers on one axis."""
    # §3.2 prints the end as exclusive and then copies it as inclusive; the CUDA listing beside it is right.
    # Every int32 is a legal mask index and every int a legal pad, so their difference needs 64 bits.
    return first.astype(np.int64) - pad + np.arange(length, dtype=np.int64)[:, None]
