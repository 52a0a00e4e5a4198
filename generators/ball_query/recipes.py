"""Recipes: clouds and centres for which every float evaluation of the distances finds the same points.

Coordinates are integers times 2^exponent, and the radii are in the same units as the coordinates. All recipes but
`precise` draw lattices on which distances are exact; `precise` keeps every distance clear of both spheres."""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput, dtype_of
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .._shared.points import CENTRED, FULL, assert_lattice, farthest_sample, offsets, placed, refuse_tiny, surfaces
from . import distances

_DEFAULTS = {"min_radius": 0.0, "max_radius": 2.5, "nsample": 3}

# What all cases of the network draw alike: the second set abstraction searches what the first one kept.
_OBJECTS = 20171
# The objects' reach in 1/1024, 13/16: a multiple of the half lattice's unit, whose integers end at 13.
_REACH = 832
_FINE, _COARSE = -10, -4

# Full mantissas lie within ±1 in float; in half within ±16, so that no square of a difference is subnormal.
_EXPONENT = {DType.FLOAT: -24, DType.HALF: -7}
# How far inside or outside of the sphere a pair of points lies, relative to the radius: farther than rounding carries,
# nearer than arithmetic of fewer bits can tell.
_SKIN = {DType.FLOAT: 1e-5, DType.HALF: 2.0**-7}
# A squared distance errs by at most 5·2^-24 = 3.0e-7 or 5·2^-11 = 2.44e-3 of its value, fused or not.
_CLEAR = {DType.FLOAT: 2e-6, DType.HALF: 2.0**-8}
# Centres that are drawn for one that stays: many half rows have a distance too near a sphere.
_CANDIDATES = {DType.FLOAT: 2, DType.HALF: 12}


def objects(
    draw: Draw, params: Params, dtype: DType, *, batches: int, centres: int, points: int, sampled_from: int = 0
) -> RecipeOutput:
    """Centres that are a farthest-point sample of a cloud, the surface of an object or such a sample of it itself."""
    shared = draw.shared(_OBJECTS)
    cloud = surfaces(shared, batches, sampled_from or points, _REACH)
    if sampled_from:
        cloud = farthest_sample(cloud, points)
    exponent = _COARSE if dtype is DType.HALF else _FINE
    cloud = np.rint(cloud / 2.0 ** (exponent - _FINE)).astype(np.int64)
    return _on_lattice(_complete(params), dtype, farthest_sample(cloud, centres), cloud, exponent)


def scattered(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    centres: int,
    points: int,
    batches: int = 1,
    spread: int = 3,
    exponent: int = 0,
    offset: bool = False,
) -> RecipeOutput:
    """Uniform over a cube of side 2·spread + 1; with `offset` far from the origin, where low precision is blind."""
    middle, cloud = (
        draw.stream(name).integers(-spread, spread + 1, (batches, count, 3))
        for name, count in (("new_xyz", centres), ("xyz", points))
    )
    if offset:
        far = offsets(draw, batches)
        middle, cloud = middle + far, cloud + far
    made = _on_lattice(_complete(params), dtype, middle, cloud, exponent)
    for name, coordinates in made.inputs.items():
        # −0 equals +0 (§3.1 step 6 compares numbers).
        negative = draw.stream(f"signs of {name}").integers(0, 2, coordinates.shape) == 1
        coordinates[(coordinates == 0) & negative] = -0.0
    return made


