"""Recipes: where the points lie; `values` names what they carry, `reduce` what is made of it.

M is what the points need, one row for each voxel and one for the invalid points if there are any, and `spare` more.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput

from .._shared.clouds import Survey, random_sites
from .._shared.clouds import sweep as voxels_with_returns
from .checks import REDUCE_MODE_MAX, REDUCE_MODE_MEAN
from .values import Kind, Reduce, features
from .voxels import voxels_of

Order = Literal["shuffled", "sorted", "reversed"]
NonFinite = Literal["nan", "inf", "minus_inf", "all_minus_inf", "inf_minus_inf", "all_nan", "outside"]

_EXTENTS = (10, 40, 40)
# (z, y, x) of mvxnet: 0.1 m and twice 0.05 m. The document gives no grid; the cases at network scale share a street.
_GRID = (40, 1600, 1408)
_STREET = 20230406


def sweep(
    draw: Draw,
    params: Params,
    _dtype: DType,
    *,
    points: int,
    voxels: int,
    azimuths: int,
    channels: int,
    reduce: Reduce,
    invalid: int = 0,
    spare: int = 0,
) -> RecipeOutput:
    """A turn of a lidar in a street, shuffled as mvxnet's training does; `invalid` points leave the grid."""
    street = draw.shared(_STREET)
    side = _GRID[1]
    keys = voxels_with_returns(Survey(batch=1, side=side, sweeps=1, azimuths=azimuths), street)
    sites = np.stack([keys // (side * side), keys // side % side, keys % side], axis=1)
    sites = sites[(sites < _GRID).all(axis=1)]
    # Near voxels hold the points that are more than the voxels.
    centre = np.square(sites[:, 1:] - side // 2).sum(axis=1)
    sites = sites[np.argsort(centre, kind="stable")]
    sites = sites[np.sort(street.stream("returns").sample(len(sites), voxels))]
    inside = _spread(street, sites, points - invalid)
    # What mmcv's voxeliser leaves of a point outside: it stops at the first axis that the point leaves.
    outside = np.array([(-1, 0, 0), (-1, -1, 0), (-1, -1, -1)])
    outside = outside[street.stream("outside").integers(0, 3, invalid)]
    coors = _arranged(street, np.concatenate([inside, outside]), "shuffled")
    return _made(draw, params, coors, channels, reduce, "lattice", spare)


def placed(
    draw: Draw,
    params: Params,
    _dtype: DType,
    *,
    points: int,
    voxels: int,
    channels: int,
    reduce: Reduce,
    invalid: int = 0,
    spare: int = 0,
    extents: tuple[int, int, int] = _EXTENTS,
    order: Order = "shuffled",
    values: Kind = "lattice",
) -> RecipeOutput:
    """`voxels` drawn voxels of that grid, a few of them crowded; `invalid` points with any coordinates below 0."""
    sites = random_sites(draw.stream("voxels"), 1, extents, voxels)[:, 1:]
    inside = _spread(draw, sites, points - invalid)
    coors = _arranged(draw, np.concatenate([inside, _below_zero(draw, invalid, extents)]), order)
    return _made(draw, params, coors, channels, reduce, values, spare)


def counted(
    draw: Draw,
    params: Params,
    _dtype: DType,
    *,
    counts: tuple[int, ...],
    channels: int,
    reduce: Reduce,
    values: Kind = "lattice",
) -> RecipeOutput:
    """Voxels with exactly these numbers of points, in any order."""
    sites = random_sites(draw.stream("voxels"), 1, _EXTENTS, len(counts))[:, 1:]
    return _made(draw, params, _arranged(draw, np.repeat(sites, counts, axis=0), "shuffled"), channels, reduce, values)


def listed(
    draw: Draw,
    params: Params,
    _dtype: DType,
    *,
    c0: tuple[int, ...],
    c1: tuple[int, ...],
    c2: tuple[int, ...],
    channels: int,
    reduce: Reduce,
    spare: int = 0,
    values: Kind = "lattice",
) -> RecipeOutput:
    """The points that the declaration lists, column by column, in that order."""
    return _made(draw, params, np.stack([c0, c1, c2], axis=1), channels, reduce, values, spare)


def crossed(
    draw: Draw, params: Params, _dtype: DType, *, levels: tuple[int, ...], copies: int, channels: int, reduce: Reduce
) -> RecipeOutput:
    """Every triple of these coordinates, the last of them `copies` times more, in random order."""
    triples = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), axis=-1).reshape(-1, 3)
    coors = np.concatenate([triples, np.repeat(triples[-1:], copies, axis=0)])
    return _made(draw, params, _arranged(draw, coors, "shuffled"), channels, reduce, "lattice")


def nonfinite(
    draw: Draw, params: Params, dtype: DType, *, kind: NonFinite, channels: int, reduce: Reduce
) -> RecipeOutput:
    """Every other channel of one voxel with three points is not finite, or all of the invalid points (`outside`)."""
    made = placed(draw, params, dtype, points=24, voxels=7, channels=channels, invalid=4, reduce=reduce)
    feats, voxels = made.inputs["feats"], voxels_of(made.inputs["coors"])
    crowded = np.flatnonzero(voxels.sizes >= 3)
    if not len(crowded):
        raise ValueError("no voxel has three points")
    start = voxels.starts[crowded[0]]
    first, second, *_ = members = voxels.points[start : start + voxels.sizes[crowded[0]]]
    match kind:
        case "nan":
            feats[second, ::2] = np.nan
        case "inf":
            feats[second, ::2] = np.inf
        case "minus_inf":
            feats[first, ::2] = -np.inf
        case "all_minus_inf":
            feats[members, ::2] = -np.inf
        case "inf_minus_inf":
            feats[first, ::2], feats[second, ::2] = np.inf, -np.inf
        case "all_nan":
            feats[members, ::2] = np.nan
        case "outside":
            specials = np.array([np.nan, np.inf, -np.inf], "<f4")
            outside = np.flatnonzero(voxels.of_point < 0)
            feats[outside] = specials[np.arange(len(outside)) % 3, None]
    return made


RECIPES = {recipe.__name__: recipe for recipe in (sweep, placed, counted, listed, crossed, nonfinite)}


def _spread(draw: Draw, sites: Array, points: int) -> Array:
    """Each site once, the rest of the points crowded into the first of them."""
    extra = points - len(sites)
    if extra < 0 or (extra and not len(sites)):
        raise ValueError(f"{points} valid points cannot fill {len(sites)} voxels; change points, voxels or invalid")
    # A square makes low numbers likelier: few crowded voxels, many with one point, as a lidar sweep has.
    chosen = draw.stream("extra").integers(0, max(len(sites), 1), extra) ** 2 // max(len(sites), 1)
    counts = np.bincount(chosen, minlength=len(sites)) + 1
    if extra and len(sites) > 1 and counts.min() == counts.max():
        raise ValueError("every voxel has as many points as every other")
    return np.concatenate([sites, sites[chosen]])


def _below_zero(draw: Draw, count: int, extents: Sequence[int]) -> Array:
    """Rows in which one, two or all three coordinates are below 0, the others within the grid."""
    which = draw.stream("which").integers(1, 8, count)[:, None] >> np.arange(3) & 1
    negative = -draw.stream("below").integers(1, 6, (count, 3))
    within = np.stack([draw.stream(f"within {axis}").integers(0, n, count) for axis, n in enumerate(extents)], axis=1)
    return np.where(which, negative, within)


def _arranged(draw: Draw, coors: Array, order: Order) -> Array:
    ascending = np.lexsort(coors[:, ::-1].T)
    orders = {"sorted": ascending, "reversed": ascending[::-1]}
    arranged: Array = coors[draw.stream("order").permutation(len(coors)) if order == "shuffled" else orders[order]]
    return arranged


def _made(
    draw: Draw, params: Params, coors: Array, channels: int, reduce: Reduce, values: Kind, spare: int = 0
) -> RecipeOutput:
    if not np.array_equal(coors, coors.astype("<i4")):
        raise ValueError("a coordinate leaves int32")
    coors = np.ascontiguousarray(coors, "<i4")
    voxels = voxels_of(coors)
    points, rows = len(coors), voxels.rows_needed + spare
    if rows > points:
        raise ValueError(f"{rows} rows for {points} points; §1.4 asks for N ≥ M, so lower spare or raise points")
    return RecipeOutput(
        {"feats": features(draw, voxels, channels, values, reduce), "coors": coors},
        {"reduce_type": REDUCE_MODE_MEAN if reduce == "mean" else REDUCE_MODE_MAX, **params},
        outputs={
            "voxel_feats": (rows, channels),
            "voxel_coors": (rows, 3),
            "point2voxel_map": (points,),
            "voxel_points_count": (rows,),
            "voxel_num": (1,),
        },
    )
