"""Recipes: the cells of the points; where nothing else is asked for, every point inside finds a place."""

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .._shared.bit_patterns import KINDS, BitPatterns
from .._shared.clouds import Survey, sweep
from . import in_cells, in_order, undecided

# lattice: sizes are powers of two, and points lie on eighths of cells, lower faces included; full: sizes and points
# have full mantissas; near: so have these, and points lie as near to faces as they may.
Where = Literal["lattice", "full", "near"]
# Of what is no coordinate.
Values = Literal["full", "wide", "denormal", "nan_inf", "any_bits"]
Triple = tuple[int, int, int]

_LATTICE: Final = np.array((0.5, 0.25, 1.0))
_SIZES: Final = np.array((0.2, 0.35, 0.7))
_MOST_SHUFFLED: Final = 1 << 20
_bit_patterns = BitPatterns("features", "sorts", KINDS).drawn


def complete_output(params: Params, points: Array, size: Array, limits: Array) -> RecipeOutput:
    """All inputs; where the case has no limits, there is room for one voxel and one point more than there are."""
    if undecided(points[:, :3], size, limits).any():
        raise ValueError("rounding decides about a cell")
    met = in_order(*in_cells(points, size, limits))
    most_points, most_voxels = (int(of.max(initial=-1)) + 2 for of in (met.places, met.voxels))
    p = {"max_points": most_points, "max_voxels": most_voxels, "ndim": 3, "deterministic": True, **params}
    dims: tuple[Any, ...] = (p["max_voxels"], p["max_points"], points.shape[1])
    outputs = {"voxels": dims, "coors": (dims[0], 3), "num_points_per_voxel": dims[:1], "voxel_num": (1,)}
    return RecipeOutput({"points": points, "voxel_size": size, "coors_range": limits}, p, outputs=outputs)


def _table(draw: Draw, dtype: DType, xyz: Array, features: int, values: Values) -> Array:
    """Points of these coordinates; all else is drawn."""
    more = _bit_patterns(draw, dtype, (len(xyz), features - 3), values) if features > 3 else xyz[:, 3:]
    return np.concatenate([xyz.astype("<f4"), more], axis=1, dtype="<f4")


def _cells(draw: Draw, grid: Triple, occupied: int) -> Array:
    """int64 [occupied, 3]: distinct cells, the last and the first one among them."""
    stream, total = draw.stream("cells"), int(np.prod(grid))
    if occupied > total:
        raise ValueError(f"a grid of {total} cells cannot have {occupied} that points are in")
    if total <= _MOST_SHUFFLED:
        cells = np.stack(np.unravel_index(stream.sample(total, occupied), grid), axis=1)
    else:
        # Too many to shuffle.
        axes = [draw.stream(f"cells {a}").integers(0, n, 2 * occupied + 8) for a, n in enumerate(grid)]
        rows = np.stack(axes, axis=1)
        cells = rows[np.sort(np.unique(rows, axis=0, return_index=True)[1])][:occupied]
    for place, corner in enumerate((np.array(grid) - 1, np.zeros(3, np.int64))):
        same = (cells == corner).all(axis=1)
        if place < occupied and not same.any():
            cells[place] = corner
    return cells


