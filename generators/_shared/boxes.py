"""Points in turned boxes, with answers that no rounding can change.

A box is (cx, cy, cz, dx, dy, dz, rz), a point (x, y, z). Whether a point is inside is decided in exact arithmetic on
the stored values: either box and point lie on a lattice on which every step of a float evaluation is exact, and the
box is not turned, or the point keeps away from the faces of the box, farther than any evaluation errs. Arrays of points
[..., 3] and of boxes [..., 7] may have any shapes that broadcast: points[:, None] and boxes are all pairs.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import Any, Literal

import numpy as np

from mluops_gtest.authoring import Array, Baseline, ContentError, Draw, DType, OpCall, Params, RecipeOutput, Stream
from mluops_gtest.authoring.exact_numbers import fraction
from mluops_gtest.authoring.space import Drawn
from mluops_gtest.authoring.sums import lattice_exponent

from .points import placed

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
        for batches, some, block, theirs in blocks(points, boxes):
            found[batches, some] = self.inside(block, theirs)
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
        # Flat: numpy takes several times as long to find the places of several axes.
        places = np.unravel_index(np.flatnonzero(is_near), found.shape)
        if len(places[0]):
            pairs = [np.broadcast_to(side, (*found.shape, side.shape[-1]))[places] for side in (points, boxes)]
            found[places] = answer(*pairs)
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


def blocks(points: Array, boxes: Array) -> Iterator[tuple[slice, slice, Array, Array]]:
    """Some batches of points [B, M, 3] and boxes [B, T, 7], some of their points, these as [b, m, 1, 3], and the boxes
    as [b, 1, T, 7]."""
    height = max(1, _PAIRS // max(1, boxes.shape[1]))
    depth = max(1, height // max(1, points.shape[1]))
    for start in range(0, len(points), depth):
        for first in range(0, points.shape[1], height):
            batches, some = slice(start, start + depth), slice(first, first + height)
            yield batches, some, points[batches, some, None], boxes[batches, None]


# What no rounding can change.


def undecided_pair(points: Array, boxes: Array, test: BoxTest, dtype: DType) -> str | None:
    """The first point and box of which rounding decides; None where there is none."""
    for batches, some, block, theirs in blocks(points, boxes):
        found = test.undecided(block, theirs, dtype)
        if found.any():
            batch, point, box = (np.argwhere(found)[0] + (batches.start, some.start, 0)).tolist()
            return f"rounding decides whether a point is inside: point [{batch}, {point}], box {box}"
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
            for _, some, block, theirs in blocks(points[batch, rows][None], boxes[batch][None]):
                waiting[batch, rows[some]] = test.undecided(block, theirs, dtype)[0].any(axis=1)
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


# Recipes of scenes: boxes that do not meet, points around boxes, points on their faces.

# Boxes that must not meet stand so far apart, in metres; the idle points lie far below them.
_APART, _BELOW, _REACH = 16.0, -50.0, 75.0

Ints = tuple[int, ...]
Floats = tuple[float, ...]
Value = Literal["inf", "negative_inf", "nan"]


def boxes_apart(draw: Draw, count: int, dtype: DType) -> Array:
    """Boxes [1, T, 7] that do not meet."""
    objects = road_boxes(draw, 1, count, dtype)
    width = math.isqrt(count - 1) + 1
    number = np.arange(count)
    objects[0, :, 0], objects[0, :, 1] = _APART * (number % width - width // 2), _APART * (number // width - width // 2)
    return objects


def planted_points(draw: Draw, boxes: Array, owners: Array, test: BoxTest, dtype: DType) -> Array:
    """Points [B, M, 3], each in the box of its batch that `owners` [B, M] names; those of −1 far from all."""

    def cloud(turn: int) -> Array:
        idle = uniform(draw.stream(f"idle {turn}"), -_REACH, _REACH, (*owners.shape, 3))
        idle[..., 2] += _BELOW - _REACH
        part = uniform(draw.stream(f"part {turn}"), -0.9, 0.9, idle.shape)
        own = np.take_along_axis(boxes, np.maximum(owners, 0)[..., None], axis=1)
        return np.where(owners[..., None] >= 0, within(own, part, bottom=test.bottom), idle)

    return clear_points(cloud, boxes, test, dtype)


@dataclass(frozen=True, slots=True)
class Scenes:
    """Recipes for operators with such a test; `made` gives of points, boxes and the number of features a call.

    `finite` is the scene into which values that are not finite are put.
    """

    test: BoxTest
    made: Callable[[Draw, Params, Array, Array, int], RecipeOutput]
    finite: Callable[[Draw, Params, DType], RecipeOutput]

    def planted(
        self,
        draw: Draw,
        params: Params,
        dtype: DType,
        *,
        points: int,
        boxes: int,
        hits: Ints = (),
        rows: Ints = (),
        channels: int = 1,
        others: Literal["outside", "in_turn"] = "outside",
    ) -> RecipeOutput:
        """Point hits[i] is in box rows[i]; the others are in none, or in the boxes in turn."""
        if len(hits) != len(rows) or len(set(zip(hits, rows, strict=True))) != len(set(hits)):
            raise ValueError("hits and rows go in pairs, and a point is in one box")
        objects = boxes_apart(draw, boxes, dtype)
        owners = np.full((1, points), -1) if others == "outside" else np.arange(points)[None] % boxes
        owners[0, list(hits)] = rows
        return self.made(draw, params, planted_points(draw, objects, owners, self.test, dtype), objects, channels)

    def turned(
        self, draw: Draw, params: Params, dtype: DType, *, headings: Floats, each: int, skin: float = 0.0
    ) -> RecipeOutput:
        """A box of each heading, and points in and around every one, with a skin all near a face; two features."""
        objects = boxes_apart(draw, len(headings), dtype)
        objects[..., 6] = headings
        if skin:
            # Centres, too, use every bit of a mantissa.
            objects[..., :2] += uniform(draw.stream("centres"), -1.0, 1.0, (len(headings), 2))
        return self._around(draw, params, dtype, objects, each, skin)

    def nested(self, draw: Draw, params: Params, dtype: DType, *, lengths: Ints, each: int) -> RecipeOutput:
        """Boxes of one place and heading, as many times larger than the first; points in and around; two features."""
        objects = np.repeat(boxes_apart(draw, 1, dtype), len(lengths), axis=1)
        objects[..., 3:6] *= np.array(lengths)[:, None]
        return self._around(draw, params, dtype, objects, each)

    def _around(
        self, draw: Draw, params: Params, dtype: DType, boxes: Array, each: int, skin: float = 0.0
    ) -> RecipeOutput:
        """So many points in and around each of the boxes [1, T, 7], in any order."""
        shape = (1, boxes.shape[1], each, 3)

        def cloud(turn: int) -> Array:
            part = uniform(draw.stream(f"part {turn}"), -1.5, 1.5, shape)
            if skin:
                axis = draw.stream(f"face {turn}").integers(0, 3, (*shape[:3], 1))
                part = np.where(np.arange(3) == axis, np.copysign(1 + skin * part, part), part / 1.6)
            # No box is empty.
            part[:, :, 0] = uniform(draw.stream(f"own {turn}"), -0.9, 0.9, (1, shape[1], 3))
            places = within(boxes[:, :, None], part, bottom=self.test.bottom).reshape(1, -1, 3)
            return places[:, draw.stream("order").permutation(places.shape[1])]

        return self.made(draw, params, clear_points(cloud, boxes, self.test, dtype), boxes, 2)

    def faces(
        self, draw: Draw, params: Params, dtype: DType, *, lengths: Floats, offsets: Ints, exponent: int = -17
    ) -> RecipeOutput:
        """Straight boxes dx, dy, dz of `lengths`; points so many 2^exponent beyond each face, edge and corner."""
        sizes = np.array(lengths).reshape(-1, 3)
        unit = 2.0**exponent
        # Whole numbers beside each other; halves of lengths must be on the lattice.
        centres = draw.stream("centres").integers(-2, 3, (len(sizes), 3)) + np.arange(len(sizes))[:, None] * (6, 0, 0)
        straight = np.concatenate([centres, sizes, np.zeros((len(sizes), 1))], axis=1)
        cloud = beside_faces(straight, offsets, unit, bottom=self.test.bottom).reshape(-1, 3)
        cloud = cloud[draw.stream("order").permutation(len(cloud))]
        placed_cloud = placed(np.rint(cloud / unit), exponent, dtype)[None]
        return self.made(draw, params, placed_cloud, straight[None].astype(dtype.storage), 1)

    def nonfinite(self, draw: Draw, params: Params, dtype: DType, *, value: Value) -> RecipeOutput:
        """Every third point has `value` on one axis, each axis in turn."""
        made = self.finite(draw, params, dtype)
        points = made.inputs["points"]
        rows = np.arange(0, points.shape[1], 3)
        points[:, rows, rows // 3 % 3] = {"nan": np.nan, "inf": np.inf, "negative_inf": -np.inf}[value]
        return made

    def recipes(self, **own: Callable[..., RecipeOutput]) -> dict[str, Callable[..., RecipeOutput]]:
        """All of them, behind the operator's own."""
        every = (self.planted, self.turned, self.nested, self.faces, self.nonfinite)
        return {**own, **{one.__name__: one for one in every}}


