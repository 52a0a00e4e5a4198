"""The oracle: one scatter along the pixels of a cleared image; and the figures for efficiency."""

import numpy as np

from mluops_gtest.authoring import Baseline, OpCall, Theory


def reference(call: OpCall) -> Baseline:
    """im, every element a copy of the bits of col or +0."""
    im = call.tensor("im")
    _, channels, height, width = im.dims
    # §1.1: the operator clears im itself, also where there is no mask position; mmcv leaves that to its caller.
    image = np.zeros((channels, height * width), im.dtype.storage)
    if not call.tensor("mask_h_idx").desc.is_empty:
        # §1.2: column j of col goes to row y = mask_h_idx[j] and column x = mask_w_idx[j] of every channel; what the
        # document calls (x, y, c) is im[0, c, y, x]. §3.6's mask_d_idx is mask_w_idx.
        rows, cols = call.array("mask_h_idx").astype(np.int64), call.array("mask_w_idx").astype(np.int64)
        image[:, rows * width + cols] = call.array("col")
    return Baseline({"im": image.reshape(im.dims)})


def theory(call: OpCall) -> Theory:
    """Pure IO: every tensor once, im as a whole because it is cleared; no arithmetic."""
    tensors = (call.tensor(name) for name in ("col", "mask_h_idx", "mask_w_idx", "im"))
    return Theory(io_bytes=sum(tensor.desc.nbytes for tensor in tensors), ops=0)
