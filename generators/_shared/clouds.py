"""Sites of lidar sweeps through the layers of a 3-D detection network, with exactly the counts of the documents.

A turning lidar sees a made-up street: tilted road, house fronts, cars, trees; its returns are voxels. Only + − × ÷ √
and comparisons touch a coordinate: those are the same to the bit on every machine, sin and cos are not.

The sites of each level are the outputs of the level before, so the counts are met from the coarse end: keep the nearest
outputs of the sweep, then of the sweep's own finer sites only those whose outputs are all kept, at least one for each
output, nearest first. That needs no search, and the finest level still is the sweep.
"""

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np

from mluops_gtest.authoring import Array, Draw, Stream

from .sparse import Geometry, derive_output_space

DEPTH_CELLS = 41

# Metres: the side of the square around the lidar, the height of a voxel, the road above the bottom of the space,
# the lidar above the road, the way driven between two sweeps, the length of a house front.
_SIDE, _VOXEL_HEIGHT, _ROAD, _MOUNT, _DRIVEN, _FRONT = 108.0, 0.2, 3.2, 1.84, 0.5, 8.0
# How far each beam rises per metre.
_RISE = -0.55 + 0.72 * np.arange(32) / 31


@dataclass(frozen=True, slots=True)
class Survey:
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


@dataclass(frozen=True, slots=True)
class _Rays:
    """Horizontal rays, one per sweep and azimuth: start and unit direction of each."""

    x: Array
    y: Array
    dx: Array
    dy: Array

    def turned(self) -> "_Rays":
        """The same rays with the axes exchanged."""
        return _Rays(self.y, self.x, self.dy, self.dx)


@dataclass(frozen=True, slots=True)
class _Obstacle:
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


_SEED = 20230207
_ONES = (1, 1, 1)

