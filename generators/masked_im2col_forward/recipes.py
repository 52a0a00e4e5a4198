"""Recipes: where the windows lie on an image of [channels, height, width]; `values` names what the image holds."""

from typing import Any

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput, Stream

from .values import feature

# Per side: on which end of (rows, columns) the windows lie; 0 is within the image.
SIDES = {
    "top": (-1, 0),
    "bottom": (1, 0),
    "left": (0, -1),
    "right": (0, 1),
    "top_left": (-1, -1),
    "top_right": (-1, 1),
    "bottom_left": (1, -1),
    "bottom_right": (1, 1),
}


def mask_grid(
    draw: Draw, params: Params, dtype: DType, *, image: tuple[int, int, int], masks: int, values: str = "full"
) -> RecipeOutput:
    """Distinct pixels in row-major order, as the set pixels of a detector's mask come."""
    _, height, width = image
    pixels = np.sort(draw.stream("masks").sample(height * width, masks))
    return _made(draw, _complete(params), dtype, image, pixels // width, pixels % width, values)


def scattered(
    draw: Draw, params: Params, dtype: DType, *, image: tuple[int, int, int], masks: int, values: str = "full"
) -> RecipeOutput:
    """Random windows, from just outside one end of each axis to just outside the other."""
    p = _complete(params)
    _, height, width = image
    tops = draw.stream("mask_h_idx").integers(-p["kernel_h"], height + 1, masks)
    lefts = draw.stream("mask_w_idx").integers(-p["kernel_w"], width + 1, masks)
    return _made(draw, p, dtype, image, tops + p["pad_h"], lefts + p["pad_w"], values)


def sweep(
    draw: Draw, params: Params, dtype: DType, *, image: tuple[int, int, int], values: str = "full"
) -> RecipeOutput:
    """Every window from one pixel clear of one end of each axis to one pixel clear of the other, in random order."""
    p = _complete(params)
    _, height, width = image
    tops = np.arange(-p["kernel_h"] - 1, height + 2)
    lefts = np.arange(-p["kernel_w"] - 1, width + 2)
    order = draw.stream("masks").permutation(len(tops) * len(lefts))
    mask_h, mask_w = tops[order // len(lefts)] + p["pad_h"], lefts[order % len(lefts)] + p["pad_w"]
    return _made(draw, p, dtype, image, mask_h, mask_w, values)


def windows_at(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    side: str,
    clear: bool,
    image: tuple[int, int, int],
    masks: int,
    values: str = "full",
) -> RecipeOutput:
    """Windows across an edge or a corner of the image; `clear` of it: wholly beyond, the first touching it."""
    if side not in SIDES:
        raise ValueError(f"unknown side {side!r}; known: {', '.join(SIDES)}")
    p = _complete(params)
    _, height, width = image
    row_end, col_end = SIDES[side]
    tops = _first(draw.stream("mask_h_idx"), row_end, clear, p["kernel_h"], height, masks)
    lefts = _first(draw.stream("mask_w_idx"), col_end, clear, p["kernel_w"], width, masks)
    return _made(draw, p, dtype, image, tops + p["pad_h"], lefts + p["pad_w"], values)


def listed(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    mask_h: tuple[int, ...],
    mask_w: tuple[int, ...],
    image: tuple[int, int, int],
    values: str = "full",
) -> RecipeOutput:
    """The mask positions that the declaration lists."""
    return _made(draw, _complete(params), dtype, image, np.array(mask_h), np.array(mask_w), values)


RECIPES = {recipe.__name__: recipe for recipe in (mask_grid, scattered, sweep, windows_at, listed)}


def _first(stream: Stream, end: int, clear: bool, length: int, extent: int, count: int) -> Array:
    """Where windows begin on one axis: within the image, across its low (−1) or high (1) end, or clear of that end."""
    if end == 0:
        low, high = sorted((0, extent - length))
    elif clear:
        low, high = (-length - 3, -length) if end < 0 else (extent, extent + 3)
    elif length == 1:
        raise ValueError("a window of length 1 is never across an edge; give a larger kernel or clear: true")
    else:
        low, high = (1 - length, -1) if end < 0 else (extent - length + 1, extent - 1)
    first = stream.integers(low, high + 1, count)
    if clear and end != 0:
        # A mistake by one pixel shows nowhere else.
        first[0] = high if end < 0 else low
    return first


def _complete(params: Params) -> dict[str, Any]:
    return {"kernel_h": 3, "kernel_w": 3, "pad_h": 1, "pad_w": 1} | dict(params)


def _made(
    draw: Draw, params: Params, dtype: DType, image: tuple[int, int, int], mask_h: Array, mask_w: Array, values: str
) -> RecipeOutput:
    inputs = {
        "feature": feature(draw, dtype, (1, *image), values),
        "mask_h_idx": _int32(mask_h),
        "mask_w_idx": _int32(mask_w),
    }
    return RecipeOutput(inputs, params)


def _int32(mask: Array) -> Array:
    narrow = mask.astype("<i4")
    if (narrow != mask).any():
        raise ValueError("a mask index leaves int32; give a smaller pad or list the mask positions")
    return narrow