def planted(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    centres: int,
    points: int,
    hits: tuple[int, ...],
    rows: tuple[int, ...],
    exponent: int = 0,
) -> RecipeOutput:
    """Point hits[i] lies in the shell of centre rows[i], and no other point in any."""
    p = _complete(params)
    if len(hits) != len(rows) or len(set(hits)) != len(hits):
        raise ValueError("hits and rows go in pairs, and a point lies in one shell")
    low, high = (p[name] / 2.0**exponent for name in ("min_radius", "max_radius"))
    reach = math.ceil(high)
    around = np.moveaxis(np.mgrid[(slice(-reach - 1, reach + 2),) * 3], 0, -1).reshape(-1, 3)
    squares = np.square(around).sum(axis=1)
    inside = around[(squares == 0) | ((squares >= low**2) & (squares < high**2))]
    outside = around[(squares != 0) & ((squares < low**2) | ((squares >= high**2) & (squares <= (reach + 1) ** 2)))]
    sites = _sites(draw, dtype, centres, reach)
    # A few hundred places in turn: a large cloud is cheap to draw and to store.
    period = min(points, 331)
    idle = sites[draw.stream("sites of xyz").integers(0, centres, period)]
    idle = idle + outside[draw.stream("outside").integers(0, len(outside), period)]
    cloud = np.resize(idle, (points, 3))
    cloud[list(hits)] = sites[list(rows)] + inside[draw.stream("inside").integers(0, len(inside), len(hits))]
    return _on_lattice(p, dtype, sites[None], cloud[None], exponent)


def shells(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    squares: tuple[int, ...],
    each: int,
    batches: int = 1,
    centres: int = 1,
    exponent: int = 0,
) -> RecipeOutput:
    """Around every centre `each` points at each of these squared distances, counted in lattice units."""
    middle = draw.stream("new_xyz").integers(-3, 4, (batches, centres, 3))
    around = np.empty((batches, centres, len(squares), each, 3), np.int64)
    for place, square in enumerate(squares):
        known = _vectors_of(square)
        chosen = draw.stream(f"vectors {place} {square}").integers(0, len(known), (batches, centres, each))
        around[:, :, place] = known[chosen]
    cloud = (middle[:, :, None, None] + around).reshape(batches, -1, 3)
    orders = [draw.stream(f"order {batch}").permutation(cloud.shape[1]) for batch in range(batches)]
    shuffled = np.stack([points[order] for points, order in zip(cloud, orders, strict=True)])
    return _on_lattice(_complete(params), dtype, middle, shuffled, exponent)


def precise(draw: Draw, params: Params, dtype: DType, *, centres: int, points: int, batches: int = 1) -> RecipeOutput:
    """Every mantissa bit in use; among random points each centre has one just inside its sphere, one just outside."""
    p = _complete(params)
    radii = [float(np.square(np.float32(p[name]))) for name in ("min_radius", "max_radius")]
    pairs = [clear_cloud(draw, f"batch {batch}", dtype, centres, points, radii) for batch in range(batches)]
    new_xyz, xyz = (np.stack(side) for side in zip(*pairs, strict=True))
    return _assemble(p, new_xyz, xyz)


_Value = Literal["nan", "inf", "negative_inf"]
_Where = Literal["centre", "point", "both"]


def nonfinite(draw: Draw, params: Params, dtype: DType, *, value: _Value, where: _Where) -> RecipeOutput:
    """A dense cloud in which every third centre, every third point or both have `value` on one axis."""
    made = scattered(draw, params, dtype, centres=9, points=24, batches=2, spread=1)
    number = {"nan": math.nan, "inf": math.inf, "negative_inf": -math.inf}[value]
    for name, side in (("new_xyz", "centre"), ("xyz", "point")):
        if where in (side, "both"):
            coordinates = made.inputs[name]
            axes = draw.stream(f"axes of {name}").integers(0, 3, coordinates[:, ::3].shape[:2])
            np.put_along_axis(coordinates[:, ::3], axes[..., None], number, axis=2)
    return made