# Kernel, stride and pad between the levels: the network's depth goes 41 → 21 → 11 → 5 → 2.
_STEPS = (
    ((3, 3, 3), (2, 2, 2), (1, 1, 1)),
    ((3, 3, 3), (2, 2, 2), (1, 1, 1)),
    ((3, 3, 3), (2, 2, 2), (0, 1, 1)),
    ((3, 1, 1), (2, 1, 1), (0, 0, 0)),
)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A survey and how many sites each level must have, finest first."""

    survey: Survey
    counts: tuple[int, int, int, int, int]


_NETWORK = _Plan(Survey(batch=4, side=1440, sweeps=8, azimuths=480), (248636, 280511, 149100, 58838, 45406))
_SMALL = _Plan(Survey(batch=2, side=48, sweeps=1, azimuths=32), (320, 360, 240, 105, 80))

# What a layer convolves: the level its sites come from, and the step to the next level (None: sub_m, k 3, s 1, p 1).
_LAYERS = {
    "subm_41x1440x1440": (0, None),
    "down_41x1440x1440": (0, 0),
    "down_21x720x720": (1, 1),
    "down_11x360x360": (2, 2),
    "subm_5x180x180": (3, None),
    "out_5x180x180": (3, 3),
}


def network_layer(name: str, draw: Draw) -> tuple[Array, Geometry]:
    """The sites [L, 4] and the geometry of a layer at network scale; the array is shared and read-only.

    All cases see the same streets, whatever the seed of `draw`; only --reseed builds other ones.
    """
    return _layer(name, _NETWORK, draw)


def small_layer(name: str, draw: Draw) -> tuple[Array, Geometry]:
    """A twin of the layer with the same structure and a few hundred sites; the array is shared and read-only."""
    return _layer(name, _SMALL, draw)


def nearest_sites(sites: Array, count: int) -> Array:
    """The `count` sites around the one in the middle of the list, in the order of the list."""
    distance = np.abs(sites - sites[len(sites) // 2]).sum(axis=1)
    return sites[np.sort(np.argsort(distance, kind="stable")[:count])]


def random_sites(stream: Stream, batch: int, space: tuple[int, int, int], count: int) -> Array:
    """`count` distinct sites (n, d, h, w), uniform over the space, in random order; [count, 4] int32."""
    cells = batch * math.prod(space)
    if count > cells:
        raise ValueError(f"random_sites: {count} distinct sites in a space of {cells} cells do not exist")
    if cells <= 64 * count:
        keys = stream.sample(cells, count)
    else:
        # Too many cells to shuffle: draw with room to spare, keep the first of equals, in the order drawn.
        lanes = stream.lanes(4 * count + 64).view("<u8")
        drawn = (lanes % np.uint64(cells)).astype(np.int64)
        _, first = np.unique(drawn, return_index=True)
        keys = drawn[np.sort(first)][:count]
    return _sites(keys, (batch, *space))


def _layer(name: str, plan: _Plan, draw: Draw) -> tuple[Array, Geometry]:
    if name not in _LAYERS:
        raise ValueError(f"there is no network layer {name!r}; choose one of {', '.join(_LAYERS)}")
    level, step = _LAYERS[name]
    steps = _steps(plan.survey)
    sites = _levels(plan, draw.shared(_SEED).seed)[level]
    if step is not None:
        return sites, steps[step]
    space = steps[level].input_space
    return sites, Geometry(plan.survey.batch, space, (3, 3, 3), _ONES, _ONES, _ONES, space, sub_m=True)


@functools.lru_cache(maxsize=8)
def _levels(plan: _Plan, seed: int) -> tuple[Array, ...]:
    """The sites of every level, finest first, each ascending and exactly the outputs of the one before."""
    steps = _steps(plan.survey)
    swept = [sweep(plan.survey, Draw(seed))]
    for step in steps:
        swept.append(_outputs(swept[-1], step))
    nearest = _nearest_first(swept[-1], steps[-1].output_space)
    levels = [np.sort(nearest[: plan.counts[-1]])]
    for keys, step, count in zip(swept[-2::-1], steps[::-1], plan.counts[-2::-1], strict=True):
        levels.append(_choose(keys, levels[-1], step, count))
    spaces = [step.input_space for step in steps] + [steps[-1].output_space]
    sites = tuple(_sites(keys, (plan.survey.batch, *space)) for keys, space in zip(levels[::-1], spaces, strict=True))
    for array in sites:
        array.flags.writeable = False
    return sites


def _steps(survey: Survey) -> list[Geometry]:
    space = (DEPTH_CELLS, survey.side, survey.side)
    steps = []
    for kernel, stride, pad in _STEPS:
        coarser = derive_output_space(space, kernel, stride, pad, _ONES)
        steps.append(Geometry(survey.batch, space, kernel, stride, pad, _ONES, coarser))
        space = coarser
    return steps


def _sites(keys: Array, shape: tuple[int, int, int, int]) -> Array:
    return np.stack(np.unravel_index(keys, shape), axis=1).astype("<i4")


def _met(keys: Array, step: Geometry) -> list[Array]:
    """Eight arrays of output keys, which together are all that each site meets (at most two on an axis)."""
    batch, *site = np.unravel_index(keys, (step.batch, *step.input_space))
    axes = zip(site, step.pad, step.kernel, step.stride, step.output_space, strict=True)
    ends = [(np.maximum(-((k - 1 - p - x) // s), 0), np.minimum((x + p) // s, limit - 1)) for x, p, k, s, limit in axes]
    shape = (step.batch, *step.output_space)
    return [np.ravel_multi_index((batch, *corner), shape) for corner in itertools.product(*ends)]


def _outputs(keys: Array, step: Geometry) -> Array:
    """The keys of all output sites, ascending."""
    flags = np.zeros(step.batch * math.prod(step.output_space), np.bool_)
    for met in _met(keys, step):
        flags[met] = True
    return np.flatnonzero(flags)


def _nearest_first(keys: Array, space: tuple[int, int, int]) -> Array:
    """The keys by horizontal distance from the lidar in the middle; equals stay in order."""
    _, height, width = space
    y = 2 * (keys // width % height) - height + 1
    x = 2 * (keys % width) - width + 1
    return keys[np.argsort(y * y + x * x, kind="stable")]


def _choose(swept: Array, kept: Array, step: Geometry, count: int) -> Array:
    """`count` sites, of the swept ones where possible, whose outputs are exactly `kept`."""
    centres = _centres(kept, step)
    # Both ascend. np.setdiff1d hashes, which takes half of all the time that a cloud takes.
    missed = swept.take(np.searchsorted(swept, centres), mode="clip") != centres
    candidates = np.concatenate([_nearest_first(swept, step.input_space), centres[missed]])
    place = np.full(step.batch * math.prod(step.output_space), -1, np.int32)
    place[kept] = np.arange(len(kept), dtype=np.int32)
    met = np.stack([place[keys] for keys in _met(candidates, step)])
    closed = (met >= 0).all(axis=0)
    candidates, met = candidates[closed], met[:, closed]
    # The first candidate that covers each output: of repeated places the last write stays, so write backwards.
    cover = np.full(len(kept), len(candidates))
    for places in met:
        first = np.full(len(kept), len(candidates))
        first[places[::-1]] = np.arange(len(candidates))[::-1]
        np.minimum(cover, first, out=cover)
    chosen = np.zeros(len(candidates), np.bool_)
    chosen[cover] = True
    missing = count - np.count_nonzero(chosen)
    others = np.flatnonzero(~chosen)
    if not 0 <= missing <= len(others):
        raise ValueError(
            f"{count} sites cannot cover {len(kept)} outputs with {len(candidates)} candidates; sweep more"
        )
    chosen[others[:missing]] = True
    return np.sort(candidates[chosen])


def _centres(kept: Array, step: Geometry) -> Array:
    """For each output the one input under the middle of its kernel, which meets no other output."""
    batch, *out = np.unravel_index(kept, (step.batch, *step.output_space))
    axes = zip(out, step.stride, step.pad, step.kernel, strict=True)
    centre = (o * s - p + k // 2 for o, s, p, k in axes)
    return np.ravel_multi_index((batch, *centre), (step.batch, *step.input_space))
