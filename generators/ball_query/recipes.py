"""Recipes: clouds and centres for which every float evaluation of the distances finds the same points.

Coordinates are integers times 2^exponent, and the radii are in the same units as the coordinates. All recipes but
`precise` draw lattices on which distances are exact; `precise` keeps every distance clear of both spheres.
"""

import math
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput

from .._shared.points import (
    CENTRED,
    assert_lattice,
    farthest_sample,
    offsets,
    placed,
    surfaces,
)
from .clear_clouds import clear_cloud

_DEFAULTS = {"min_radius": 0.0, "max_radius": 2.5, "nsample": 3}

# What all cases of the network draw alike: the second set abstraction searches what the first one kept.
_OBJECTS = 20171
# The objects' reach in 1/1024, 13/16: a multiple of the half lattice's unit, whose integers end at 13.
_REACH = 832
_FINE, _COARSE = -10, -4


def objects(
    draw: Draw, params: Params, dtype: DType, *, batches: int, centres: int, points: int, sampled_from: int = 0
) -> RecipeOutput:
    """Centres that are a farthest-point sample of a cloud, the surface of an object or such a sample of it itself."""
    shared = draw.shared(_OBJECTS)
    cloud = surfaces(shared, batches, sampled_from or points, _REACH)
    if sampled_from:
        cloud = farthest_sample(cloud, points)
    exponent = _FINE
    if dtype is DType.HALF:
        exponent = _COARSE
        cloud = np.rint(cloud / 2.0 ** (_COARSE - _FINE)).astype(np.int64)
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
    return _made(p, new_xyz, xyz)


def nonfinite(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    value: Literal["nan", "inf", "negative_inf"],
    where: Literal["centre", "point", "both"],
) -> RecipeOutput:
    """A dense cloud in which every third centre, every third point or both have `value` on one axis."""
    made = scattered(draw, params, dtype, centres=9, points=24, batches=2, spread=1)
    number = {"nan": math.nan, "inf": math.inf, "negative_inf": -math.inf}[value]
    for name, side in (("new_xyz", "centre"), ("xyz", "point")):
        if where in (side, "both"):
            coordinates = made.inputs[name]
            axes = draw.stream(f"axes of {name}").integers(0, 3, coordinates[:, ::3].shape[:2])
            np.put_along_axis(coordinates[:, ::3], axes[..., None], number, axis=2)
    return made


RECIPES = {recipe.__name__: recipe for recipe in (objects, scattered, planted, shells, precise, nonfinite)}


def _complete(params: Params) -> dict[str, Any]:
    """All parameters, the radii as the floats that a caller passes."""
    p: dict[str, Any] = _DEFAULTS | dict(params)
    return p | {name: float(np.float32(p[name])) for name in ("min_radius", "max_radius")}


def _on_lattice(params: dict[str, Any], dtype: DType, centres: Array, cloud: Array, exponent: int) -> RecipeOutput:
    new_xyz, xyz = placed(centres, exponent, dtype), placed(cloud, exponent, dtype)
    assert_lattice(new_xyz, xyz)
    return _made(params, new_xyz, xyz)


def _made(params: dict[str, Any], new_xyz: Array, xyz: Array) -> RecipeOutput:
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