def clear_cloud(
    draw: Draw, name: str, dtype: DType, centres: int, points: int, squared_radii: Sequence[float]
) -> tuple[Array, Array]:
    """Centres [centres, 3] and points [points + 2·centres, 3], two of each centre beside its outer sphere."""
    full, exponent = FULL[dtype], _EXPONENT[dtype]
    candidates = _CANDIDATES[dtype] * centres
    middle = draw.stream(f"{name} centres").integers(-(full // 2), full // 2 + 1, (candidates, 3))
    skins = middle[:, None] + _beside_sphere(draw, name, dtype, candidates, squared_radii[1] ** 0.5 / 2.0**exponent)
    if np.abs(skins).max() > full:
        raise ValueError("max_radius leaves the range of full mantissas; give a smaller one")
    around = draw.stream(f"{name} points").integers(-full, full + 1, (points, 3))
    new_xyz, pairs, cloud = (placed(units, exponent, dtype) for units in (middle, skins, around))
    rows = _clear_rows(new_xyz, pairs, cloud, squared_radii)[:centres]
    if len(rows) < centres:
        raise ValueError(f"only {len(rows)} of {candidates} centres keep clear; give fewer points or centres")
    everything = np.concatenate([pairs[rows].reshape(-1, 3), cloud])
    return new_xyz[rows], everything[draw.stream(f"{name} order").permutation(len(everything))]


def _beside_sphere(draw: Draw, name: str, dtype: DType, count: int, radius: float) -> Array:
    """Integer vectors [count, 2, 3] of any direction, one a little shorter than the radius and one a little longer."""
    way = draw.stream(f"{name} directions").integers(-(1 << 20), 1 << 20, (count, 2, 3)).astype(np.float64)
    x, y, z = np.moveaxis(np.square(way), -1, 0)
    length = radius * (1 + np.array([-1.0, 1.0]) * _SKIN[dtype])
    vectors: Array = np.rint(way * (length / np.sqrt(x + y + z))[..., None]).astype(np.int64)
    return vectors


def _clear_rows(new_xyz: Array, pairs: Array, cloud: Array, squared_radii: Sequence[float]) -> list[int]:
    """The centres that may stand together with their pairs: each keeps clear of the cloud and of all pairs kept."""
    alone = clear_of_spheres(new_xyz[None], cloud[None], squared_radii)[0]
    # [centre, owner of the pair]
    clear = clear_of_spheres(np.broadcast_to(new_xyz, (len(pairs), *new_xyz.shape)), pairs, squared_radii).T
    kept: list[int] = []
    for row in np.flatnonzero(alone & clear.diagonal()).tolist():
        if clear[row, kept].all() and clear[kept, row].all():
            kept.append(row)
    return kept


def clear_of_spheres(new_xyz: Array, xyz: Array, squared_radii: Sequence[float]) -> Array:
    """bool [B, M]: no float evaluation can move a point of the batch across a sphere around the centre."""
    refuse_tiny(new_xyz, xyz)
    clear = np.ones(new_xyz.shape[:2], bool)
    for batch, first, squared in distances(new_xyz, xyz):
        for limit in squared_radii:
            if limit > 0 and math.isfinite(limit):
                is_near = np.abs(squared - limit) < limit * _CLEAR[dtype_of(xyz)]
                clear[batch, first : first + len(squared)] &= ~is_near.any(axis=1)
    return clear


def _complete(params: Params) -> dict[str, Any]:
    """All parameters, the radii as the floats that a caller passes."""
    p: dict[str, Any] = _DEFAULTS | dict(params)
    return p | {name: float(np.float32(p[name])) for name in ("min_radius", "max_radius")}


def _on_lattice(params: dict[str, Any], dtype: DType, centres: Array, cloud: Array, exponent: int) -> RecipeOutput:
    new_xyz, xyz = placed(centres, exponent, dtype), placed(cloud, exponent, dtype)
    assert_lattice(new_xyz, xyz)
    return _assemble(params, new_xyz, xyz)


def _assemble(params: dict[str, Any], new_xyz: Array, xyz: Array) -> RecipeOutput:
    outputs = {"idx": (*new_xyz.shape[:2], params["nsample"])}
    return RecipeOutput({"new_xyz": new_xyz, "xyz": xyz}, params, outputs=outputs)


@lru_cache(64)
def _vectors_of(square: int) -> Array:
    """Every integer vector of that squared length, to read alone."""
    reach = math.isqrt(square)
    x, y = (axis.reshape(-1) for axis in np.mgrid[-reach : reach + 1, -reach : reach + 1])
    rest = square - x * x - y * y
    z = np.sqrt(np.maximum(rest, 0)).astype(np.int64)
    fits = z * z == rest
    upper = np.stack([x[fits], y[fits], z[fits]], axis=1)
    if len(upper) == 0:
        raise ValueError(f"{square} is no sum of three squares, so no point of the lattice is at that distance")
    vectors = np.concatenate([upper, upper[upper[:, 2] > 0] * (1, 1, -1)])
    vectors.flags.writeable = False
    return vectors


def _sites(draw: Draw, dtype: DType, count: int, reach: int) -> Array:
    """Distinct places so far apart that no vector of length reach + 1 leads from one into the shell of another."""
    step = 2 * reach + 2
    first = reach + 1 - CENTRED[dtype]
    per_axis = min(-2 * first // step + 1, 64)
    if per_axis**3 < count:
        raise ValueError(f"{count} shells of {reach} units do not fit beside each other; give smaller radii")
    chosen = draw.stream("new_xyz").sample(per_axis**3, count)
    places = np.stack([chosen // per_axis**2, chosen // per_axis % per_axis, chosen % per_axis], axis=1)
    return first + step * places


# What fuzzing draws: clouds on lattices or clear of both spheres, for radii that meet many points, few or none.

# In units of the lattice; min_radius above max_radius is an empty shell, and 0 finds the centre alone.
_RADII = ((0.0, 2.5), (1.5, 3.5), (0.0, 1.0), (0.0, 0.0), (2.0, 2.0), (3.0, 1.0), (0.0, 100.0), (1.0, 1.5), (0.5, 9.0))
_NONFINITE = tuple(f"{value} {where}" for value in get_args(_Value) for where in get_args(_Where))


def draw(at: Mapping[str, Any]) -> Drawn | None:
    """Spheres of these radii around the centres of one of the recipes."""
    recipe, (low, high), scale = at["what"], at["radii"], 1.0
    args: dict[str, Any] = {name: at[name] for name in ("batches", "centres", "points")}
    match recipe:
        case "scattered":
            args |= {"spread": at["spread"], "exponent": at["exponent"]}
            scale = 2.0 ** at["exponent"]
        case "offset":
            recipe = "scattered"
            args |= {"spread": at["spread"], "offset": True}
        case "planted":
            # All places of the shell are listed.
            if not 0 < high <= 9:
                return None
            low, last = 0.0, at["points"] - 1
            hits = tuple(dict.fromkeys((0, last // 2, last)))
            rows = tuple((place + at["centres"] - 1) % at["centres"] for place in hits)
            args = {"centres": at["centres"], "points": at["points"], "hits": hits, "rows": rows}
        case "shells":
            squares = (0, 1, 2, 4, 5, 6, 9)[: at["spread"] + 1]
            each = max(1, args.pop("points") // (len(squares) * at["centres"]))
            args |= {"squares": squares, "each": each, "exponent": at["exponent"]}
            scale = 2.0 ** at["exponent"]
        case "precise":
            # Of half rows few keep clear of all points.
            if at["centres"] * at["points"] > (512 if at["dtype"] == "half" else 8192):
                return None
            scale = 1.0 if at["dtype"] == "half" else 1 / 16
        case _:
            recipe, (value, where) = "nonfinite", recipe.split()
            args = {"value": value, "where": where}
    params = {"min_radius": low * scale, "max_radius": high * scale, "nsample": at["nsample"]}
    return Drawn(recipe, params, args, at["dtype"])


SPACE = Space(
    axes={
        "dtype": Choice(("float", "half")),
        "batches": Sizes(1, 5),
        "centres": Sizes(1, 513),
        "points": Sizes(1, 2049),
        "nsample": Sizes(0, 129),
        "radii": Choice(_RADII),
        "spread": Choice((1, 2, 3, 6)),
        "exponent": Choice((0, -2, 3)),
        "what": Choice(("scattered", "offset", "planted", "shells", "precise", *_NONFINITE)),
    },
    draw=draw,
    elements=lambda at: (
        at["batches"] * (at["centres"] * (3 + at["nsample"]) + 3 * at["points"] + at["centres"] * at["points"] // 16)
    ),
    limits=(536895361,),
)

RECIPES = {recipe.__name__: recipe for recipe in (objects, scattered, planted, shells, precise, nonfinite)}
