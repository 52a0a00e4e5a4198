"""Clouds with full mantissas whose points all keep clear of the spheres around all centres."""

from collections.abc import Sequence

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType

from .._shared.points import FULL, clear_of_spheres, placed

# Within ±1 in float; in half ±16, so that no square of a difference is subnormal.
_EXPONENT = {DType.FLOAT: -24, DType.HALF: -7}
# How far inside or outside of the sphere a pair of points lies, relative to the radius: farther than rounding carries,
# nearer than arithmetic of fewer bits can tell.
_SKIN = {DType.FLOAT: 1e-5, DType.HALF: 2.0**-7}
# Centres that are drawn for one that stays: many half rows have a distance too near a sphere.
_CANDIDATES = {DType.FLOAT: 2, DType.HALF: 12}


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
