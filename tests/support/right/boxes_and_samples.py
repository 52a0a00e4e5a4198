"""Right variants of bbox_overlaps and ms_deform_attn_forward, written from the documents."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mluops_gtest.core.call import OpCall
from mluops_gtest.core.tensor import Array
from tests.support.right.sums import Sums

# Unions of two areas and an intersection w · h, in every order; the last one rounds its product with the difference.
UNIONS: dict[str, Callable[[Array, Array, Array, Array], Array]] = {
    "areas first": lambda a, b, w, h: (a + b) - w * h,
    "second less met": lambda a, b, w, h: a + (b - w * h),
    "first less met": lambda a, b, w, h: (a - w * h) + b,
    "fused": lambda a, b, w, h: ((a + b).astype(np.float64) - w.astype(np.float64) * h.astype(np.float64)).astype(
        a.dtype
    ),
}
QUOTIENTS: dict[str, Callable[[Array, Array], Array]] = {
    "divided": lambda met, area: met / area,
    "by reciprocal": lambda met, area: met * (area.dtype.type(1) / area),
}


def overlaps(call: OpCall, storage: type[Any]) -> Iterator[tuple[str, Array]]:
    """bbox_overlaps: every order of the three areas, with a division or a reciprocal, in that type."""
    first, second = (call.array(name).astype(storage) for name in ("bbox1", "bbox2"))
    if not call.param("aligned"):
        first = first[:, None]
    offset, zero = storage(call.param("offset")), storage(0)
    low, high = np.maximum(first[..., :2], second[..., :2]), np.minimum(first[..., 2:], second[..., 2:])
    sides = np.maximum(high - low + offset, zero)
    w, h = sides[..., 0], sides[..., 1]
    own, other = ((one[..., 2:] - one[..., :2] + offset).prod(axis=-1, dtype=storage) for one in (first, second))
    for (order, union), (way, quotient) in itertools.product(UNIONS.items(), QUOTIENTS.items()):
        area = union(own, other, w, h) if call.param("mode") == 0 else own + np.zeros_like(w)
        yield f"{order}, {way}", quotient(w * h, np.maximum(area, offset))


def sampled(call: OpCall, col: Array) -> Sums:
    """ms_deform_attn_forward: four pixels of every sample inside, each with one weight that is rounded to float."""
    names = ("value", "spatial_shapes", "level_start_index", "sampling_loc", "attn_weight")
    values, shapes, starts, locations, weights = (call.array(f"data_{name}") for name in names)
    rows, pixels, factors = [], [], []
    for level, (height, width) in enumerate(shapes):
        x, y = (
            locations[:, :, :, level, :, axis] * np.float32(size) - np.float32(0.5)
            for axis, size in ((0, width), (1, height))
        )
        at = np.nonzero((x > -1) & (x < width) & (y > -1) & (y < height))
        x, y = x[at], y[at]
        left, top = np.floor(x), np.floor(y)
        for right, below in itertools.product((0, 1), (0, 1)):
            column, row = (left + right).astype(int), (top + below).astype(int)
            there = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            by_x, by_y = np.float32(1) - np.abs(x - left - right), np.float32(1) - np.abs(y - top - below)
            batch, query, head, point = (index[there] for index in at)
            cells = starts[level] + row[there] * width + column[there]
            rows.append((batch * col.shape[1] + query) * col.shape[2] + head)
            pixels.append(values[batch, cells, head])
            factors.append(weights[batch, query, head, level, point] * (by_x * by_y)[there])
    count = int(np.prod(col.shape[:3]))
    return Sums(np.concatenate(rows), np.concatenate(pixels), np.concatenate(factors)[:, None], count)
