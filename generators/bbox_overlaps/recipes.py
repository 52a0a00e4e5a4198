"""Recipes: rectangles of which about a tenth of the pairs overlap, listed ones, anchors, infinite sides."""

import math
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import numpy as np

from mluops_gtest.authoring import Array, ContentError, Draw, DType, Params, RecipeOutput
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .._shared.boxes import uniform
from . import measure

# full: every bit of a mantissa; integers: areas are exact, in half, too; offset: integers 0 … 100 beside 2^20, where
# tf32 sees nothing; wide: sides from 1/8 to 128; negative: full, and no coordinate is positive; one: sides of 1.
Values = Literal["full", "integers", "offset", "wide", "negative", "one"]
Kind = Literal["first_right", "second_left", "both_apart", "first_and_aside", "both_of_first"]

_PARAMS: Final = {"mode": 0, "aligned": False, "offset": 0}
# How far centres lie from the middle: full coordinates of halves are coarser.
_REACH: Final = {DType.FLOAT: 400.0, DType.HALF: 300.0}
# The longest side of which two areas are a half.
_LONGEST: Final = {DType.FLOAT: 256.0, DType.HALF: 170.0}
_OFFSET: Final = 2.0**20
# Right halves of half arithmetic stay below this, where 3e-3 is allowed.
_ROOM: Final = 2e-3


def drawn(
    draw: Draw, params: Params, dtype: DType, *, rows: int, boxes: int = 0, values: Values = "full"
) -> RecipeOutput:
    """Boxes around anywhere; the outermost ones of both sides meet each other, and half of equal rows do."""
    counts = rows, boxes or rows
    first, second = (_drawn(draw, f"bbox{side}", count, values, dtype) for side, count in enumerate(counts, 1))
    one = first[: min(counts) : 2]
    # Half of a side away, so that they overlap.
    moved = one + 0.25 * (one[:, 2:] - one[:, :2])[:, [0, 1, 0, 1]]
    second[: min(counts) : 2] = np.rint(moved) if values in ("integers", "offset", "one") else moved
    second[-1] = first[-1] = first[0]
    # The last row of ious is not that of box 0.
    step = 1 if values != "wide" else 0.125
    first[-1, 2:] += step
    second[-1, 2:] += 2 * step
    return _output(params, dtype, first, second)


def _drawn(draw: Draw, name: str, count: int, values: Values, dtype: DType) -> Array:
    centre, side = draw.stream(name), draw.stream(f"{name} sides")
    match values:
        case "integers" | "offset" | "one":
            if values == "offset" and dtype is DType.HALF:
                raise ValueError("2^20 is no half")
            first, end, most = (0, 50, 51) if values == "offset" else (-48, 49, 41)
            low = centre.integers(first, end, (count, 2)) + (_OFFSET if values == "offset" else 0.0)
            return np.concatenate([low, low + (1 if values == "one" else side.integers(1, most, (count, 2)))], 1)
        case "wide":
            middle = uniform(centre, -16.0, 16.0, (count, 2))
            half = np.abs(side.mantissas((count, 2), (-4, 5)).astype(np.float64))
        case _:
            reach, longest = _REACH[dtype], _LONGEST[dtype]
            middle = uniform(centre, -reach, reach, (count, 2)) - (reach + longest if values == "negative" else 0.0)
            half = uniform(side, 8.0, longest / 2, (count, 2))
    return np.concatenate([middle - half, middle + half], 1)


def listed(
    _: Draw, params: Params, dtype: DType, *, bbox1: tuple[float, ...], bbox2: tuple[float, ...]
) -> RecipeOutput:
    """The boxes that the declaration lists."""
    return _output(params, dtype, *(np.array(boxes, np.float64).reshape(-1, 4) for boxes in (bbox1, bbox2)))


# What stands beside [2, 3, 7, 11] and [4, 5, 8, 7]; the second of bbox2 is always [3, 4, 6, 12].
_PLACES: Final = {
    "disjoint_in_x": (20, 4, 25, 9), "disjoint_in_y": (3, -9, 6, -4), "disjoint_in_both": (-9, -20, -4, -11),
    "edge_in_x": (7, 4, 9, 9), "edge_in_y": (3, 11, 6, 14), "corner": (7, 11, 9, 14), "one_pixel_apart": (8, 4, 11, 9),
    "identical": (2, 3, 7, 11), "nested": (3, 5, 4, 9), "thin": (2, 6, 90, 7), "cross": (4, -30, 5, 60),
}  # fmt: skip


