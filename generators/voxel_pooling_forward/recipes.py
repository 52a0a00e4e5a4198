"""Recipes: where the points lie; `values` names what they carry. Parameters not declared get small defaults."""

from typing import Any, Literal

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput

from .reference import counted
from .values import VALUES, assert_any_order, ranks

Kind = Literal["full", "exact", "positive", "small", "leading", "wide", "wider", "cancelling", "tiny", "nearly_normal"]
NonFinite = Literal["nan", "inf", "negative_inf", "inf_minus_inf", "overflow", "outside"]

_DEFAULTS = {"batch_size": 1, "num_channels": 2, "num_voxel_x": 4, "num_voxel_y": 3, "num_voxel_z": 1}
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


def frustum(
    draw: Draw, params: Params, dtype: DType, *, cameras: int, depths: int, rows: int, columns: int
) -> RecipeOutput:
    """What BEVDepth's cameras see: every pixel at every depth from 2 to 58 m, on a grid of 102.4 m × 102.4 m × 8 m.

    In integers throughout (centimetres, slopes in 1/4096), so that no rounding of a sine moves a point.
    """
    p = _complete(params, num_points=cameras * depths * rows * columns)
    if cameras > len(_YAWS):
        raise ValueError(f"cameras: at most {len(_YAWS)}, got {cameras}")
    camera, depth, row, column = np.meshgrid(
        np.arange(cameras), np.arange(depths), np.arange(rows), np.arange(columns), indexing="ij", sparse=True
    )
    forward = 200 + depth * (5600 // depths)
    # 70° across, and the aspect of 704 × 256 pixels.
    side = forward * ((2 * column + 1 - columns) * 2867 // columns) // 4096
    down = forward * ((2 * row + 1 - rows) * 1043 // rows) // 4096
    cos, sin = _YAWS[camera, 0], _YAWS[camera, 1]
    mounts = draw.stream("mounts").integers(-60, 61, (p["batch_size"], cameras, 3))
    shape = (cameras, depths, rows, columns)
    geometry = np.empty((p["batch_size"], *shape, 3), "<i4")
    for batch, mount in zip(geometry, mounts[:, :, None, None, None, :], strict=True):
        x = (forward * cos - side * sin) // 4096 + mount[..., 0]
        y = (forward * sin + side * cos) // 4096 + mount[..., 1]
        batch[..., 0] = (x + 5120) * p["num_voxel_x"] // 10240
        batch[..., 1] = (y + 5120) * p["num_voxel_y"] // 10240
        batch[..., 2] = (660 - down + mount[..., 2]) * p["num_voxel_z"] // 800
    return _made(draw, p, dtype, geometry.reshape(p["batch_size"], -1, 3), "full")


def scattered(draw: Draw, params: Params, dtype: DType, *, margin: int = 1, values: Kind = "full") -> RecipeOutput:
    """Uniform over the grid and `margin` layers around it."""
    p = _complete(params)
    shape = (p["batch_size"], p["num_points"])
    axes = [draw.stream(axis).integers(-margin, p[f"num_voxel_{axis}"] + margin, shape) for axis in "xyz"]
    return _made(draw, p, dtype, np.stack(axes, axis=-1), values)


def one_per_cell(draw: Draw, params: Params, dtype: DType, *, values: Kind = "full") -> RecipeOutput:
    """Every cell gets exactly one point, in random order, at a random depth."""
    grid = _complete(params, num_points=0)
    points = grid["num_voxel_x"] * grid["num_voxel_y"]
    p = _complete(params, num_points=points)
    geometry = np.empty((p["batch_size"], points, 3), np.int64)
    for batch in range(p["batch_size"]):
        cells = draw.stream(f"cells {batch}").permutation(points)
        geometry[batch, :, 0], geometry[batch, :, 1] = cells % p["num_voxel_x"], cells // p["num_voxel_x"]
    geometry[..., 2] = draw.stream("z").integers(0, p["num_voxel_z"], geometry.shape[:2])
    return _made(draw, p, dtype, geometry, values)


def crowded(draw: Draw, params: Params, dtype: DType, *, x: int, y: int, values: Kind = "full") -> RecipeOutput:
    """All points in one cell, at random depths."""
    p = _complete(params)
    geometry = np.empty((p["batch_size"], p["num_points"], 3), np.int64)
    geometry[..., 0], geometry[..., 1] = x, y
    geometry[..., 2] = draw.stream("z").integers(0, p["num_voxel_z"], geometry.shape[:2])
    return _made(draw, p, dtype, geometry, values)


def bounds(
    draw: Draw, params: Params, dtype: DType, *, int32_extremes: bool = False, values: Kind = "full"
) -> RecipeOutput:
    """Every combination of −1, 0, the last and the first beyond on the three axes, in random order."""
    grid = _complete(params, num_points=0)
    extremes = (INT32_MIN, INT32_MAX) if int32_extremes else ()
    axes = [np.array([-1, 0, n - 1, n, *extremes]) for n in (grid[f"num_voxel_{axis}"] for axis in "xyz")]
    corners = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    p = _complete(params, num_points=len(corners))
    orders = [draw.stream(f"order {batch}").permutation(len(corners)) for batch in range(p["batch_size"])]
    return _made(draw, p, dtype, corners[np.stack(orders)], values)


def listed(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    x: tuple[int, ...],
    y: tuple[int, ...],
    z: tuple[int, ...],
    values: Kind = "full",
) -> RecipeOutput:
    """The points that the declaration lists, the same in every batch."""
    p = _complete(params, num_points=len(x))
    points = np.stack([np.array(axis, np.int64) for axis in (x, y, z)], axis=-1)
    return _made(draw, p, dtype, np.broadcast_to(points, (p["batch_size"], *points.shape)), values)


def nonfinite(draw: Draw, params: Params, dtype: DType, *, kind: NonFinite) -> RecipeOutput:
    """Scattered points; every other channel of one cell with two points or more is not finite (or of all outside)."""
    made = scattered(draw, params, dtype)
    cells = cells_of(made.params, made.inputs["geom_xyz"])
    features = made.inputs["input_features"].reshape(len(cells), -1)
    inside = np.flatnonzero((cells >= 0) & (ranks(cells) == 1))
    if len(inside) == 0:
        raise ValueError("no cell holds two points; give more points or fewer cells")
    second = int(inside[0])
    first = int(np.flatnonzero(cells == cells[second])[0])
    match kind:
        case "nan":
            features[second, ::2] = np.nan
        case "inf":
            features[second, ::2] = np.inf
        case "negative_inf":
            features[first, ::2] = -np.inf
        case "inf_minus_inf":
            features[first, ::2], features[second, ::2] = np.inf, -np.inf
        case "overflow":
            # Finite terms of one sign whose sum no float32 holds, in whatever order.
            features[cells == cells[second], ::2] = np.finfo(np.float32).max
        case "outside":
            features[cells < 0] = np.nan
    return made


RECIPES = {recipe.__name__: recipe for recipe in (frustum, scattered, one_per_cell, crowded, bounds, listed, nonfinite)}

# cos and sin of 0°, 60°, … 300° in 1/4096.
_YAWS = np.array([(4096, 0), (2048, 3547), (-2048, 3547), (-4096, 0), (-2048, -3547), (2048, -3547)])


def _complete(params: Params, **derived: int) -> dict[str, Any]:
    for name, value in derived.items():
        if value and params.get(name, value) != value:
            raise ValueError(f"{name} follows from the recipe's arguments: {value}; do not declare {params[name]}")
    return _DEFAULTS | dict(params) | derived


def cells_of(params: Params, geometry: Array) -> Array:
    """[B·N]: the linear cell of each point, −1 where it does not count."""
    width, height, depth = (int(params[f"num_voxel_{axis}"]) for axis in "xyz")  # type: ignore[arg-type]
    inside = counted(geometry, width, height, depth)
    batch = np.arange(len(geometry))[:, None]
    linear = (batch * height + geometry[..., 1].astype(np.int64)) * width + geometry[..., 0]
    return np.where(inside, linear, -1).reshape(-1)


def _made(draw: Draw, params: dict[str, Any], dtype: DType, geometry: Array, values: Kind) -> RecipeOutput:
    if dtype is not DType.FLOAT:
        raise ValueError(f"features are float, not {dtype.value}")
    batches, points, channels = (params[name] for name in ("batch_size", "num_points", "num_channels"))
    if geometry.min() < INT32_MIN or geometry.max() > INT32_MAX:
        raise ValueError("a coordinate leaves int32")
    coordinates = np.ascontiguousarray(geometry, dtype="<i4")
    cells = cells_of(params, coordinates)
    features = VALUES[values](draw, cells, channels)
    assert_any_order(features, cells)
    return RecipeOutput(
        {"geom_xyz": coordinates, "input_features": features.reshape(batches, points, channels)},
        params,
        outputs={
            "output_features": (batches, params["num_voxel_y"], params["num_voxel_x"], channels),
            "pos_memo": (batches, points, 3),
        },
    )
