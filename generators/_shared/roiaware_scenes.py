"""Boxes, points and features for RoI-aware pooling: scenes away from faces and borders, and exact lattices."""

import math
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput, call_of
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from . import roiaware as roi
from .boxes import Floats, Ints, beside_faces, clear_points, proposals, road_boxes, uniform, within

# full: every mantissa bit random; wide: many exponents; coarse: few bits, so that sums of few are exact; ties: 1, 2 or
# 3; zeros: −1, −0 and +0 in turn; negative: all below 0; the next have such a value at every other point, channel 0 of
# negative_inf nothing else; lowest: the least finite number alone; tiny: subnormal numbers among others.
Features = Literal[
    "full", "wide", "coarse", "ties", "zeros", "negative", "inf", "negative_inf", "nan", "lowest", "tiny"
]  # fmt: skip

_DEFAULTS: Final = {
    "pool_method": roi.MAX, "boxes_num": 2, "pts_num": 16, "channels": 2, "max_pts_each_voxel": 4,
    "out_x": 2, "out_y": 1, "out_z": 3,
}  # fmt: skip
# Points in no box lie so deep.
_DEPTH: Final = -40.0
_SHARE: Final = 0.8
# How far from the middle of its cell a point is drawn, of half its length.
_SPREAD: Final = {DType.FLOAT: 0.98, DType.HALF: 0.5}
# From this round on a point that keeps near some face or border goes where no box is.
_PATIENCE: Final = 24
# Of more boxes the first and the last stand alone, and hold the first and the last point.
_MANY: Final = 3
# Boxes that must not meet stand so far apart.
_APART: Final = 16.0


