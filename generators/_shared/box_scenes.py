"""Recipes of scenes with boxes and points: boxes that do not meet, points around boxes, points on their faces."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput
from mluops_gtest.authoring.space import Drawn

from .boxes import BoxTest, beside_faces, clear_points, road_boxes, uniform, within
from .points import placed

# Boxes that must not meet stand so far apart, in metres; the idle points lie far below them.
_APART, _BELOW, _REACH = 16.0, -50.0, 75.0

Ints = tuple[int, ...]
Floats = tuple[float, ...]
Value = Literal["inf", "negative_inf", "nan"]


def boxes_apart(draw: Draw, count: int, dtype: DType = DType.FLOAT) -> Array:
    """Boxes [1, T, 7] that do not meet."""
    objects = road_boxes(draw, 1, count, dtype)
    width = math.isqrt(count - 1) + 1
    number = np.arange(count)
    objects[0, :, 0], objects[0, :, 1] = _APART * (number % width - width // 2), _APART * (number // width - width // 2)
    return objects


def planted_points(draw: Draw, boxes: Array, owners: Array, test: BoxTest, dtype: DType) -> Array:
    """Points [B, M, 3], each in the box of its batch that `owners` [B, M] names; those of −1 far from all."""

    def cloud(turn: int) -> Array:
        idle = uniform(draw.stream(f"idle {turn}"), -_REACH, _REACH, (*owners.shape, 3))
        idle[..., 2] += _BELOW - _REACH
        part = uniform(draw.stream(f"part {turn}"), -0.9, 0.9, idle.shape)
        own = np.take_along_axis(boxes, np.maximum(owners, 0)[..., None], axis=1)
        return np.where(owners[..., None] >= 0, within(own, part, bottom=test.bottom), idle)

    return clear_points(cloud, boxes, test, dtype)


def points_around(draw: Draw, boxes: Array, each: int, test: BoxTest, dtype: DType, skin: float = 0.0) -> Array:
    """Points [1, each · T, 3] in and around all boxes [1, T, 7], in any order; with a skin that near to a face."""
    count = boxes.shape[1]

    def cloud(turn: int) -> Array:
        part = uniform(draw.stream(f"part {turn}"), -1.5, 1.5, (1, count, each, 3))
        if skin:
            axis = draw.stream(f"face {turn}").integers(0, 3, (1, count, each, 1))
            part = np.where(np.arange(3) == axis, np.copysign(1 + skin * part, part), part / 1.6)
        # No box is empty.
        part[:, :, 0] = uniform(draw.stream(f"own {turn}"), -0.9, 0.9, (1, count, 3))
        places = within(boxes[:, :, None], part, bottom=test.bottom).reshape(1, -1, 3)
        return places[:, draw.stream("order").permutation(count * each)]

    return clear_points(cloud, boxes, test, dtype)


def with_value(made: RecipeOutput, value: Value) -> RecipeOutput:
    """Every third point has `value` on one axis, each axis in turn."""
    points = made.inputs["points"]
    rows = np.arange(0, points.shape[1], 3)
    points[:, rows, rows // 3 % 3] = {"nan": np.nan, "inf": np.inf, "negative_inf": -np.inf}[value]
    return made


@dataclass(frozen=True, slots=True)
class Scenes:
    """Recipes for operators with such a test; `made` gives of points, boxes and the number of features a call."""

    test: BoxTest
    made: Callable[[Draw, Params, Array, Array, int], RecipeOutput]

    def planted(
        self,
        draw: Draw,
        params: Params,
        dtype: DType,
        *,
        points: int,
        boxes: int,
        hits: Ints,
        rows: Ints,
        channels: int = 1,
    ) -> RecipeOutput:
        """Point hits[i] is in box rows[i], and no other point is in any."""
        if len(hits) != len(rows) or len(set(zip(hits, rows, strict=True))) != len(set(hits)):
            raise ValueError("hits and rows go in pairs, and a point is in one box")
        objects = boxes_apart(draw, boxes, dtype)
        owners = np.full((1, points), -1)
        owners[0, list(hits)] = rows
        return self.made(draw, params, planted_points(draw, objects, owners, self.test, dtype), objects, channels)

    def turned(
        self, draw: Draw, params: Params, dtype: DType, *, headings: Floats, each: int, skin: float = 0.0
    ) -> RecipeOutput:
        """A box of each heading, and points in and around every one, with a skin all near a face; two features."""
        objects = boxes_apart(draw, len(headings), dtype)
        objects[..., 6] = headings
        if skin:
            # Centres, too, use every bit of a mantissa.
            objects[..., :2] += uniform(draw.stream("centres"), -1.0, 1.0, (len(headings), 2))
        return self.made(draw, params, points_around(draw, objects, each, self.test, dtype, skin), objects, 2)

    def nested(self, draw: Draw, params: Params, dtype: DType, *, lengths: Ints, each: int) -> RecipeOutput:
        """Boxes of one place and heading, as many times larger than the first; points in and around; two features."""
        objects = np.repeat(boxes_apart(draw, 1, dtype), len(lengths), axis=1)
        objects[..., 3:6] *= np.array(lengths)[:, None]
        return self.made(draw, params, points_around(draw, objects, each, self.test, dtype), objects, 2)

    def faces(
        self, draw: Draw, params: Params, dtype: DType, *, lengths: Floats, offsets: Ints, exponent: int = -17
    ) -> RecipeOutput:
        """Straight boxes dx, dy, dz of `lengths`; points so many 2^exponent beyond each face, edge and corner."""
        sizes = np.array(lengths).reshape(-1, 3)
        unit = 2.0**exponent
        # Whole numbers beside each other; halves of lengths must be on the lattice.
        centres = draw.stream("centres").integers(-2, 3, (len(sizes), 3)) + np.arange(len(sizes))[:, None] * (6, 0, 0)
        straight = np.concatenate([centres, sizes, np.zeros((len(sizes), 1))], axis=1)
        cloud = beside_faces(straight, offsets, unit, bottom=self.test.bottom).reshape(-1, 3)
        cloud = cloud[draw.stream("order").permutation(len(cloud))]
        placed_cloud = placed(np.rint(cloud / unit), exponent, dtype)[None]
        return self.made(draw, params, placed_cloud, straight[None].astype(dtype.storage), 1)

    def recipes(self) -> dict[str, Callable[..., RecipeOutput]]:
        """All of them."""
        return {"planted": self.planted, "turned": self.turned, "nested": self.nested, "faces": self.faces}


# What fuzzing draws.

_HEADINGS = (100.0, 0.5, -math.pi / 2, math.pi, 0.0, math.pi / 4, 9.5, -3.0)
_LENGTHS = ((2.0, 1.0, 4.0), (1.0, 2.0, 0.0), (0.0, 1.0, 1.0), (-1.0, 1.0, 2.0, 2.0, 2.0, 2.0))


def draw_in_scenes(at: Mapping[str, Any], params: Params | None = None, **own: tuple[str, ...]) -> Drawn:
    """A call of the recipe that at["what"] names, or of `nonfinite` with that value; `own` are others by arguments."""
    points, boxes, few, what, dtype = at["points"], at["boxes"], at["few"], at["what"], at.get("dtype", "float")
    is_half = dtype == "half"
    args: dict[str, Any]
    match what:
        case _ if what in own:
            args = {name: at[name] for name in own[what]}
        case "planted":
            hits = tuple(dict.fromkeys((0, points // 2, points - 1)))
            # Halves are far from exact where many boxes reach far.
            boxes = min(boxes, 30) if is_half else boxes
            args = {"points": points, "boxes": boxes, "hits": hits, "rows": tuple(hit * few % boxes for hit in hits)}
            args["channels"] = at.get("channels", 1)
        case "turned":
            # Halves of large headings err too much.
            headings = np.roll(_HEADINGS, few)[:few] / (100 if is_half else 1)
            args = {"headings": tuple(headings.tolist()), "each": 1 + points // 8}
        case "nested":
            args = {"lengths": tuple(np.roll((1, 3, 2, 2), few)[:few].tolist()), "each": 1 + points // 8}
        case "faces":
            lengths = _LENGTHS[few % (3 if is_half else 4)]
            args = {"lengths": lengths, "offsets": (0, 1, -1, 2, -2)[: few + 1], "exponent": -6 if is_half else -17}
        case value:
            what, args = "nonfinite", {"value": value}
    return Drawn(what, params or {}, args, dtype)