def placed(_: Draw, params: Params, dtype: DType, *, place: str) -> RecipeOutput:
    """Two boxes beside one at that place, and one that overlaps both."""
    return listed(_, params, dtype, bbox1=(2, 3, 7, 11, 4, 5, 8, 7), bbox2=(*_PLACES[place], 3, 4, 6, 12))


# 2^(1/3), 2^(2/3) and √2, the same on every machine.
_SCALES: Final = (1.0, 1.2599210498948732, 1.5874010519681994)
_RATIOS: Final = (1.4142135623730951, 1.0, 0.7071067811865476)
_IMAGE: Final = (800, 1333)


def anchors(
    draw: Draw, params: Params, dtype: DType, *, rows: int, strides: tuple[int, ...] = (8, 16, 32, 64, 128)
) -> RecipeOutput:
    """Objects anywhere in an image of 800 × 1333, and RetinaNet's nine anchors of each cell of these strides."""
    levels = []
    for stride in strides:
        height, width = (-(-side // stride) for side in _IMAGE)
        y, x = (axis.reshape(-1, 1, 1) * float(stride) for axis in np.indices((height, width)))
        sides = 4.0 * stride * np.array([[scale * ratio, scale / ratio] for ratio in _RATIOS for scale in _SCALES])
        half = np.minimum(sides, _LONGEST[dtype] if dtype is DType.HALF else math.inf) / 2
        levels.append((np.concatenate([x, y, x, y], -1) + np.concatenate([-half, half], 1)).reshape(-1, 4))
    middle = uniform(draw.stream("objects"), 0.0, 1.0, (rows, 2)) * _IMAGE[::-1]
    half = uniform(draw.stream("sides"), 8.0, _LONGEST[dtype] / 2, (rows, 2))
    return _output(params, dtype, np.concatenate([middle - half, middle + half], 1), np.concatenate(levels))


def infinite(draw: Draw, params: Params, dtype: DType, *, kind: Kind) -> RecipeOutput:
    """Boxes whose sides are infinite, among others: of one side, of both in different directions, or meeting."""
    made = drawn(draw, params, dtype, rows=5, boxes=5)
    first, second = made.inputs["bbox1"], made.inputs["bbox2"]
    if kind != "second_left":
        first[2, 2] = np.inf
    if kind in ("second_left", "both_apart"):
        second[2, 0] = -np.inf
    if kind == "both_of_first":
        second[2, 2] = np.inf
    if kind == "first_and_aside":
        # Inf · 0: far above all others, and as wide.
        second[1] = (0, 900, np.inf, 1000)
    return made


def _output(params: Params, dtype: DType, *boxes: Array) -> RecipeOutput:
    """The call, which half arithmetic, as released, must pass."""
    given: dict[str, Any] = {**_PARAMS, **params}
    first, second = (side.astype(dtype.storage) for side in boxes)
    if dtype is DType.HALF:
        some = first[:4096], second[: 4096 if given["aligned"] else 256]
        with np.errstate(all="ignore"):
            own, right = (measure(*some, given, kind).ratio for kind in (np.float16, np.float64))
        off, right = (np.where(np.isfinite(right), values, 0).astype(np.float64) for values in (own - right, right))
        if np.abs(off).sum() > _ROOM * np.abs(right).sum() or (off**2).sum() > _ROOM**2 * (right**2).sum():
            raise ContentError("half arithmetic is too far off; let the boxes overlap more")
    dims = (len(first),) if given["aligned"] else (len(first), len(second))
    return RecipeOutput({"bbox1": first, "bbox2": second}, given, outputs={"ious": dims})


# What fuzzing draws.


def draw_call(at: Mapping[str, Any]) -> Drawn:
    """A call of one of the recipes."""
    params = {name: at[name] for name in _PARAMS}
    if at["values"] == "infinite":
        return Drawn("infinite", params, {"kind": get_args(Kind)[at["rows"] % 4]}, at["dtype"])
    boxes = 0 if at["aligned"] else at["boxes"]
    return Drawn("drawn", params, {"rows": at["rows"], "boxes": boxes, "values": at["values"]}, at["dtype"])


SPACE = Space(
    axes={
        "aligned": Choice((False, True)),
        "rows": Sizes(1, 257),
        "boxes": Sizes(1, 257),
        "mode": Choice((0, 1)),
        "offset": Choice((0, 1)),
        "dtype": Choice(("float", "half")),
        "values": Choice((*get_args(Values), "infinite")),
    },
    draw=draw_call,
    elements=lambda at: 4 * at["rows"] + 4 * at["boxes"] + at["rows"] * (1 if at["aligned"] else at["boxes"]),
)

RECIPES = {"drawn": drawn, "listed": listed, "placed": placed, "anchors": anchors, "infinite": infinite}
