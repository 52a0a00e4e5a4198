"""Points in turned boxes, with answers that no rounding can change.

A box is (cx, cy, cz, dx, dy, dz, rz), a point (x, y, z). Whether a point is inside is decided in exact arithmetic on
the stored values: either box and point lie on a lattice on which every step of a float evaluation is exact, and the
box is not turned, or the point keeps away from the faces of the box, farther than any evaluation errs. Arrays of points
[..., 3] and of boxes [..., 7] may have any shapes that broadcast: points[:, None] and boxes are all pairs.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np

from mluops_gtest.authoring import Array, Baseline, ContentError, Draw, DType, OpCall, Stream
from mluops_gtest.authoring.exact_numbers import fraction
from mluops_gtest.authoring.sums import lattice_exponent

# Pairs that are looked at together: a few arrays of float64 stay in the cache.
_PAIRS = 1 << 16
# Farther headings are not asked for: an argument that is reduced in float would err too much.
FARTHEST_HEADING = 100.0
# How far an evaluation may be off, of the sum of all that it adds up: sine and cosine err by 1e-6 or 2^-9 besides.
_ERROR = {DType.FLOAT: 2e-6, DType.HALF: 2.0**-8}
_BITS = {DType.FLOAT: 24, DType.HALF: 11}
# On a lattice a side that is widened is rounded once.
_ROUNDED = 2.0**-22
_ROUNDS = 64

Comparison = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class BoxTest:
    """Which points are inside a box: where its z lies, how far its sides reach, and which faces belong to it."""

    # cz is the centre of the bottom face, not that of the box.
    bottom: bool
    widened: float = 0.0
    sides: Comparison = np.less
    ends: Comparison = np.less_equal

    def inside(self, points: Array, boxes: Array) -> Array:
        """bool: the point is inside the box; NaN never is, ±Inf in no finite box."""
        return _of_near_pairs(self._inside, points, boxes, 1.0, 4 * self.widened)

    def inside_of_batches(self, points: Array, boxes: Array) -> Array:
        """bool [B, M, T] of points [B, M, 3] and boxes [B, T, 7]."""
        found = np.empty((*points.shape[:2], boxes.shape[1]), bool)
        for batch, some, block in blocks(points, boxes):
            found[batch, some] = self.inside(block, boxes[batch])
        return found

    def undecided(self, points: Array, boxes: Array, dtype: DType) -> Array:
        """bool: some evaluation in that type may find another answer."""
        # ±Inf is outside of every finite box; what NaN and other boxes mean is left open.
        finite = np.where(np.isfinite(boxes).all(axis=-1, keepdims=True), boxes, np.nan)
        return _of_near_pairs(partial(_undecided, self, dtype), points, finite, 2.0, 1e-3)

    def _inside(self, points: Array, boxes: Array) -> Array:
        x, y, z = local(points, boxes, bottom=self.bottom)
        half = boxes[:, 3:6].astype(np.float64) / 2
        between_ends = self.ends(np.abs(z), half[:, 2])
        between_sides = [self.sides(np.abs(side), half[:, at] + self.widened) for at, side in enumerate((x, y))]
        is_inside: Array = between_ends & between_sides[0] & between_sides[1]
        return is_inside


def _of_near_pairs(
    answer: Callable[[Array, Array], Array], points: Array, boxes: Array, part: float, more: float
) -> Array:
    """bool: what is answered of pairs [K, 3] and [K, 7]; False where a point is far outside of the box."""
    with np.errstate(invalid="ignore", over="ignore"):
        # Both sides hold a point only where |sx| + |sy| ≤ √2·(|lx| + |ly|) ≤ (|dx| + |dy|)/√2.
        near = np.abs(points[..., 0].astype(np.float64) - boxes[..., 0])
        near = near + np.abs(points[..., 1].astype(np.float64) - boxes[..., 1])
        # NaN is far away.
        is_near = near <= part * (np.abs(boxes[..., 3]) + np.abs(boxes[..., 4])).astype(np.float64) + more
        found = np.zeros(is_near.shape, bool)
        if is_near.any():
            pairs = [np.broadcast_to(side, (*found.shape, side.shape[-1]))[is_near] for side in (points, boxes)]
            found[is_near] = answer(*pairs)
    return found


def local(points: Array, boxes: Array, *, bottom: bool) -> tuple[Array, Array, Array]:
    """float64: where points lie from the middle of boxes, along the boxes' own axes; exact on lattices."""
    points, boxes = points.astype(np.float64), boxes.astype(np.float64)
    x, y, z = (points[..., axis] - boxes[..., axis] for axis in range(3))
    if bottom:
        z = z - boxes[..., 5] / 2
    cosine, sine = turn(-boxes[..., 6])
    return x * cosine - y * sine, x * sine + y * cosine, z


