"""Recipes: where the windows lie on an image of [channels, height, width]; `values` names what the image holds."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput, Stream
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .._shared import bit_patterns

KINDS = {
    **bit_patterns.KINDS,
    "denormal": ("zero", "denormal", "denormal", "denormal"),
    "nan": ("nan", "near_one", "near_one"),
    "inf": ("inf", "near_one", "near_one"),
    "nan_inf": ("nan", "inf", "near_one"),
    "nan_only": ("nan",),
}
feature = bit_patterns.BitPatterns("feature", "special", KINDS).drawn

Image = tuple[int, int, int]

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
    draw: Draw, params: Params, dtype: DType, *, image: Image, masks: int, values: str = "full"
) -> RecipeOutput:
    """Distinct pixels in row-major order, as the set pixels of a detector's mask come."""
    _, height, width = image
    pixels = np.sort(draw.stream("masks").sample(height * width, masks))
    return _assemble(draw, _complete(params), dtype, image, pixels // width, pixels % width, values)


def scattered(
    draw: Draw, params: Params, dtype: DType, *, image: Image, masks: int, values: str = "full"
) -> RecipeOutput:
    """Random windows, from just outside one end of each axis to just outside the other."""
    p = _complete(params)
    _, height, width = image
    tops = draw.stream("mask_h_idx").integers(-p["kernel_h"], height + 1, masks)
    lefts = draw.stream("mask_w_idx").integers(-p["kernel_w"], width + 1, masks)
    return _assemble(draw, p, dtype, image, tops + p["pad_h"], lefts + p["pad_w"], values)


def sweep(draw: Draw, params: Params, dtype: DType, *, image: Image, values: str = "full") -> RecipeOutput:
    """Every window from one pixel clear of one end of each axis to one pixel clear of the other, in random order."""
    p = _complete(params)
    _, height, width = image
    tops = np.arange(-p["kernel_h"] - 1, height + 2)
    lefts = np.arange(-p["kernel_w"] - 1, width + 2)
    order = draw.stream("masks").permutation(len(tops) * len(lefts))
    mask_h, mask_w = tops[order // len(lefts)] + p["pad_h"], lefts[order % len(lefts)] + p["pad_w"]
    return _assemble(draw, p, dtype, image, mask_h, mask_w, values)


def windows_at(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    side: str,
    clear: bool,
    image: Image,
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
    return _assemble(draw, p, dtype, image, tops + p["pad_h"], lefts + p["pad_w"], values)


def listed(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    mask_h: tuple[int, ...],
    mask_w: tuple[int, ...],
    image: Image,
    values: str = "full",
) -> RecipeOutput:
    """The mask positions that the declaration lists."""
    return _assemble(draw, _complete(params), dtype, image, np.array(mask_h), np.array(mask_w), values)


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


def _assemble(
    draw: Draw, params: Params, dtype: DType, image: Image, mask_h: Array, mask_w: Array, values: str
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


# What fuzzing draws: windows everywhere on and around an image, values of any bits.


# Mask positions grow with the pad: beyond 2^15, 2^16 and 2^24 they leave what narrow integers and floats hold.
_PADS = (0, 1, 2, 4, 9, 300, 40_000, 70_001, 16_777_301)
_WINDOW = ("kernel_h", "kernel_w", "pad_h", "pad_w")


def draw(at: Mapping[str, Any]) -> Drawn | None:
    """Windows where one of the recipes puts them."""
    what, image = at["what"], (at["channels"], at["height"], at["width"])
    args: dict[str, Any] = {"image": image, "values": at["values"]}
    side, _, clear = what.partition(" ")
    if side in SIDES:
        args |= {"side": side, "clear": clear == "clear", "masks": at["masks"]}
        what = "windows_at"
    elif what != "sweep":
        if what == "mask_grid" and at["masks"] > at["height"] * at["width"]:
            return None
        args["masks"] = at["masks"]
    return Drawn(what, {name: at[name] for name in _WINDOW}, args, at["dtype"])


def elements(at: Mapping[str, Any]) -> int:
    """Image and columns; a sweep has a mask for every place."""
    masks = at["masks"]
    if at["what"] == "sweep":
        masks = (at["height"] + at["kernel_h"] + 3) * (at["width"] + at["kernel_w"] + 3)
    window = at["kernel_h"] * at["kernel_w"]
    return int(at["channels"] * (at["height"] * at["width"] + window * masks) + 2 * masks)


SPACE = Space(
    axes={
        "dtype": Choice(("float", "half")),
        "channels": Sizes(1, 129),
        "height": Sizes(1, 4097),
        "width": Sizes(1, 65537),
        "masks": Sizes(1, 1025),
        "kernel_h": Sizes(1, 9),
        "kernel_w": Sizes(1, 9),
        "pad_h": Choice(_PADS),
        "pad_w": Choice(_PADS),
        "values": Choice(tuple(KINDS)),
        "what": Choice(
            ("mask_grid", "scattered", "sweep", *(f"{side} {how}" for side in SIDES for how in ("across", "clear")))
        ),
    },
    draw=draw,
    elements=elements,
)


RECIPES = {recipe.__name__: recipe for recipe in (mask_grid, scattered, sweep, windows_at, listed)}
