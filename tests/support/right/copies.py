"""Values that are copied or chosen, in three right ways each."""

from collections.abc import Iterator

import numpy as np

from mluops_gtest.core.call import OpCall
from mluops_gtest.core.tensor import Array


def maxima(feats: Array, voxels: Array, count: int) -> Iterator[tuple[str, Array]]:
    """The largest feature of each voxel, NaN ignored, −Inf where there is nothing else."""
    start = np.full((count, feats.shape[1]), -np.inf, np.float32)
    met = start.copy()
    np.fmax.at(met, voxels, feats)
    yield "one by one", met
    order = np.argsort(voxels, kind="stable")
    starts = np.flatnonzero(np.diff(voxels[order], prepend=-1))
    yield "voxel by voxel", np.fmax(np.fmax.reduceat(feats[order], starts, axis=0), start)
    largest = start.copy()
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    by_rank = order[np.argsort(rank, kind="stable")]
    for points in np.split(by_rank, np.cumsum(np.bincount(rank))[:-1]):
        rows = largest[voxels[points]]
        # A NaN is not larger than anything.
        largest[voxels[points]] = np.where(feats[points] > rows, feats[points], rows)
    yield "compared rank by rank", largest


def chosen_gradients(call: OpCall) -> Iterator[tuple[str, Array]]:
    """dynamic_scatter_backward: the first point with the voxel's value gets the gradient."""
    feats, voxel_of = call.array("feats"), call.array("point2voxel_map").astype(np.int64)
    if call.tensor("voxel_feats").desc.is_empty:
        for name in ("the least of all", "backwards", "sorted"):
            yield name, np.zeros(feats.shape, np.float32)
        return
    voxel_feats, gradients = call.array("voxel_feats"), call.array("grad_voxel_feats")
    points = np.flatnonzero((voxel_of >= 0) & (voxel_of < call.array("voxel_num")[0]))
    rows, channels = np.nonzero(feats[points] == voxel_feats[voxel_of[points]])
    rows = points[rows]
    voxels = voxel_of[rows]

    first = np.full(voxel_feats.shape, len(feats))
    np.minimum.at(first, (voxels, channels), rows)
    yield "the least of all", _placed(first, gradients, feats)

    first = np.full(voxel_feats.shape, len(feats))
    # Of several that are written to one place the last remains: the first point, when they come backwards. They are
    # copied, because numpy walks through reversed views as they lie in memory.
    backwards = tuple(index[::-1].copy() for index in (voxels, channels, rows))
    first[backwards[:2]] = backwards[2]
    yield "backwards", _placed(first, gradients, feats)

    result = np.zeros(feats.shape, np.float32)
    _, places = np.unique(voxels * feats.shape[1] + channels, return_index=True)
    result[rows[places], channels[places]] = gradients[voxels[places], channels[places]]
    yield "sorted", result


def _placed(first: Array, gradients: Array, feats: Array) -> Array:
    result = np.zeros(feats.shape, np.float32)
    voxels, channels = np.nonzero(first < len(feats))
    result[first[voxels, channels], channels] = gradients[voxels, channels]
    return result


def columns(call: OpCall) -> Iterator[tuple[str, Array]]:
    """masked_im2col_forward: the window of every mask position, 0 outside the image."""
    image = call.array("feature")[0]
    channels, height, width = image.shape
    size = call.param("kernel_h"), call.param("kernel_w")
    tops = call.array("mask_h_idx").astype(np.int64) - call.param("pad_h")
    lefts = call.array("mask_w_idx").astype(np.int64) - call.param("pad_w")
    masks = len(tops)

    by_element = np.zeros((channels, *size, masks), image.dtype)
    for i, j in np.ndindex(*size):
        y, x = tops + i, lefts + j
        inside = np.flatnonzero((y >= 0) & (y < height) & (x >= 0) & (x < width))
        by_element[:, i, j, inside] = image[:, y[inside], x[inside]]
    yield "element by element of the window", by_element

    by_mask = np.zeros((channels, *size, masks), image.dtype)
    for mask, (top, left) in enumerate(zip(tops.tolist(), lefts.tolist(), strict=True)):
        first = max(top, 0), max(left, 0)
        last = min(top + size[0], height), min(left + size[1], width)
        if first[0] < last[0] and first[1] < last[1]:
            rows, cols = (slice(a - start, b - start) for a, b, start in zip(first, last, (top, left), strict=True))
            by_mask[:, rows, cols, mask] = image[:, first[0] : last[0], first[1] : last[1]]
    yield "mask by mask", by_mask

    y, x = tops + np.arange(size[0])[:, None], lefts + np.arange(size[1])[:, None]
    is_row, is_col = (y >= 0) & (y < height), (x >= 0) & (x < width)
    by_channel = np.empty((channels, *size, masks), image.dtype)
    clipped = y.clip(0, height - 1)[:, None], x.clip(0, width - 1)[None]
    inside = is_row[:, None] & is_col[None]
    for channel, plane in enumerate(image):
        by_channel[channel] = np.where(inside, plane[clipped], plane.dtype.type(0))
    yield "channel by channel", by_channel


def images(call: OpCall) -> Iterator[tuple[str, Array]]:
    """masked_col2im_forward: every column goes to its mask position of a cleared image."""
    im = call.tensor("im")
    _, channels, height, width = im.dims
    cleared = np.zeros((channels, height * width), im.dtype.storage)
    if call.tensor("mask_h_idx").desc.is_empty:
        for name in ("by pixel", "by channel", "pulled"):
            yield name, cleared
        return
    col = call.array("col")
    pixels = call.array("mask_h_idx").astype(np.int64) * width + call.array("mask_w_idx")

    by_pixel = cleared.copy()
    for mask, pixel in enumerate(pixels.tolist()):
        by_pixel[:, pixel] = col[:, mask]
    yield "by pixel", by_pixel

    by_channel = cleared.copy()
    np.put_along_axis(by_channel, np.broadcast_to(pixels, col.shape), col, axis=1)
    yield "by channel", by_channel

    source = np.full(height * width, -1)
    source[pixels] = np.arange(len(pixels))
    with_zero = np.concatenate([col, np.zeros((channels, 1), col.dtype)], axis=1)
    yield "pulled", with_zero[:, source]
