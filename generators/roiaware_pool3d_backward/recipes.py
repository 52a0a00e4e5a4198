"""Recipes: the tables that forward gives for its scenes, and tables drawn for what they are to show."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput, call_of
from mluops_gtest.authoring.space import Choice, Drawn, Space

from .._shared import roiaware as roi
from .._shared import roiaware_scenes as scenes
from . import OPERATOR
from .suspects import terms

# any: points anywhere, the first and the last among them; distinct: no point twice in a channel; one_point: all cells;
# ends: the first and the last alone; counts: 0, 1 and K − 1 in turn; twice: the two points of a list are one;
# empty_channel: −1 throughout channel 0; empty: no point at all. Behind the counts stand points that must not count.
Kind = Literal["any", "distinct", "one_point", "ends", "counts", "twice", "empty_channel", "empty"]

_NAMES: Final = ("pool_method", "boxes_num", *roi.GRID, "channels", "max_pts_each_voxel")
# More terms of a sum, added in half, leave the criterion.
_MOST_HALVES: Final = 128


def scene(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    points: int = 16,
    objects: int = 1,
    grads: scenes.Features = "full",
) -> RecipeOutput:
    """Tables of boxes around objects on a road."""
    p = scenes.complete({**params, "pts_num": points})
    made = scenes.scene(draw, {**p, "pool_method": roi.MAX}, dtype, objects=objects)
    return _backward(draw, p, dtype, made, grads)


def cells(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    counts: tuple[int, ...],
    points: int = 16,
    grads: scenes.Features = "full",
) -> RecipeOutput:
    """Tables of two straight boxes with so many points in their first cells."""
    p = scenes.complete({**params, "pts_num": points})
    made = scenes.cells(draw, {**p, "pool_method": roi.MAX}, dtype, counts=counts)
    return _backward(draw, p, dtype, made, grads)


def _backward(draw: Draw, p: dict[str, Any], dtype: DType, made: RecipeOutput, grads: scenes.Features) -> RecipeOutput:
    call = call_of("roiaware_pool3d_forward", made.params, made.inputs)
    given = roi.outputs(call, roi.entries_of(call))
    tables = {name: given[name] for name in ("pts_idx_of_voxels", "argmax")}
    # The table of the other mode is that of the next cell: whoever reads it is found out.
    other = "pts_idx_of_voxels" if p["pool_method"] == roi.MAX else "argmax"
    flat = tables[other].reshape(-1, tables[other].shape[-1])
    tables[other] = np.roll(flat, 1, axis=0).reshape(tables[other].shape)
    return _complete_output(draw, p, dtype, tables, p["pts_num"], grads)


def tables(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    points: int = 16,
    kind: Kind = "any",
    grads: scenes.Features = "full",
) -> RecipeOutput:
    """Tables of that kind."""
    p = scenes.complete(params)
    shape = tuple(int(p[name]) for name in ("boxes_num", *roi.GRID))
    number, most, channels = int(np.prod(shape)), int(p["max_pts_each_voxel"]), int(p["channels"])
    counts = draw.stream("counts").integers(0, most, number)
    lists = draw.stream("lists").integers(0, points, (number, most))
    argmax = draw.stream("argmax").integers(-1, points, (number, channels))
    match kind:
        case "any":
            counts[[0, -1]] = np.minimum(1, most - 1)
            for table in (lists[:, 1:], argmax):
                table[0], table[-1] = 0, points - 1
        case "distinct":
            if points < number:
                raise ValueError(f"{number} cells have no point each; there are {points}")
            counts[:] = min(1, most - 1)
            lists[:, 1:2] = _sample(draw, "listed", points, number)[:, None]
            argmax = np.stack([_sample(draw, f"argmax {c}", points, number) for c in range(channels)], axis=1)
        case "one_point":
            counts[:] = min(1, most - 1)
            lists[:], argmax[:] = points // 2, points // 2
        case "ends":
            lists, argmax = (np.where(table % 2, points - 1, 0) for table in (lists, argmax))
        case "counts":
            counts = np.array((0, min(1, most - 1), most - 1))[np.arange(number) % 3]
        case "twice":
            if most < 3:
                raise ValueError("lists of two points need K ≥ 3")
            counts[:], lists[:, 2] = 2, lists[:, 1]
        case "empty_channel":
            argmax[:, 0] = -1
        case "empty":
            counts[:], argmax[:] = 0, -1
    lists[:, 0] = counts
    made = {"pts_idx_of_voxels": lists.reshape(*shape, most), "argmax": argmax.reshape(*shape, channels)}
    return _complete_output(draw, p, dtype, {name: table.astype("<i4") for name, table in made.items()}, points, grads)


def _sample(draw: Draw, name: str, points: int, number: int) -> Array:
    """Distinct points, the first and the last among them."""
    chosen = draw.stream(name).sample(points, number)
    for end, place in ((0, 0), (points - 1, -1)):
        if end not in chosen:
            chosen[place] = end
    return chosen


def _complete_output(
    draw: Draw, p: dict[str, Any], dtype: DType, made: Mapping[str, Array], points: int, grads: scenes.Features
) -> RecipeOutput:
    *cells_of_boxes, channels = made["argmax"].shape
    drawn = scenes.draw_features(draw, dtype, {"pts_num": math.prod(cells_of_boxes), "channels": channels}, grads)
    inputs = {**made, "grad_out": drawn.reshape(made["argmax"].shape)}
    params = {name: p[name] for name in _NAMES}
    call = call_of(OPERATOR.name, params, inputs, {"grad_in": np.empty((points, channels), dtype.storage)})
    added = terms(call)
    if dtype is DType.HALF and added.met.max() > _MOST_HALVES:
        raise ValueError(f"a point has more than {_MOST_HALVES} terms, too many for sums in half; give more points")
    added.assert_sums_pass(dtype)
    return RecipeOutput(inputs, params, outputs={"grad_in": (points, channels)})


# What fuzzing draws.

_ALL: Final[tuple[Callable[..., RecipeOutput], ...]] = (scene, cells, tables)
RECIPES: Final = {recipe.__name__: recipe for recipe in _ALL}
_GRADS: Final = tuple(kind for kind in get_args(scenes.Features) if kind not in ("tiny", "zeros"))


def draw_call(at: Mapping[str, Any]) -> Drawn | None:
    """A call of one of the recipes."""
    params = {name: at[name] for name in _NAMES}
    args: dict[str, Any] = {"points": at["pts_num"], "grads": at["grads"]}
    if at["what"] in get_args(Kind):
        return Drawn("tables", params, {**args, "kind": at["what"]}, at["dtype"])
    if at["what"] == "cells":
        return Drawn("cells", params, {**args, "counts": (at["pts_num"] // 4,)}, at["dtype"])
    return Drawn("scene", params, {**args, "objects": at["few"]}, at["dtype"])


SPACE: Final = Space(
    axes={**scenes.scene_axes(), "what": Choice(("scene", "cells", *get_args(Kind))), "grads": Choice(_GRADS)},
    draw=draw_call,
    elements=scenes.scene_elements,
)
