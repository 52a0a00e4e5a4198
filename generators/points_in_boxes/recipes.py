"""Recipes: clouds whose points keep away from the faces of all boxes, and lattices on which they stand on them."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .._shared.box_scenes import boxes_apart, nested_boxes, planted_points, points_around, points_on_faces
from .._shared.boxes import clear_points, road_boxes, uniform, within
from . import TEST

# The scene: points of a lidar sweep and where some of them are.
_REACH, _SHARE, _LIFT = 75.0, 0.13, 8.0
# How near to a face of its box a point of a dense scene may come, as a part of the half length.
_EDGE = 1e-3


def scene(
    draw: Draw, _: Params, dtype: DType, *, points: int, boxes: int, batches: int = 1, reach: float = 70.0
) -> RecipeOutput:
    """A road with cars of any heading: point 0 is in box 0, the last point in the last box alone, about 13 % in any."""
    objects = road_boxes(draw, batches, boxes, dtype, reach)
    # Above all others, so that no earlier box holds its point.
    objects[:, -1, 2] += _LIFT

    def cloud(turn: int) -> Array:
        wide, high = (
            uniform(draw.stream(f"{name} {turn}"), low, end, (batches, points, axes))
            for name, low, end, axes in (("ground", -_REACH, _REACH, 2), ("height", -2.5, 3.5, 1))
        )
        where, own = _in_boxes(draw, f"inside {turn}", objects, points)
        is_in = draw.stream(f"share {turn}").integers(0, 1000, where.shape) < 1000 * _SHARE
        is_in[:, [0, -1]] = True
        return np.where(is_in[..., None], own, np.concatenate([wide, high], axis=-1))

    return _made(clear_points(cloud, objects, TEST, dtype), objects)


def _in_boxes(draw: Draw, name: str, boxes: Array, points: int) -> tuple[Array, Array]:
    """The box of each point, [B, M], box 0 first and the last one last; and a place in it, half of them near a face."""
    batches, count, _ = boxes.shape
    where = draw.stream(f"{name} box").integers(0, count, (batches, points))
    where[:, 0], where[:, -1] = 0, count - 1
    part = uniform(draw.stream(f"{name} part"), -1.0, 1.0, (batches, points, 3))
    axis = draw.stream(f"{name} face").integers(0, 6, (batches, points, 1))
    skin = np.copysign(1 + _EDGE * uniform(draw.stream(f"{name} skin"), -1.0, 1.0, part.shape), part)
    # The first and the last point are not asked to be beside a face.
    axis[:, [0, -1]] = 6
    part = np.where(np.arange(3) == axis, skin, part)
    own = np.take_along_axis(boxes, where[..., None], axis=1)
    return where, within(own, part, bottom=TEST.bottom)


def planted(
    draw: Draw, _: Params, dtype: DType, *, points: int, boxes: int, hits: tuple[int, ...], rows: tuple[int, ...]
) -> RecipeOutput:
    """Point hits[i] is in box rows[i], and no other point is in any."""
    if len(hits) != len(rows) or len(set(zip(hits, rows, strict=True))) != len(set(hits)):
        raise ValueError("hits and rows go in pairs, and a point is in one box")
    objects = boxes_apart(draw, boxes)
    owners = np.full((1, points), -1)
    owners[0, list(hits)] = rows
    return _made(planted_points(draw, objects, owners, TEST, dtype), objects)


def turned(draw: Draw, _: Params, dtype: DType, *, headings: tuple[float, ...], each: int, skin: float = 0.0) -> RecipeOutput:
    """A box of each heading, and points in and around every one, with a skin all near a face."""
    objects = boxes_apart(draw, len(headings))
    objects[..., 6] = headings
    return _made(points_around(draw, objects, each, TEST, dtype, skin), objects)


def nested(draw: Draw, _: Params, dtype: DType, *, lengths: tuple[int, ...], each: int) -> RecipeOutput:
    """Boxes of one centre and heading, as many times larger than the first; points in all of them and around."""
    objects = nested_boxes(draw, lengths)
    return _made(points_around(draw, objects, each, TEST, dtype), objects)


def faces(draw: Draw, _: Params, dtype: DType, *, lengths: tuple[float, ...], offsets: tuple[int, ...]) -> RecipeOutput:
    """Boxes dx, dy, dz of `lengths` that are not turned; points so many 2^-17 beyond each face, edge and corner."""
    return _made(*points_on_faces(draw, lengths, offsets, -17, TEST, dtype))


_Value = Literal["inf", "negative_inf", "nan"]


def nonfinite(draw: Draw, params: Params, dtype: DType, *, value: _Value) -> RecipeOutput:
    """A dense scene in which every third point has `value` on one axis, each axis in turn."""
    made = scene(draw, params, dtype, points=45, boxes=3, batches=2, reach=4.0)
    points = made.inputs["points"]
    rows = np.arange(0, points.shape[1], 3)
    points[:, rows, rows // 3 % 3] = {"nan": np.nan, "inf": np.inf, "negative_inf": -np.inf}[value]
    return made


def _made(points: Array, boxes: Array) -> RecipeOutput:
    return RecipeOutput({"points": points, "boxes": boxes}, {})


# What fuzzing draws.

_RECIPES: tuple[Callable[..., RecipeOutput], ...] = (scene, planted, turned, nested, faces, nonfinite)
_HEADINGS = (0.0, 0.5, math.pi / 4, -math.pi / 2, math.pi, 9.5, -3.0, 100.0)
_LENGTHS = ((2.0, 1.0, 4.0), (1.0, 2.0, 0.0, 4.0, 1.0, 2.0), (0.0, 1.0, 1.0), (-1.0, 1.0, 2.0, 2.0, 2.0, 2.0))


def draw_call(at: Mapping[str, Any]) -> Drawn | None:
    """A call of one of the recipes."""
    points, boxes, few = at["points"], at["boxes"], at["few"]
    match at["what"]:
        case "scene":
            args: dict[str, Any] = {name: at[name] for name in ("batches", "points", "boxes", "reach")}
        case "planted":
            hits = tuple(dict.fromkeys((0, points // 2, points - 1)))
            args = {"points": points, "boxes": boxes, "hits": hits, "rows": tuple(h * few % boxes for h in hits)}
        case "turned":
            args = {"headings": tuple(np.roll(_HEADINGS, few)[:few].tolist()), "each": 1 + points // 8}
        case "nested":
            args = {"lengths": tuple(np.roll((1, 3, 2, 2), few)[:few].tolist()), "each": 1 + points // 8}
        case "faces":
            args = {"lengths": _LENGTHS[few % len(_LENGTHS)], "offsets": (0, 1, -1, 2, -2, 9)[: few + 1]}
        case value:
            return Drawn("nonfinite", {}, {"value": value}, "float")
    return Drawn(at["what"], {}, args, "float")


SPACE = Space(
    axes={
        "batches": Sizes(1, 5),
        "points": Sizes(1, 2049),
        "boxes": Sizes(1, 257),
        "few": Choice((1, 2, 3, 4)),
        "reach": Choice((2.0, 10.0, 70.0)),
        "what": Choice(("scene", "planted", "turned", "nested", "faces", "inf", "negative_inf")),
    },
    draw=draw_call,
    elements=lambda at: at["batches"] * (4 * at["points"] + 7 * at["boxes"] + at["points"] * at["boxes"] // 16),
)

RECIPES = {recipe.__name__: recipe for recipe in _RECIPES}
