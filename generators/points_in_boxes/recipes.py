"""Recipes: clouds whose points keep away from the faces of all boxes, and lattices on which they stand on them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .._shared.box_scenes import Scenes, Value, drawn_arguments, with_value
from .._shared.boxes import clear_points, road_boxes, uniform, within
from . import TEST

# The scene: points of a lidar sweep and where some of them are.
_REACH, _SHARE, _LIFT = 75.0, 0.13, 8.0
# How near to a face of its box a point of a dense scene may come, as a part of the half length.
_EDGE = 1e-3


def scene(
    draw: Draw, params: Params, dtype: DType, *, points: int, boxes: int, batches: int = 1, reach: float = 70.0
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

    return _made(draw, params, clear_points(cloud, objects, TEST, dtype), objects)


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


def nonfinite(draw: Draw, params: Params, dtype: DType, *, value: Value) -> RecipeOutput:
    """A dense scene in which every third point has `value` on one axis, each axis in turn."""
    return with_value(scene(draw, params, dtype, points=45, boxes=3, batches=2, reach=4.0), value)


def _made(_draw: Draw, _params: Params, points: Array, boxes: Array, _channels: int = 0) -> RecipeOutput:
    return RecipeOutput({"points": points, "boxes": boxes}, {})


RECIPES = {"scene": scene, **Scenes(TEST, _made).recipes(), "nonfinite": nonfinite}


def draw_call(at: Mapping[str, Any]) -> Drawn | None:
    """A call of one of the recipes."""
    if at["what"] == "scene":
        return Drawn("scene", {}, {name: at[name] for name in ("batches", "points", "boxes", "reach")}, "float")
    return Drawn(at["what"] if at["what"] in RECIPES else "nonfinite", {}, drawn_arguments(at), "float")


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