def gridded(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    points: int,
    features: int = 4,
    occupied: int = 0,
    outside: int = 0,
    grid: Triple = (5, 7, 3),
    partial: Triple = (0, 0, 0),
    where: Where = "lattice",
    values: Values = "full",
) -> RecipeOutput:
    """So many points, some in front of and behind each axis of the grid, the others in so many of its cells.

    The grid's last cells are longer by `partial` eighths than the space has it.
    """
    if features < 3 or points <= outside:
        raise ValueError("a point has three coordinates, and one must be inside")
    inside = points - outside
    cells = _cells(draw, grid, occupied or min(-(-inside // 3), int(np.prod(grid))))
    if inside < len(cells):
        raise ValueError(f"{inside} points cannot be in {len(cells)} cells")
    # A few cells have many points, and the grid's last one has one.
    others = max(1, len(cells) - 1)
    more = len(cells) - others + draw.stream("more").integers(0, others, inside - len(cells)) ** 2 // others
    own = cells[np.concatenate([np.arange(len(cells)), more])]
    # One cell in front or behind, then six, on each axis in turn.
    out = own[np.arange(outside) % inside].copy()
    for place in range(outside):
        axis, behind, far = place % 3, place // 3 % 2, 5 * (place // 6 % 2)
        out[place, axis] = grid[axis] + far if behind else -1 - far
    # The first and the last point are inside; the last one is that of the grid's last cell.
    between = np.concatenate([own, out])[2:][draw.stream("order").permutation(max(0, points - 2))]
    own = np.concatenate([own[1:2], between, own[:1]])[-points:]
    size = (_LATTICE if where == "lattice" else _SIZES).astype("<f4")
    low = (-size * (np.array(grid) // 2 if where == "lattice" else np.array(grid) / 2.3)).astype("<f4")
    limits = np.concatenate([low, low + size * (np.array(grid, np.float64) - np.array(partial) / 8)]).astype("<f4")
    part = draw.stream("points").integers(0, 8 if where == "lattice" else 1 << 20, own.shape)
    match where:
        case "lattice":
            part = part / 8
        case "full":
            part = 1 / 16 + part / 2.0**20 * 7 / 8
        case "near":
            # Twice as far as rounding may reach, and what rounding these points costs.
            reach = np.maximum(1, np.abs(own) + 2 * np.abs(low) / size + 1) * 2.0**-19
            part = np.where(part % 2, 1 - reach, reach)
    return complete_output(
        params, _table(draw, dtype, low + (own + part) * size.astype(np.float64), features, values), size, limits
    )


def listed(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    x: tuple[int, ...],
    y: tuple[int, ...],
    z: tuple[int, ...],
    size: Triple = (8, 8, 8),
    limits: tuple[int, ...] = (0, 0, 0, 32, 24, 16),
    features: int = 3,
) -> RecipeOutput:
    """The points, sizes of cells and limits that the declaration lists, in eighths."""
    if not len(x) == len(y) == len(z) or len(limits) != 6:
        raise ValueError("every point has x, y and z, and the space six limits")
    table = _table(draw, dtype, np.stack([x, y, z], axis=1) / 8, features, "full")
    return complete_output(params, table, (np.array(size) / 8).astype("<f4"), (np.array(limits) / 8).astype("<f4"))


def sweeps(
    draw: Draw, params: Params, dtype: DType, *, points: int, sweeps: int, azimuths: int, coarse: int = 1
) -> RecipeOutput:
    """Merged turns of a lidar in a street; x, y, z, intensity and the age of the turn, one point in fifty outside.

    Cells are 0.2 m long, or so many times that.
    """
    side = 1440
    keys = sweep(Survey(batch=1, side=side, sweeps=sweeps, azimuths=azimuths), draw)
    # Where there was a return, 0.2 m high and 0.075 m wide, there may be more than one; turns see them in any order.
    chosen = keys[draw.stream("returns").integers(0, len(keys), 4 * points + 16384)]
    part = draw.stream("points").integers(0, 1 << 20, (len(chosen), 3)) / 2.0**20
    cells = np.stack([chosen % side, chosen // side % side, chosen // side**2], axis=1)
    # The lidar stands in the middle, 1.8 m above a road that is 3.2 m above the bottom.
    xyz = ((cells + part) * (0.075, 0.075, 0.2) - (54.0, 54.0, 5.04)).astype("<f4")
    size = np.array((0.2 * coarse, 0.2 * coarse, 8.0), "<f4")
    limits = np.array((-51.2, -51.2, -5.0, 51.2, 51.2, 3.0), "<f4")
    xyz = xyz[~undecided(xyz, size, limits)]
    inside, few = in_cells(xyz, size, limits)[1], points // 50
    chosen = np.concatenate([np.flatnonzero(inside)[: points - few], np.flatnonzero(~inside)[:few]])
    if len(chosen) < points:
        raise ValueError(f"the street gives {len(chosen)} points; give more azimuths")
    table = np.empty((points, 5), "<f4")
    table[:, :3] = xyz[np.sort(chosen)]
    table[:, 3] = np.abs(_bit_patterns(draw, dtype, (points,), "full"))
    table[:, 4] = np.arange(points) * sweeps // points * 0.05
    return complete_output(params, table, size, limits)


def _draw(at: Mapping[str, Any]) -> Drawn | None:
    names = ("points", "features", "outside", "grid", "where", "values")
    # So far away, floats leave no room for parts of a cell.
    if at["points"] <= at["outside"] or (max(at["grid"]) > 1 << 16 and at["where"] != "lattice"):
        return None
    params = {name: at[name] for name in ("max_points", "max_voxels") if at[name]}
    return Drawn("gridded", params, {name: at[name] for name in names})


SPACE: Final = Space(
    axes={
        "points": Sizes(1, 1025),
        "features": Sizes(3, 33),
        "max_points": Choice((0, 1, 2, 3, 7, 16, 33, 64)),
        "max_voxels": Choice((0, 1, 2, 5, 31, 64, 129, 513)),
        "outside": Choice((0, 1, 6, 14)),
        "grid": Choice(((1, 1, 1), (5, 7, 3), (9, 2, 4), (40, 30, 1), (2000, 3, 2), (70000, 50000, 90000))),
        "where": Choice(get_args(Where)),
        "values": Choice(("full", "wide", "denormal", "any_bits")),
    },
    draw=_draw,
    elements=lambda at: at["points"] * at["features"] * (1 + (at["max_points"] or 64) * (at["max_voxels"] > 64)),
)

RECIPES: Final = {"gridded": gridded, "listed": listed, "sweeps": sweeps}