def turn(angles: Array) -> tuple[Array, Array]:
    """float64 cosine and sine, right to 1e-13 up to FARTHEST_HEADING, the same bits on every machine; 1 and 0 of 0."""
    # numpy's own differ between machines. NaN stays NaN.
    rest = np.fmod(np.asarray(angles, np.float64), 2 * math.pi)
    quarter = np.rint(rest / (math.pi / 2))
    rest = rest - quarter * (math.pi / 2)
    square = rest * rest
    cosine, sine = np.zeros(rest.shape), np.zeros(rest.shape)
    for power in range(18, -1, -2):
        sign = 1.0 if power % 4 == 0 else -1.0
        cosine = cosine * square + sign / math.factorial(power)
        sine = sine * square + sign / math.factorial(power + 1)
    sine = sine * rest
    place = np.nan_to_num(quarter).astype(np.int64) % 4
    swapped = place % 2 == 1
    return (
        np.where(swapped, sine, cosine) * np.where((place == 1) | (place == 2), -1.0, 1.0),
        np.where(swapped, cosine, sine) * np.where(place >= 2, -1.0, 1.0),
    )


def blocks(points: Array, boxes: Array) -> Iterator[tuple[int, slice, Array]]:
    """Of points [B, M, 3] and boxes [B, T, 7] a batch, some of its points, and these as [m, 1, 3] for all boxes."""
    height = max(1, _PAIRS // max(1, boxes.shape[1]))
    for batch in range(len(points)):
        for first in range(0, points.shape[1], height):
            some = slice(first, first + height)
            yield batch, some, points[batch, some, None]


# What no rounding can change.


def undecided_pair(points: Array, boxes: Array, test: BoxTest, dtype: DType) -> str | None:
    """The first point and box of which rounding decides; None where there is none."""
    for batch, some, block in blocks(points, boxes):
        found = test.undecided(block, boxes[batch], dtype)
        if found.any():
            point, box = np.argwhere(found)[0].tolist()
            return f"rounding decides whether a point is inside: point [{batch}, {some.start + point}], box {box}"
    return None


def _undecided(test: BoxTest, dtype: DType, points: Array, boxes: Array) -> Array:
    storage = np.finfo(dtype.storage)
    away = np.abs(np.stack(local(points, boxes, bottom=test.bottom)))
    dims = boxes[:, 3:6].T.astype(np.float64)
    widened = np.array([[test.widened], [test.widened], [0.0]])
    beyond = away - dims / 2 - widened
    # What an evaluation adds up: for the sides x, y and both lengths, for the ends z and the height.
    across = np.abs(points[:, :2].astype(np.float64) - boxes[:, :2]).sum(axis=1) + np.abs(dims[:2]).sum(axis=0)
    along = np.abs(points[:, 2].astype(np.float64)) + np.abs(boxes[:, 2]) + np.abs(dims[2])
    # Nor do sides that are widened tell themselves from those that are not: only a lattice asks for that.
    sides = 2 * test.widened + (2 if test.widened else 1) * _ERROR[dtype] * across
    sides[(np.abs(boxes[:, 6]) > FARTHEST_HEADING) | (across > float(storage.max) / 4)] = np.inf
    error = np.stack([sides, sides, _ERROR[dtype] * along]) + 4 * float(storage.tiny)
    # On a lattice nothing rounds but the sum or difference with what widens the sides.
    rounded = np.where(widened > 0, _ROUNDED * (away + np.abs(dims) / 2), 0.0)
    error = np.where(is_on_lattice(points, boxes, dtype), rounded, error)
    is_outside = (beyond > 0) & (beyond >= error)
    undecided: Array = (np.abs(beyond) < error).any(axis=0) & ~is_outside.any(axis=0) & np.isfinite(points[:, 2])
    return undecided


def is_on_lattice(points: Array, boxes: Array, dtype: DType) -> Array:
    """bool [K] of pairs [K, 3] and [K, 7]: the box is not turned, and no step of an evaluation in that type rounds."""
    straight = boxes[:, 6] == 0
    # Beyond 2^100 a unit no longer matters, and the limit would overflow.
    exponent = min(lattice_exponent(points[straight]), lattice_exponent(boxes[straight, :6]), 100)
    # Half a unit is the finest step; it must be a normal number.
    if exponent - 1 < np.finfo(dtype.storage).minexp:
        return np.zeros(len(points), bool)
    reach = np.abs(points.astype(np.float64)) + np.abs(boxes[:, :3]) + np.abs(boxes[:, 3:6])
    fits: Array = (reach <= 2.0 ** (exponent + _BITS[dtype] - 1)).all(axis=1) & straight
    return fits


def find_undefined(points: str, boxes: str) -> Callable[[OpCall, Baseline], str | None]:
    """For `left_open`: NaN in a point, or a box that is not finite."""

    def find(call: OpCall, _: Baseline) -> str | None:
        """NaN in a point, or a box that is not finite; None if there is neither."""
        if np.isnan(call.array(points)).any():
            return f"{points} has NaN"
        return None if np.isfinite(call.array(boxes)).all() else f"{boxes} has NaN or an infinity"

    return find


# Exact arithmetic, as the documents write it.


def exactly_local(point: Array, box: Array, *, bottom: bool) -> tuple[Any, Any, Any]:
    """(lx, ly, z from the middle) as fractions; floats where a number is not finite."""
    x, y, z = (fraction(value) for value in point)
    cx, cy, cz, _, _, dz, rz = (fraction(value) for value in box)
    cosine, sine = _exact_turn(-rz)
    middle = cz + dz / 2 if bottom else cz
    return (x - cx) * cosine - (y - cy) * sine, (x - cx) * sine + (y - cy) * cosine, z - middle


def is_exactly_inside(point: Array, box: Array, *, bottom: bool, widened: Fraction = Fraction(0)) -> bool:
    """The point is inside the box: z faces are, sides are not."""
    lx, ly, lz = exactly_local(point, box, bottom=bottom)
    dx, dy, dz = (fraction(value) for value in box[3:6])
    return bool(abs(lz) <= dz / 2 and abs(lx) < dx / 2 + widened and abs(ly) < dy / 2 + widened)


@cache
def _exact_turn(angle: Fraction | float) -> tuple[Fraction | float, Fraction | float]:
    """Cosine and sine, to 300 bits."""
    if not isinstance(angle, Fraction):
        return math.nan, math.nan
    if abs(angle) > 1000:
        raise ValueError("headings beyond 1000 need more terms of the series")
    one = 1 << 2048
    numerator, denominator = angle.numerator, angle.denominator
    sums, term, power = [0, 0], one, 0
    while term:
        sums[power % 2] += term if power % 4 < 2 else -term
        power += 1
        term = term * numerator // (denominator * power)
        # Rounding down never ends below zero.
        term += term < 0
    return Fraction(sums[0], one), Fraction(sums[1], one)


# Made-up scenes. Only + − × ÷ and comparisons touch a coordinate.


def uniform(stream: Stream, low: float, high: float, shape: int | tuple[int, ...]) -> Array:
    """float64, uniform in [low, high), with 24 random bits."""
    values: Array = low + (high - low) * (stream.integers(0, 1 << 24, shape) / 2.0**24)
    return values


def road_boxes(draw: Draw, batches: int, count: int, dtype: DType, reach: float = 70.0) -> Array:
    """Cars, trucks and walkers [B, T, 7] of any heading on a road, the centre of the box in the third place."""
    boxes = np.empty((batches, count, 7))
    for place, (low, high) in enumerate(
        ((-reach, reach), (-reach, reach), (-1.5, 1.0), (0.6, 11.0), (0.5, 2.8), (1.2, 3.5), (-math.pi, math.pi))
    ):
        boxes[..., place] = uniform(draw.stream(f"boxes {place}"), low, high, (batches, count))
    return boxes.astype(dtype.storage)


def proposals(draw: Draw, objects: Array, count: int) -> Array:
    """Boxes [B, T, 7] around objects [B, O, 7] in turn: moved by up to a tenth of their size, resized, turned."""
    chosen = np.take(objects, np.arange(count) % objects.shape[1], axis=1).astype(np.float64)
    jitter = uniform(draw.stream("proposals"), -1.0, 1.0, chosen.shape)
    chosen[..., :3] += 0.1 * jitter[..., :3] * chosen[..., 3:6]
    chosen[..., 3:6] *= 1 + 0.2 * jitter[..., 3:6]
    chosen[..., 6] += 0.2 * jitter[..., 6]
    moved: Array = chosen.astype(objects.dtype)
    return moved


def within(boxes: Array, part: Array, *, bottom: bool) -> Array:
    """float64 points [..., 3] of boxes [..., 7], at parts of their half lengths: ±1 is a face."""
    boxes = boxes.astype(np.float64)
    x, y, z = np.moveaxis(part * boxes[..., 3:6] / 2, -1, 0)
    if bottom:
        z = z + boxes[..., 5] / 2
    cosine, sine = turn(boxes[..., 6])
    points: Array = boxes[..., :3] + np.stack([x * cosine - y * sine, x * sine + y * cosine, z], axis=-1)
    return points


def clear_points(draw: Callable[[int], Array], boxes: Array, test: BoxTest, dtype: DType) -> Array:
    """The points [B, M, 3] of round 0, each drawn again until it keeps away from all faces of its batch's boxes."""
    points = draw(0).astype(dtype.storage)
    waiting = np.ones(points.shape[:2], bool)
    for turn_number in range(1, _ROUNDS):
        for batch in range(len(points)):
            rows = np.flatnonzero(waiting[batch])
            for _, some, block in blocks(points[batch, rows][None], boxes[batch][None]):
                waiting[batch, rows[some]] = test.undecided(block, boxes[batch], dtype).any(axis=1)
        if not waiting.any():
            return points
        points[waiting] = draw(turn_number).astype(dtype.storage)[waiting]
    raise ContentError(f"{int(waiting.sum())} points stay too near a face; give smaller or fewer boxes")


# A face, an edge or a corner is approached from the inside on the other axes.
_SIGNS = [(x, y, z) for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1) if (x, y, z) != (0, 0, 0)]


def beside_faces(boxes: Array, offsets: tuple[int, ...], unit: float, *, bottom: bool) -> Array:
    """float64 points [T, 26·offsets, 3]: so many units beyond each face, edge and corner of straight boxes [T, 7]."""
    boxes = boxes.astype(np.float64)[:, None, None]
    signs, beyond = np.array(_SIGNS, np.float64)[:, None], np.array(offsets)[:, None] * unit
    # An eighth of the length off the middle, so that no two points agree by symmetry.
    away = np.where(signs == 0, boxes[..., 3:6] / 8, signs * (boxes[..., 3:6] / 2 + beyond))
    middle = boxes[..., :3] + np.array((0, 0, 0.5 * bottom)) * boxes[..., 3:6]
    points: Array = (middle + away).reshape(len(boxes), -1, 3)
    return points
