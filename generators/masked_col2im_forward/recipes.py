"""Recipes: which pixels of an image [channels, height, width] the masks name; `values` says what col holds.

Mask positions are addresses: every recipe names distinct pixels of the image (§1.4)."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .._shared.bit_patterns import KINDS, BitPatterns

column_values = BitPatterns("col", "sorts", KINDS).drawn

Image = tuple[int, int, int]

_OBJECTS = 5
_LARGEST_RADIUS = 4
# A multiple of the squares of all radii, so that distances in radii are compared as integers.
_RADII_SQUARED = 144


def detected(
    draw: Draw, params: Params, dtype: DType, *, image: Image, masks: int, values: str = "full"
) -> RecipeOutput:
    """The pixels nearest to a few objects in row-major order, as a detector lists the pixels that it keeps."""
    _, height, width = image
    _refuse_more(masks, height * width)
    rows, cols = np.divmod(np.arange(height * width), width)
    centre_h = draw.stream("centre_h").integers(0, height, (_OBJECTS, 1))
    centre_w = draw.stream("centre_w").integers(0, width, (_OBJECTS, 1))
    radius_h, radius_w = draw.stream("radii").integers(1, _LARGEST_RADIUS + 1, (2, _OBJECTS, 1))
    from_centre = (rows - centre_h) ** 2 * (_RADII_SQUARED // radius_h**2)
    from_centre += (cols - centre_w) ** 2 * (_RADII_SQUARED // radius_w**2)
    nearest = np.argsort(from_centre.min(axis=0), kind="stable")[:masks]
    return _assemble(draw, params, dtype, image, np.sort(nearest), values)


def pixels(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    image: Image,
    masks: int,
    order: Literal["rows", "columns", "descending", "shuffled"] = "shuffled",
    first: int = 0,
    values: str = "full",
) -> RecipeOutput:
    """Distinct pixels of the linear range from `first` on; its last pixel is always there, with two masks both ends."""
    _, height, width = image
    count = height * width - first
    _refuse_more(masks, count)
    # A mistake at an end of the image shows nowhere else.
    ends = np.array([count - 1, 0])[:masks]
    between = draw.stream("masks").sample(count - 2, masks - 2) + 1 if masks > 2 else np.empty(0, np.int64)
    chosen = np.sort(np.concatenate([ends, between])) + first
    match order:
        case "columns":
            chosen = chosen[np.lexsort((chosen // width, chosen % width))]
        case "descending":
            chosen = chosen[::-1]
        case "shuffled":
            chosen = chosen[draw.stream("order").permutation(masks)]
    return _assemble(draw, params, dtype, image, chosen, values)


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
    _, height, width = image
    rows, cols = np.array(mask_h, np.int64), np.array(mask_w, np.int64)
    if not (((rows >= 0) & (rows < height)).all() and ((cols >= 0) & (cols < width)).all()):
        raise ValueError(f"a mask position is outside of the image of {height} rows and {width} columns")
    return _assemble(draw, params, dtype, image, rows * width + cols, values)


def _refuse_more(masks: int, count: int) -> None:
    if masks > count:
        raise ValueError(f"{masks} masks need as many pixels; there are {count}")


def _assemble(draw: Draw, params: Params, dtype: DType, image: Image, chosen: Array, values: str) -> RecipeOutput:
    channels, height, width = image
    inputs = {
        "col": column_values(draw, dtype, (channels, len(chosen)), values),
        "mask_h_idx": (chosen // width).astype("<i4"),
        "mask_w_idx": (chosen % width).astype("<i4"),
    }
    return RecipeOutput(inputs, params, outputs={"im": (1, channels, height, width)})


# What fuzzing draws: distinct pixels in any order, values of any bits.


def draw(at: Mapping[str, Any]) -> Drawn | None:
    """Masks as a detector lists them, or anywhere."""
    if at["masks"] > at["height"] * at["width"]:
        return None
    args = {"image": (at["channels"], at["height"], at["width"]), "masks": at["masks"], "values": at["values"]}
    if at["what"] == "detected":
        return Drawn("detected", {}, args, at["dtype"])
    return Drawn("pixels", {}, {**args, "order": at["what"]}, at["dtype"])


SPACE = Space(
    axes={
        "dtype": Choice(("float", "half")),
        "channels": Sizes(1, 1025),
        "height": Sizes(1, 4097),
        "width": Sizes(1, 65537),
        "masks": Sizes(1, 4097),
        "values": Choice(tuple(KINDS)),
        "what": Choice(("detected", "rows", "columns", "descending", "shuffled")),
    },
    draw=draw,
    elements=lambda at: at["channels"] * (at["height"] * at["width"] + at["masks"]) + 2 * at["masks"],
)


RECIPES = {recipe.__name__: recipe for recipe in (detected, pixels, listed)}
