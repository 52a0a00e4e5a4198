"""Recipes: boxes with so many points inside, nested and turned boxes, lattices on which points stand on faces."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .._shared.bit_patterns import KINDS, BitPatterns
from .._shared.box_scenes import boxes_apart, nested_boxes, planted_points, points_around, points_on_faces
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


def planted(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    points: int,
    boxes: int,
    channels: int,
    hits: tuple[int, ...],
    rows: tuple[int, ...],
) -> RecipeOutput:
    """Point hits[i] is in box rows[i], and no other point is in any."""
    if len(hits) != len(rows) or len(set(zip(hits, rows, strict=True))) != len(set(hits)):
        raise ValueError("hits and rows go in pairs, and a point is in one box")
    objects = boxes_apart(draw, boxes, dtype)
    owners = np.full((1, points), -1)
    owners[0, list(hits)] = rows
    return _made(draw, params, planted_points(draw, objects, owners, TEST, dtype), objects, channels)


def turned(
    draw: Draw, params: Params, dtype: DType, *, headings: tuple[float, ...], each: int, skin: float = 0.0
) -> RecipeOutput:
    """A box of each heading, and points in and around every one, with a skin all near a face; two features."""
    objects = boxes_apart(draw, len(headings), dtype)
    objects[..., 6] = headings
    return _made(draw, params, points_around(draw, objects, each, TEST, dtype, skin), objects, 2)


def nested(draw: Draw, params: Params, dtype: DType, *, lengths: tuple[int, ...], each: int) -> RecipeOutput:
    """Boxes on one ground and of one heading, as many times larger than the first; two features."""
    objects = nested_boxes(draw, lengths, dtype)
    return _made(draw, params, points_around(draw, objects, each, TEST, dtype), objects, 2)


def faces(
    draw: Draw, params: Params, dtype: DType, *, lengths: tuple[float, ...], offsets: tuple[int, ...], exponent: int
) -> RecipeOutput:
    """Straight boxes dx, dy, dz of `lengths`; points so many 2^exponent beyond each face, edge and corner."""
    return _made(draw, params, *points_on_faces(draw, lengths, offsets, exponent, TEST, dtype), 1)


_Value = Literal["inf", "negative_inf", "nan"]


def nonfinite(draw: Draw, params: Params, dtype: DType, *, value: _Value) -> RecipeOutput:
    """Boxes with points inside, every third of which has `value` on one axis, each axis in turn."""
    made = counted(draw, params, dtype, points=24, counts=(5, 0, 7), channels=1, batches=2)
    points = made.inputs["points"]
    rows = np.arange(0, points.shape[1], 3)
    points[:, rows, rows // 3 % 3] = {"nan": np.nan, "inf": np.inf, "negative_inf": -np.inf}[value]
    return made


# What fuzzing draws.

_RECIPES: tuple[Callable[..., RecipeOutput], ...] = (scene, counted, planted, turned, nested, faces, nonfinite)
_HEADINGS = (100.0, 0.5, -math.pi / 2, math.pi)
_LENGTHS = ((2.0, 1.0, 4.0), (1.0, 2.0, 0.0), (0.0, 1.0, 1.0), (-1.0, 1.0, 2.0, 2.0, 2.0, 2.0))


def draw_call(at: Mapping[str, Any]) -> Drawn | None:
    """A call of one of the recipes."""
    points, boxes, few, samples = at["points"], at["boxes"], at["few"], at["samples"]
    is_half = at["dtype"] == "half"
    match at["what"]:
        case "scene":
            args: dict[str, Any] = {name: at[name] for name in ("batches", "boxes", "channels")}
            args["points"] = points + 16 * samples
        case "counted":
            counts = tuple(n for n in (samples, 0, samples + 1, few, points) if n <= points)
            args = {"points": sum(counts) + few, "counts": counts, "values": at["values"]}
            args |= {name: at[name] for name in ("batches", "channels")}
        case "planted":
            hits = tuple(dict.fromkeys((0, points // 2, points - 1)))
            # Halves are far from exact where many boxes reach far.
            boxes = min(boxes, 30) if is_half else boxes
            args = {"points": points, "boxes": boxes, "channels": at["channels"], "hits": hits}
            args["rows"] = tuple(hit * few % boxes for hit in hits)
        case "turned":
            # Halves of large headings err too much.
            args = {"headings": tuple(h / 100 if is_half else h for h in _HEADINGS[:few]), "each": 1 + points // 8}
        case "nested":
            args = {"lengths": tuple(np.roll((1, 3, 2, 2), few)[:few].tolist()), "each": 1 + points // 8}
        case "faces":
            lengths = _LENGTHS[few % (3 if is_half else 4)]
            args = {"lengths": lengths, "offsets": (0, 1, -1, 2, -2)[: few + 1], "exponent": -6 if is_half else -17}
        case value:
            args = {"value": value}
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
    elements=lambda at: (
        at["batches"]
        * (
            (at["points"] + 16 * at["samples"]) * (3 + at["channels"])
            + at["boxes"] * at["samples"] * (3 + at["channels"])
        )
    ),
)

RECIPES = {recipe.__name__: recipe for recipe in _RECIPES}