# What fuzzing draws.

_HEADINGS = (100.0, 0.5, -math.pi / 2, math.pi, 0.0, math.pi / 4, 9.5, -3.0)
_LENGTHS = ((2.0, 1.0, 4.0), (1.0, 2.0, 0.0), (0.0, 1.0, 1.0), (-1.0, 1.0, 2.0, 2.0, 2.0, 2.0))


def draw_in_scenes(at: Mapping[str, Any], params: Params | None = None, **own: tuple[str, ...]) -> Drawn:
    """A call of the recipe that at["what"] names, or of `nonfinite` with that value; `own` are others by arguments."""
    points, boxes, few, what, dtype = at["points"], at["boxes"], at["few"], at["what"], at.get("dtype", "float")
    is_half = dtype == "half"
    args: dict[str, Any]
    match what:
        case _ if what in own:
            args = {name: at[name] for name in own[what]}
        case "planted":
            hits = tuple(dict.fromkeys((0, points // 2, points - 1)))
            # Halves are far from exact where many boxes reach far.
            boxes = min(boxes, 30) if is_half else boxes
            args = {"points": points, "boxes": boxes, "hits": hits, "rows": tuple(hit * few % boxes for hit in hits)}
            args["channels"] = at.get("channels", 1)
        case "turned":
            # Halves of large headings err too much.
            headings = np.roll(_HEADINGS, few)[:few] / (100 if is_half else 1)
            args = {"headings": tuple(headings.tolist()), "each": 1 + points // 8}
        case "nested":
            args = {"lengths": tuple(np.roll((1, 3, 2, 2), few)[:few].tolist()), "each": 1 + points // 8}
        case "faces":
            lengths = _LENGTHS[few % (3 if is_half else 4)]
            args = {"lengths": lengths, "offsets": (0, 1, -1, 2, -2)[: few + 1], "exponent": -6 if is_half else -17}
        case value:
            what, args = "nonfinite", {"value": value}
    return Drawn(what, params or {}, args, dtype)
