"""Recipes: where the points lie; `values` names what they carry. Parameters not declared get small defaults."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space
from mluops_gtest.authoring.sum_of_terms import SumOfTerms
from mluops_gtest.authoring.sums import (
    assert_conditioned,
    exact_sums,
    largest_magnitude,
    lattice_exponent,
    sums_are_exact,
)

from . import CRITERIA, counted

# What the points carry, conditioned so that float32 sums in any order stay well within the criterion.

# Terms that the conditioning test looks at: small cases wholly, others by their first channels.
_TESTED = 1 << 18

Values = Callable[[Draw, Array, int], Array]


def full(draw: Draw, cells: Array, channels: int) -> Array:
    """±1.m · 2^e, every mantissa bit random, e in −3 … 0: any order of 2^26 terms is exact in float64."""
    lanes = draw.stream("input_features").lanes(len(cells) * channels)
    # Sign, mantissa and the two low bits of the exponent are the lane's; the other six exponent bits are 011111.
    lanes &= np.uint32(0x81FFFFFF)
    lanes |= np.uint32(0x3E000000)
    features: Array = lanes.astype("<u4", copy=False).view("<f4").reshape(len(cells), channels)
    if not sums_are_exact(lattice_exponent(features), largest_magnitude(features), len(cells)):
        raise ValueError(f"{len(cells)} points are too many for sums that are exact in float64; draw fewer")
    return features


def exact(draw: Draw, cells: Array, channels: int) -> Array:
    """So few bits that float32 sums of any cell are exact in any order: whoever loses one addition is seen."""
    most = int(np.bincount(cells[cells >= 0], minlength=1).max())
    return draw.stream("input_features").lattice((len(cells), channels), bits=24 - math.ceil(math.log2(max(most, 2))))


def positive(draw: Draw, cells: Array, channels: int) -> Array:
    """Like `full` without signs: the sum grows with every term."""
    return np.abs(full(draw, cells, channels))


def small(draw: Draw, cells: Array, channels: int) -> Array:
    """Like `full`, around 10^-6: sums in steps of a fixed point lose them."""
    return full(draw, cells, channels) * np.float32(2.0**-20)


def leading(draw: Draw, cells: Array, channels: int) -> Array:
    """Positive, and the first point of each cell outweighs another by 2^11: half precision would lose the others."""
    features = positive(draw, cells, channels)
    features[ranks(cells) == 0] *= np.float32(2048)
    return features


def last_channel(draw: Draw, cells: Array, channels: int) -> Array:
    """Like `full`, and the last channel outweighs 2^16 others together: who loses it fails by the criteria alone."""
    features = full(draw, cells, channels)
    features[:, :-1] *= np.float32(2.0**-20)
    return features


def wide(draw: Draw, cells: Array, channels: int) -> Array:
    """Exponents over 41 binades, more than one float64 accumulator holds exactly."""
    return draw.stream("input_features").mantissas((len(cells), channels), exponents=(-30, 10))


def wider(draw: Draw, cells: Array, channels: int) -> Array:
    """Exponents over 121 binades, far more than any pair of float64 accumulators holds exactly."""
    return draw.stream("input_features").mantissas((len(cells), channels), exponents=(-60, 60))


def cancelling(draw: Draw, cells: Array, channels: int) -> Array:
    """Points in pairs of one cell that cancel but for five bits."""
    features = full(draw, cells, channels)
    rest = np.abs(draw.stream("rest").lattice((len(cells), channels), bits=19))
    order = np.argsort(cells, kind="stable")
    second = ranks(cells)[order] % 2 == 1
    # Sorted by cell, the point before the second of a pair is the first.
    partner = features[order[np.flatnonzero(second) - 1]]
    features[order[second]] = -partner * (np.float32(1) - rest[order[second]] / np.float32(32))
    return features


def tiny(draw: Draw, cells: Array, channels: int) -> Array:
    """±k · 2^-149 with k of 12 bits: a thousand of them still sum to a subnormal number, exactly and in any order."""
    return draw.stream("input_features").lattice((len(cells), channels), bits=12, scale=149)


def nearly_normal(draw: Draw, cells: Array, channels: int) -> Array:
    """±k · 2^-149 with k of 22 bits: subnormal all of them, but four may sum to a normal number, exactly."""
    return draw.stream("input_features").lattice((len(cells), channels), bits=22, scale=149)


VALUES: dict[str, Values] = {
    kind.__name__: kind
    for kind in (full, exact, positive, small, leading, last_channel, wide, wider, cancelling, tiny, nearly_normal)
}


def ranks(cells: Array) -> Array:
    """How many earlier points lie in the same cell."""
    order = np.argsort(cells, kind="stable")
    firsts = np.flatnonzero(np.diff(cells[order], prepend=cells[order[0]] - 1))
    counts = np.diff(firsts, append=len(cells))
    result = np.empty(len(cells), np.int64)
    result[order] = np.arange(len(cells)) - np.repeat(firsts, counts)
    return result


def assert_any_order(features: Array, cells: Array) -> None:
    """float32 sums of the cells pass the criterion with room, in any order; points at −1 do not count."""
    if cells.max() < 0:
        return
    points = SumOfTerms(features[None], target=cells[None, :, None], count=int(cells.max()) + 1)
    columns = points.columns(_TESTED)
    assert_conditioned(columns, exact_sums(columns), CRITERIA)


Kind = Literal[
    "full", "exact", "positive", "small", "leading", "last_channel", "wide", "wider", "cancelling", "tiny",
    "nearly_normal",
]  # fmt: skip
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
    return _assemble(draw, p, dtype, geometry.reshape(p["batch_size"], -1, 3), "full")


def scattered(draw: Draw, params: Params, dtype: DType, *, margin: int = 1, values: Kind = "full") -> RecipeOutput:
    """Uniform over the grid and `margin` layers around it."""
    p = _complete(params)
    shape = (p["batch_size"], p["num_points"])
    axes = [draw.stream(axis).integers(-margin, p[f"num_voxel_{axis}"] + margin, shape) for axis in "xyz"]
    return _assemble(draw, p, dtype, np.stack(axes, axis=-1), values)


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
    return _assemble(draw, p, dtype, geometry, values)


def crowded(draw: Draw, params: Params, dtype: DType, *, x: int, y: int, values: Kind = "full") -> RecipeOutput:
    """All points in one cell, at random depths."""
    p = _complete(params)
    geometry = np.empty((p["batch_size"], p["num_points"], 3), np.int64)
    geometry[..., 0], geometry[..., 1] = x, y
    geometry[..., 2] = draw.stream("z").integers(0, p["num_voxel_z"], geometry.shape[:2])
    return _assemble(draw, p, dtype, geometry, values)


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
    return _assemble(draw, p, dtype, corners[np.stack(orders)], values)


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
    return _assemble(draw, p, dtype, np.broadcast_to(points, (p["batch_size"], *points.shape)), values)


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


def _assemble(draw: Draw, params: dict[str, Any], dtype: DType, geometry: Array, values: Kind) -> RecipeOutput:
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


# What fuzzing draws: points in, around and far outside of the grid, alone and crowded.

_PARAMS = ("batch_size", "num_points", "num_channels", "num_voxel_x", "num_voxel_y", "num_voxel_z")
# The recipe has as many points as cells or corners.
_OWN_POINTS = ("one_per_cell", "bounds", "int32 extremes")


def draw(at: Mapping[str, Any]) -> Drawn | None:
    """Points of one of the recipes."""
    what = at["what"]
    params = {name: at[name] for name in _PARAMS}
    if what in _OWN_POINTS:
        del params["num_points"]
    match what:
        case "scattered":
            args: dict[str, Any] = {"margin": at["margin"], "values": at["values"]}
        case "crowded":
            x, y = (at["corner"] * (at[f"num_voxel_{axis}"] - 1) for axis in "xy")
            args = {"x": x, "y": y, "values": at["values"]}
        case "one_per_cell":
            args = {"values": at["values"]}
        case "bounds" | "int32 extremes":
            args, what = {"int32_extremes": what != "bounds", "values": at["values"]}, "bounds"
        case kind:
            args, what = {"kind": kind}, "nonfinite"
    return Drawn(what, params, args)


def elements(at: Mapping[str, Any]) -> int:
    """Points with their channels, cells with theirs."""
    cells = at["num_voxel_x"] * at["num_voxel_y"]
    points = cells if at["what"] == "one_per_cell" else at["num_points"]
    return int(at["batch_size"] * (points * (6 + at["num_channels"]) + cells * at["num_channels"]))


SPACE = Space(
    axes={
        "batch_size": Sizes(1, 5),
        "num_points": Sizes(1, 2049),
        "num_channels": Sizes(1, 257),
        "num_voxel_x": Sizes(1, 129),
        "num_voxel_y": Sizes(1, 65),
        "num_voxel_z": Sizes(1, 9),
        # Beyond 2^24 floats do not hold every coordinate.
        "margin": Choice((0, 1, 3, 100, 1 << 25)),
        "corner": Choice((0, 1)),
        # A device may take subnormal features for 0.
        "values": Choice(tuple(kind for kind in get_args(Kind) if kind not in ("tiny", "nearly_normal"))),
        "what": Choice(("scattered", "crowded", *_OWN_POINTS, *get_args(NonFinite))),
    },
    draw=draw,
    elements=elements,
)


RECIPES = {recipe.__name__: recipe for recipe in (frustum, scattered, one_per_cell, crowded, bounds, listed, nonfinite)}
