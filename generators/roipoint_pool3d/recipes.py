"""Recipes: boxes with so many points inside, nested and turned boxes, lattices on which points stand on faces."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .._shared.bit_patterns import KINDS, BitPatterns
from .._shared.box_scenes import Scenes, Value, boxes_apart, drawn_arguments, planted_points, with_value
from .._shared.boxes import clear_points, uniform, within
from . import SAMPLES, TEST

Values = Literal["full", "wide", "denormal", "nan", "inf", "nan_inf", "any_bits"]

_bit_patterns = BitPatterns("features", "sorts", KINDS).drawn
# Objects of a scene: every third has no points, every third fewer than S, every third more.
_OBJECTS, _BELOW = 12, -100.0


def _samples(params: Params) -> int:
    samples = params.get(SAMPLES, 512)
    assert isinstance(samples, int)
    return samples


def _made(
    draw: Draw, params: Params, points: Array, boxes: Array, channels: int, values: Values = "full"
) -> RecipeOutput:
    dtype = DType.HALF if points.dtype.itemsize == 2 else DType.FLOAT
    features = _bit_patterns(draw, dtype, (*points.shape[:2], channels), values)
    samples = _samples(params)
    dims = (*boxes.shape[:2], samples, 3 + channels)
    return RecipeOutput(
        {"points": points, "point_features": features, "boxes3d": boxes},
        {SAMPLES: samples},
        outputs={"pooled_features": dims, "pooled_empty_flag": dims[:2]},
    )


def scene(
    draw: Draw, params: Params, dtype: DType, *, points: int, boxes: int, channels: int, batches: int = 1
) -> RecipeOutput:
    """Boxes around 12 objects in turn: a third is empty, a third has fewer than S points, a third has more."""
    samples = _samples(params)
    objects = np.repeat(boxes_apart(draw, _OBJECTS, dtype), batches, axis=0)
    chosen = objects[:, np.arange(boxes) % _OBJECTS].astype(np.float64)
    jitter = uniform(draw.stream("proposals"), -1.0, 1.0, (batches, boxes, 6))
    chosen[..., :3] += 0.04 * jitter[..., :3] * chosen[..., 3:6]
    chosen[..., 3:6] *= 1.05 + 0.1 * jitter[..., 3:]
    chosen = chosen.astype(dtype.storage)
    few, many = max(1, samples // 2), 2 * samples
    owners = np.repeat(np.tile([-1, 1, 2], _OBJECTS // 3), np.tile([0, few, many], _OBJECTS // 3))
    owners[owners > 0] += np.repeat(np.arange(0, _OBJECTS, 3), few + many)
    if len(owners) > points:
        raise ValueError(f"{samples} samples of this scene take at least {len(owners)} points")
    owners = np.concatenate([owners, np.full(points - len(owners), -1)])
    owners = np.stack([owners[draw.stream(f"order {batch}").permutation(points)] for batch in range(batches)])

    def cloud(turn: int) -> Array:
        part = uniform(draw.stream(f"part {turn}"), -1.1, 1.1, (batches, points, 3))
        own = np.take_along_axis(objects, np.maximum(owners, 0)[..., None], axis=1)
        idle = 30 * part + np.array([0, 0, _BELOW])
        return np.where(owners[..., None] >= 0, within(own, part, bottom=True), idle)

    return _made(draw, params, clear_points(cloud, chosen, TEST, dtype), chosen, channels)


def counted(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    points: int,
    counts: tuple[int, ...],
    channels: int,
    batches: int = 1,
    values: Values = "full",
) -> RecipeOutput:
    """Boxes apart with so many points each, of any numbers; every batch begins with the next count."""
    if sum(counts) > points:
        raise ValueError("counts are of points that are there")
    apart = boxes_apart(draw, len(counts), dtype)[0]
    objects = np.stack([np.roll(apart, batch, axis=0) for batch in range(batches)])
    owners = np.full((batches, points), -1)
    for batch in range(batches):
        own = np.repeat(np.arange(len(counts)), np.roll(counts, -batch))
        owners[batch, draw.stream(f"order {batch}").permutation(points)[: len(own)]] = own
    return _made(draw, params, planted_points(draw, objects, owners, TEST, dtype), objects, channels, values)


def nonfinite(draw: Draw, params: Params, dtype: DType, *, value: Value) -> RecipeOutput:
    """Boxes with points inside, every third of which has `value` on one axis, each axis in turn."""
    return with_value(counted(draw, params, dtype, points=24, counts=(5, 0, 7), channels=1, batches=2), value)


RECIPES = {"scene": scene, "counted": counted, **Scenes(TEST, _made).recipes(), "nonfinite": nonfinite}


def draw_call(at: Mapping[str, Any]) -> Drawn | None:
    """A call of one of the recipes."""
    points, samples = at["points"], at["samples"]
    match at["what"]:
        case "scene":
            args = {"points": points + 16 * samples} | {name: at[name] for name in ("batches", "boxes", "channels")}
        case "counted":
            counts = tuple(n for n in (samples, 0, samples + 1, at["few"], points) if n <= points)
            args = {"points": sum(counts) + at["few"], "counts": counts}
            args |= {name: at[name] for name in ("batches", "channels", "values")}
        case "planted":
            args = drawn_arguments(at, is_half=at["dtype"] == "half") | {"channels": at["channels"]}
        case _:
            args = drawn_arguments(at, is_half=at["dtype"] == "half")
    recipe = at["what"] if at["what"] in RECIPES else "nonfinite"
    return Drawn(recipe, {SAMPLES: samples}, args, at["dtype"])


SPACE = Space(
    axes={
        "dtype": Choice(("float", "half")),
        "batches": Sizes(1, 5),
        "points": Sizes(1, 513),
        "boxes": Sizes(1, 129),
        "channels": Sizes(1, 65),
        "samples": Sizes(1, 65),
        "few": Choice((1, 2, 3, 4)),
        "values": Choice(get_args(Values)[:3]),
        "what": Choice(("scene", "counted", "planted", "turned", "nested", "faces", "inf", "negative_inf")),
    },
    draw=draw_call,
    elements=lambda at: at["batches"] * (3 + at["channels"]) * (at["points"] + (16 + at["boxes"]) * at["samples"]),
)
