"""A turning lidar in a made-up street: tilted road, house fronts, cars, trees; its returns as voxels.

Only + − × ÷ √ and comparisons touch a coordinate: those are the same to the bit on every machine, sin and cos are not.
"""

import math

import numpy as np

from mluops_gtest.authoring.random import Draw, Stream
from mluops_gtest.base.frozen import Value
from mluops_gtest.core.tensor import Array

DEPTH_CELLS = 41

# Metres: the side of the square around the lidar, the height of a voxel, the road above the bottom of the space,
# the lidar above the road, the way driven between two sweeps, the length of a house front.
_SIDE, _VOXEL_HEIGHT, _ROAD, _MOUNT, _DRIVEN, _FRONT = 108.0, 0.2, 3.2, 1.84, 0.5, 8.0
# How far each beam rises per metre.
_RISE = -0.55 + 0.72 * np.arange(32) / 31


class Survey(Value):
    """One street per sample: `sweeps` turns of `azimuths` directions each, in `side` by `side` columns of voxels."""

    batch: int
    side: int
    sweeps: int
    azimuths: int


def sweep(survey: Survey, draw: Draw) -> Array:
    """The linear keys ((n·41 + d)·side + h)·side + w of all voxels with a return, ascending."""
    space = (DEPTH_CELLS, survey.side, survey.side)
    column = _SIDE / survey.side
    filled = []
    for sample in range(survey.batch):
        points = _returns(survey, _Dice(draw.stream(f"street {sample}")))
        voxels = np.floor(points / np.array([[_VOXEL_HEIGHT], [column], [column]])).astype(np.int64)
        inside = np.all((voxels >= 0) & (voxels < np.array(space)[:, None]), axis=0)
        filled.append(np.ravel_multi_index(tuple(voxels[:, inside]), space) + sample * math.prod(space))
    keys: Array = np.sort(np.concatenate(filled))
    distinct: Array = keys[np.append(True, keys[1:] != keys[:-1])]
    return distinct


class _Dice:
    """Uniform numbers from consecutive lanes of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._next = 0

    def between(self, low: float, high: float, *shape: int) -> Array:
        """Uniform in [low, high), in steps of 2^-32 of the range."""
        count = math.prod(shape)
        lanes = self._stream.lanes(count, self._next)
        self._next += count
        values: Array = low + (high - low) * (lanes.astype(np.float64) / 2.0**32)
        return values.reshape(shape)


class _Rays(Value):
    """Horizontal rays, one per sweep and azimuth: start and unit direction of each."""

    x: Array
    y: Array
    dx: Array
    dy: Array

    def turned(self) -> "_Rays":
        """The same rays with the axes exchanged."""
        return _Rays(self.y, self.x, self.dy, self.dx)


class _Obstacle(Value):
    """Per ray the distance to the nearest obstacle of a kind (inf: none) and its height; how deep beams enter."""

    distance: Array
    height: Array
    depth: float = 0.0


def _returns(survey: Survey, dice: _Dice) -> Array:
    """Points (z, y, x) as rows of three, in metres from the corner of the space."""
    rays = _rays(survey, dice)
    obstacles = (
        _cylinders(rays, dice, 24, radius=(0.9, 2.2), height=(1.4, 2.2)),
        # Leaves let beams in.
        _cylinders(rays, dice, 90, radius=(0.3, 1.6), height=(3.0, 9.0), depth=3.0),
        _fronts(rays, dice, 30.0),
        _fronts(rays, dice, -28.0),
        _fronts(rays.turned(), dice, 50.0),
        _fronts(rays.turned(), dice, -46.0),
    )
    tilt_x, tilt_y = dice.between(-0.015, 0.015, 2)
    # Metres that a beam comes nearer to the tilted road per metre.
    descent = (tilt_x * rays.dx + tilt_y * rays.dy)[:, None] - _RISE
    reach = np.where(descent > 0.02, _MOUNT / np.maximum(descent, 0.02), np.inf)
    for obstacle in obstacles:
        met = np.isfinite(obstacle.distance)
        distance = obstacle.distance[met, None]
        below_top = _MOUNT - distance * descent[met] < obstacle.height[met, None]
        entered = distance + dice.between(0.0, obstacle.depth, *below_top.shape)
        reach[met] = np.minimum(reach[met], np.where(below_top, entered, np.inf))
    reach += dice.between(-0.03, 0.03, *reach.shape)
    ray, beam = np.nonzero(reach < _SIDE)
    far = reach[ray, beam]
    return np.stack(
        [
            _ROAD + _MOUNT + _RISE[beam] * far,
            _SIDE / 2 + rays.y[ray] + rays.dy[ray] * far,
            _SIDE / 2 + rays.x[ray] + rays.dx[ray] * far,
        ]
    )


def _rays(survey: Survey, dice: _Dice) -> _Rays:
    turn = (np.arange(survey.azimuths) + dice.between(0.0, 1.0, survey.sweeps, 1)).ravel() * (4 / survey.azimuths)
    quarter = np.floor(turn)
    # −1 to 1 within a quarter; the cubic keeps the angle between neighbours nearly the same.
    side = 2.0 * (turn - quarter) - 1.0
    tangent = side * (0.8 + 0.2 * side * side)
    ahead = 1.0 / np.sqrt(1.0 + tangent * tangent)
    aside = tangent * ahead
    which = quarter.astype(np.int64) % 4
    x = np.repeat(-_DRIVEN * np.arange(survey.sweeps), survey.azimuths)
    dx = np.choose(which, [ahead, -aside, -ahead, aside])
    dy = np.choose(which, [aside, ahead, -aside, -ahead])
    return _Rays(x, np.zeros_like(x), dx, dy)


def _cylinders(
    rays: _Rays, dice: _Dice, count: int, radius: tuple[float, float], height: tuple[float, float], depth: float = 0.0
) -> _Obstacle:
    """Upright cylinders strewn over the street, none nearer than 4 m."""
    to_x = dice.between(-50.0, 50.0, count) - rays.x[:, None]
    to_y = dice.between(-30.0, 30.0, count) - rays.y[:, None]
    radii = dice.between(*radius, count)
    heights = dice.between(*height, count)
    along = to_x * rays.dx[:, None] + to_y * rays.dy[:, None]
    half_chord_squared = radii * radii - (to_x * to_x + to_y * to_y - along * along)
    met = (half_chord_squared > 0) & (along > 4.0)
    distance = np.where(met, along - np.sqrt(np.maximum(half_chord_squared, 0.0)), np.inf)
    return _Obstacle(distance.min(axis=1), heights[distance.argmin(axis=1)], depth)


def _fronts(rays: _Rays, dice: _Dice, y: float) -> _Obstacle:
    """A row of house fronts along x at `y`, each of its own height; a negative height is a gap."""
    heights = dice.between(-2.0, 10.0, 32)
    # Rays that run along the row meet it too far away.
    facing = rays.dy * math.copysign(1.0, y) > 1e-3
    distance = np.where(facing, (y - rays.y) / np.where(facing, rays.dy, 1.0), np.inf)
    x = rays.x + rays.dx * np.where(facing, distance, 0.0)
    house = np.clip(np.floor(x / _FRONT) + 16, 0, 31).astype(np.int64)
    return _Obstacle(distance, heights[house])