def complete(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with a default for each that is not declared."""
    return {name: params.get(name, default) for name, default in _DEFAULTS.items()}


def draw_features(draw: Draw, dtype: DType, shape: tuple[int, int], kind: Features) -> Array:
    """[P, C] of that kind."""
    stream, storage = draw.stream("pts_feature"), dtype.storage.str
    rows = np.arange(shape[0])[:, None]
    match kind:
        case "wide":
            return stream.mantissas(shape, (-6, 6), dtype=storage)
        case "coarse":
            return stream.lattice(shape, 5, 3, dtype=storage)
        case "ties":
            return stream.integers(1, 4, shape).astype(storage)
        case "zeros":
            values = np.array([-1.0, -0.0, 0.0], storage)
            # In some cells −0 comes first, in others +0.
            signed: Array = values[(rows + stream.integers(0, 3, shape)) % 3]
            return signed
        case "lowest":
            return np.full(shape, np.finfo(dtype.storage).min, storage)
    drawn = stream.mantissas(shape, dtype=storage)
    if kind in ("full", "negative"):
        return drawn if kind == "full" else -np.abs(drawn)
    tiny = 3 * np.finfo(dtype.storage).smallest_subnormal
    value = {"inf": np.inf, "negative_inf": -np.inf, "nan": np.nan, "tiny": tiny}[kind]
    odd: Array = np.where((rows + np.arange(shape[1])) % 2, drawn, drawn.dtype.type(value))
    if kind == "negative_inf":
        odd[:, 0] = value
    return odd


def _complete_output(
    draw: Draw, p: dict[str, Any], dtype: DType, rois: Array, pts: Array, values: Features
) -> RecipeOutput:
    """All inputs, with features of that kind; means must pass in any order of additions."""
    features = draw_features(draw, dtype, (p["pts_num"], p["channels"]), values)
    arrays = {"rois": rois.astype(dtype.storage), "pts": pts.astype(dtype.storage), "pts_feature": features}
    if p["pool_method"] == roi.AVERAGE:
        call = call_of("roiaware_pool3d_forward", p, arrays)
        roi.mean_terms(call, roi.find_listed(call)).assert_sums_pass(dtype)
    return RecipeOutput(arrays, p)


def scene(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    objects: int = 1,
    headings: Floats = (),
    values: Features = "full",
    skin: float = 0.0,
) -> RecipeOutput:
    """Boxes around objects on a road, so that a point lies in several; or one box, alone, of each heading.

    With a skin points are so near a face of their box, as a part of half its length.
    """
    p = complete(params)
    if headings:
        p["boxes_num"] = len(headings)
    reach = _APART * math.sqrt(objects) / 2
    things = road_boxes(draw, 1, max(objects, len(headings)), dtype, reach)
    if dtype is DType.HALF:
        # Of a long and narrow box half finds no cell.
        things[..., 3:6] = uniform(draw.stream("lengths"), 2.5, 4.0, things[..., 3:6].shape)
    if headings:
        number = np.arange(len(headings))
        things[0, :, 0], things[0, :, 1] = _APART * (number % 3 - 1), _APART * (number // 3)
        things[0, :, 6] = headings
    rois = things if headings else proposals(draw, things, p["boxes_num"])
    if rois.shape[1] > _MANY:
        rois[0, [0, -1], 0] = -reach - _APART, reach + _APART
    grid, count, points = np.array([p[name] for name in roi.GRID]), rois.shape[1], p["pts_num"]

    def cloud(turn: int) -> Array:
        deep: Array = uniform(draw.stream(f"deep {turn}"), -8.0, 8.0, (1, points, 3)) + np.array((0, 0, _DEPTH))
        if turn > _PATIENCE:
            return deep
        where = draw.stream(f"box {turn}").integers(0, count, (1, points))
        where[0, 0], where[0, -1] = 0, count - 1
        cell = np.floor(uniform(draw.stream(f"cell {turn}"), 0.0, 1.0, (1, points, 3)) * grid)
        jitter = _SPREAD[dtype] / 2 * uniform(draw.stream(f"jitter {turn}"), -1.0, 1.0, cell.shape)
        part = 2 * (cell + 0.5 + jitter) / grid - 1
        if skin:
            face = draw.stream(f"face {turn}").integers(0, 3, (1, points, 1))
            # The first and the last point stay inside.
            face[0, [0, -1]] = 3
            part = np.where(np.arange(3) == face, np.copysign(1 + skin * jitter, part), part)
        own = within(rois[0][where], part, bottom=True)
        is_in = draw.stream(f"share {turn}").integers(0, 1000, where.shape) < 1000 * _SHARE
        is_in[0, [0, -1]] = True
        return np.where(is_in[..., None], own, deep)

    test = roi.cell_test(p)
    pts = clear_points(cloud, rois, test, dtype)[0]
    inside = test.inside(pts[[0, -1]][:, None], rois[0][None])
    if not inside.any(axis=1).all():
        raise ValueError("the first or the last point is in no box; take other sizes")
    return _complete_output(draw, p, dtype, rois[0], pts, values)


def cells(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    counts: Ints,
    at: Ints = (),
    homes: Ints = (),
    extra: Floats = (),
    values: Features = "full",
) -> RecipeOutput:
    """Straight boxes beside each other: so many points in these cells of the boxes `homes`, by default the first cells
    of the first and the last box; every other point in none. `extra` are more boxes, 7 numbers each."""
    p = complete(params)
    grid, boxes = np.array([p[name] for name in roi.GRID]), int(p["boxes_num"])
    at = at or tuple(range(len(counts)))
    homes = homes or tuple(dict.fromkeys((0, boxes - 1)))
    if len(at) != len(counts) or max(at) >= grid.prod():
        raise ValueError("counts and at go in pairs, and a cell must be one")
    cell, box = (one.ravel() for one in np.meshgrid(np.repeat(at, counts), homes))
    if len(cell) > p["pts_num"]:
        raise ValueError(f"{len(cell)} points are to be in cells; there are {p['pts_num']}")
    rois = np.zeros((boxes, 7))
    rois[:, 0] = np.arange(boxes) * (grid[0] + 1) + grid[0] / 2
    # A cell is a cube of side 1.
    rois[:, 2], rois[:, 3:6] = 0.25, grid
    places = np.stack(np.unravel_index(cell, grid), axis=1) + draw.stream("places").integers(1, 8, (len(cell), 3)) / 8
    pts = np.empty((p["pts_num"], 3))
    pts[: len(cell)] = places + rois[box, :3] - (grid / 2) * (1, 1, 0)
    pts[len(cell) :] = draw.stream("deep").integers(-64, 65, (p["pts_num"] - len(cell), 3)) / 8 + (0, 0, _DEPTH)
    pts = pts[draw.stream("order").permutation(len(pts))]
    _let_ends_be_inside(pts)
    more = np.array(extra).reshape(-1, 7)
    p["boxes_num"] = boxes + len(more)
    return _complete_output(draw, p, dtype, np.concatenate([rois, more]), pts, values)


def _let_ends_be_inside(pts: Array) -> None:
    """The first and the last point change places with the first and the last that are in a cell."""
    inside = np.flatnonzero(pts[:, 2] > _DEPTH / 2)
    for end, own in ((0, inside[:1]), (-1, inside[-1:])):
        pts[[end, *own]] = pts[[*own, end][: 1 + len(own)]]


def borders(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    offsets: Ints = (0, 1, -1),
    exponent: int = -17,
    values: Features = "full",
) -> RecipeOutput:
    """One straight box; points so many units beyond its faces, edges, corners and the borders between its cells."""
    p = complete(params)
    grid, unit = np.array([p[name] for name in roi.GRID]), 2.0**exponent
    sizes = grid * (0.5, 1.0, 0.25)
    box = np.array([0.5, -1.0, 0.25, *sizes, 0.0])
    clouds = [beside_faces(box[None], offsets, unit, bottom=True).reshape(-1, 3)]
    middle = (grid // 2 + 0.5) * sizes / grid
    for axis in range(3):
        line, offset = (one.ravel() for one in np.meshgrid(np.arange(grid[axis] + 1), offsets))
        points = np.repeat(middle[None], len(line), axis=0)
        points[:, axis] = line * sizes[axis] / grid[axis] + offset * unit
        clouds.append(points + box[:3] - sizes / 2 * (1, 1, 0))
    pts = np.concatenate(clouds)
    pts = pts[draw.stream("order").permutation(len(pts))]
    if not np.array_equal(pts.astype(dtype.storage), pts):
        raise ValueError(f"2^{exponent} is too fine for {dtype.value}; take a larger exponent")
    p |= {"boxes_num": 1, "pts_num": len(pts)}
    return _complete_output(draw, p, dtype, box[None], pts, values)


_FINITE: Final = tuple(kind for kind in get_args(Features) if kind not in ("nan", "lowest", "tiny"))
_HEADINGS: Final = (0.0, 0.5, math.pi / 4, -math.pi / 2, math.pi, 9.5, -3.0, 100.0)
_LENGTHS: Final = {"boxes_num": 17, "pts_num": 257, "channels": 33, "max_pts_each_voxel": 33}


def scene_axes() -> dict[str, Any]:
    """What varies in calls of both directions."""
    return {
        "pool_method": Choice((roi.MAX, roi.AVERAGE)),
        **{name: Sizes(1, most) for name, most in _LENGTHS.items()},
        "out_x": Choice((1, 2, 3, 5)),
        "out_y": Choice((1, 2, 4, 7)),
        "out_z": Choice((1, 2, 3, 4)),
        "few": Choice((1, 2, 3, 4)),
        "what": Choice(("scene", "turned", "cells", "borders")),
        "dtype": Choice(("float", "half")),
    }


def scene_elements(at: Mapping[str, Any]) -> int:
    """About how many elements such a call has."""
    volume = at["boxes_num"] * at["out_x"] * at["out_y"] * at["out_z"]
    return int(volume * (2 * at["channels"] + at["max_pts_each_voxel"]) + at["pts_num"] * (3 + at["channels"]))


def _draw(at: Mapping[str, Any]) -> Drawn:
    few, what = at["few"], at["what"]
    args = {
        "scene": {"objects": few},
        "turned": {"headings": tuple(np.roll(_HEADINGS, few)[:few].tolist())},
        "cells": {"counts": (at["pts_num"] // 4, at["pts_num"] // 8)[: at["out_z"]]},
        "borders": {"exponent": -6},
    }[what]
    params = {name: at[name] for name in _DEFAULTS}
    return Drawn("scene" if what == "turned" else what, params, {**args, "values": at["values"]}, at["dtype"])


# Forward's calls; NaN and subnormal numbers are left open.
FORWARD_SPACE: Final = Space(axes={**scene_axes(), "values": Choice(_FINITE)}, draw=_draw, elements=scene_elements)
