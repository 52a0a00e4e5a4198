"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.mistakes import cached_by_shape, input_cleared, part_left, spoilt, sum_goes_on, tails_left
from mluops_gtest.authoring.roundings import flushed

# The operator in replaceable steps: right as it stands, and wrong in one way where mutants.py replaces one.


MEAN, MAX = 1, 2


@dataclass(frozen=True, slots=True)
class Found:
    """What steps 1 to 3 of §1.2 find: the voxels, the voxel of every point, and how many points each has."""

    coors: Array
    of_point: Array
    sizes: Array


def below_zero(coors: Array) -> Array:
    """Which points are invalid."""
    return np.asarray((coors < 0).any(axis=1))


def marked(coors: Array, invalid: Array) -> Array:
    """Step 1: invalid rows become −1, −1, −1."""
    return np.where(invalid[:, None], -1, coors)


def unique(rows: Array, keys: Array) -> Found:
    """Step 2: sorted by the keys, one of those with equal keys."""
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    of_point = inverse.reshape(-1)
    return Found(rows[first], of_point, np.bincount(of_point))


def without_first(found: Found) -> Found:
    """The first class goes."""
    return Found(found.coors[1:], found.of_point - 1, found.sizes[1:])


def without_invalid(found: Found) -> Found:
    """Step 3: the class of the invalid points goes, if it is there."""
    return without_first(found) if found.coors[0, 0] < 0 else found


def maxima(feats: Array, of_point: Array, rows: int, start: float) -> Array:
    """Step 4, max: [M, C], `start` where no point is."""
    best = np.full((rows, feats.shape[1]), start, np.float32)
    np.fmax.at(best, of_point, feats)
    return best


def sums(feats: Array, of_point: Array, rows: int) -> Array:
    """Step 4, mean: [M, C], 0 where no point is."""
    total = np.zeros((rows, feats.shape[1]), np.float32)
    np.add.at(total, of_point, feats)
    return total


def divided(total: Array, sizes: Array, _points: int) -> Array:
    """Sums made means; rows without points stay 0."""
    return total / np.maximum(sizes, 1)[:, None].astype(np.float32)


@dataclass(frozen=True, slots=True)
class Steps:
    """One way to do each step."""

    invalid: Callable[[Array], Array] = below_zero
    mark: Callable[[Array, Array], Array] = marked
    # What rows are sorted and told apart by.
    keys: Callable[[Array], Array] = lambda rows: rows
    unique: Callable[[Array, Array], Found] = unique
    drop: Callable[[Found], Found] = without_invalid
    # Where the features of every point go.
    placed: Callable[[Found], Array] = lambda found: found.of_point
    reduce_type: Callable[[int], int] = lambda given: given
    start: float = -np.inf
    maxima: Callable[[Array, Array, int, float], Array] = maxima
    sums: Callable[[Array, Array, int], Array] = sums
    divided: Callable[[Array, Array, int], Array] = divided
    # The reduced features again, with all features and where they went.
    reduced: Callable[[Array, Array, Array], Array] = lambda result, _feats, _placed: result
    # What is done when everything is written.
    finish: Callable[[OpCall, Found], None] = lambda _call, _found: None

    def run(self, call: OpCall) -> Status:
        """Write all outputs of a valid call; nothing behind the rows that exist."""
        coors = call.array("coors").astype(np.int64)
        rows = self.mark(coors, self.invalid(coors))
        found = self.drop(self.unique(rows, self.keys(rows)))
        feats = self._reduce(call, self.placed(found))
        count = min(len(found.coors), len(feats))
        call.array("voxel_feats")[:count] = feats[:count]
        call.array("voxel_coors")[:count] = found.coors[:count]
        call.array("voxel_points_count")[:count] = found.sizes[:count]
        call.array("point2voxel_map")[...] = found.of_point
        call.array("voxel_num")[...] = len(found.coors)
        self.finish(call, found)
        return Status.SUCCESS

    def _reduce(self, call: OpCall, placed: Array) -> Array:
        feats, rows = call.array("feats"), call.tensor("voxel_feats").dims[0]
        inside = np.flatnonzero((placed >= 0) & (placed < rows))
        gathered, voxels = feats[inside], placed[inside]
        if self.reduce_type(call.param("reduce_type")) == MAX:
            result = self.maxima(gathered, voxels, rows, self.start)
        else:
            sizes = np.bincount(voxels, minlength=rows)
            result = self.divided(self.sums(gathered, voxels, rows), sizes, len(feats))
        return self.reduced(result, feats, placed)


_TILE = 64  # channels, or points, that the mistaken tilings handle at once
_LARGEST = np.finfo(np.float32).max
_RIGHT = Steps().run


def _mutant(name: str, message: str, **steps: Any) -> Mutant:
    return Mutant(name, message, Steps(**steps).run)


def _by_appearance(rows: Array, _keys: Array) -> Found:
    # The invalid class is first, so that it can be dropped.
    number: dict[tuple[int, ...], int] = {(-1, -1, -1): 0} if (rows < 0).any() else {}
    of_point = np.array([number.setdefault(tuple(row), len(number)) for row in rows.tolist()])
    return Found(np.array(list(number)), of_point, np.bincount(of_point))


def _bytes(rows: Array) -> Array:
    strings = np.ascontiguousarray(rows, "<i4").view(np.uint8).reshape(len(rows), -1)
    return np.concatenate([(rows[:, :1] >= 0).astype(np.uint8), strings], axis=1)


def _linear(rows: Array) -> Array:
    _, height, width = rows.max(axis=0) + 1
    linear = (rows[:, 0] * height + rows[:, 1]) * width + rows[:, 2]
    return np.where(rows[:, 0] < 0, -(2**31), linear.astype(np.int32))[:, None]


def _own_classes(coors: Array, invalid: Array) -> Array:
    # Column 0 is below 0, so that they are all sorted in front of the voxels.
    return np.where(invalid[:, None], np.concatenate([np.minimum(coors[:, :1], -1), coors[:, 1:]], axis=1), coors)


def _into_voxel_0(found: Found) -> Found:
    kept = without_invalid(found)
    of_point = np.maximum(kept.of_point, 0)
    return replace(kept, of_point=of_point, sizes=np.bincount(of_point, minlength=len(kept.sizes)))


def _counts_lowered(found: Found) -> Found:
    kept = without_invalid(found)
    return replace(kept, sizes=kept.sizes - (found.coors[0, 0] < 0))


def _last_voxel_lost(found: Found) -> Found:
    kept = without_invalid(found)
    last = max(len(kept.coors) - 1, 0)
    return replace(kept, coors=kept.coors[:last], sizes=kept.sizes[:last])


def _one_too_low(found: Found) -> Array:
    return found.of_point if (found.of_point < 0).any() else found.of_point - 1


def _only_the_first(found: Found, points: int) -> Array:
    return np.where(np.arange(len(found.of_point)) < points, found.of_point, -1)


def _assigned(feats: Array, of_point: Array, rows: int, start: float) -> Array:
    best = np.full((rows, feats.shape[1]), start, np.float32)
    for voxel, row in zip(of_point.tolist(), feats, strict=True):
        best[voxel] = row
    return best


def _half_sums(feats: Array, of_point: Array, rows: int) -> Array:
    total = np.zeros((rows, feats.shape[1]), np.float16)
    np.add.at(total, of_point, feats.astype(np.float16))
    return total.astype(np.float32)


def _lost_updates(feats: Array, of_point: Array, rows: int) -> Array:
    total = np.zeros((rows, feats.shape[1]), np.float32)
    total[of_point] += feats
    return total


def _mask_multiplied(result: Array, feats: Array, placed: Array) -> Array:
    result[0] += (feats[placed < 0] * np.float32(0)).sum(axis=0)
    return result


def _first_tile_reduced(result: Array, feats: Array, placed: Array) -> Array:
    inside = np.flatnonzero(placed >= 0)
    result[placed[inside], _TILE:] = feats[inside, _TILE:]
    return result


def _tile_offset_forgotten(result: Array, _feats: Array, _placed: Array) -> Array:
    rest = result[:, _TILE : 2 * _TILE].copy()
    result[:, : rest.shape[1]] = rest
    return result


def _channel_tail_lost(result: Array, _feats: Array, _placed: Array) -> Array:
    result[:, result.shape[1] // _TILE * _TILE or result.shape[1] :] = 0
    return result


def _count_invalid(call: OpCall, found: Found) -> None:
    call.array("voxel_num")[...] += (found.of_point < 0).any()


def _sort_map(call: OpCall, _found: Found) -> None:
    call.array("point2voxel_map").sort()


def _close_map(call: OpCall, found: Found) -> None:
    inside = found.of_point[found.of_point >= 0]
    call.array("point2voxel_map")[...] = np.append(inside, [-1] * (len(found.of_point) - len(inside)))


def _clear_invalid_features(call: OpCall, found: Found) -> None:
    call.array("feats")[found.of_point < 0] = 0


def _sort_coordinates(call: OpCall, _found: Found) -> None:
    coors = call.array("coors")
    coors[...] = coors[np.lexsort(coors[:, ::-1].T)]


def _clamp_coordinates(call: OpCall, _found: Found) -> None:
    np.maximum(call.array("coors"), -1, out=call.array("coors"))


def _mark_all_but_one(call: OpCall, found: Found) -> None:
    call.array("coors")[np.flatnonzero(found.of_point < 0)[:-1]] = -1


def _clear_invalid_coordinates(call: OpCall, found: Found) -> None:
    call.array("coors")[found.of_point < 0] = 0


def _count_in(dtype: type[np.generic]) -> Callable[[OpCall], None]:
    """The counts of points pass through a narrow type."""

    def spoil(call: OpCall) -> None:
        counts = call.array("voxel_points_count")[: int(call.array("voxel_num")[0])]
        counts[...] = counts.astype(dtype)

    return spoil


def _in_bytes(name: str) -> Callable[[OpCall], None]:
    def spoil(call: OpCall) -> None:
        values = call.array(name)
        values[...] = np.where(values < 0, values, values & 0xFF)

    return spoil


_ORDER = (
    _mutant("first_appearance", "voxels stand in the order in which points meet them", unique=_by_appearance),
    _mutant("descending", "voxels are sorted downwards", keys=lambda rows: np.where(rows < 0, -(2**32), -rows)),
    _mutant("last_column_first", "the last column is the most significant", keys=lambda rows: rows[:, ::-1]),
    # −1 is then the largest, and the invalid class the last, where nobody drops it.
    _mutant("unsigned", "coordinates are sorted without their sign", keys=lambda rows: rows & 0xFFFFFFFF),
    _mutant("bytewise", "rows are sorted as strings of bytes, the lowest first", keys=_bytes),
    _mutant("linear_key", "rows are sorted by a linear key of 32 bits", keys=_linear),
    _mutant("float_coordinates", "coordinates pass through float32", keys=lambda rows: rows.astype(np.float32)),
    _mutant(
        "short_coordinates", "coordinates are kept in 16 bits", keys=lambda rows: np.where(rows < 0, -1, rows & 0xFFFF)
    ),
)

_INVALID = (
    _mutant("column_0_decides", "only column 0 makes a point invalid", invalid=lambda coors: coors[:, 0] < 0),
    _mutant("column_2_decides", "only column 2 makes a point invalid", invalid=lambda coors: coors[:, 2] < 0),
    _mutant("all_below_zero", "all three make a point invalid", invalid=lambda coors: (coors < 0).all(axis=1)),
    _mutant("zero_invalid", "§3.1.2's `gt 0`: coordinate 0 is invalid", invalid=lambda coors: below_zero(coors - 1)),
    _mutant("only_minus_one", "nothing but −1 is invalid", invalid=lambda coors: (coors == -1).any(axis=1)),
    _mutant("clamped", "coordinates below 0 become 0", mark=lambda coors, _invalid: np.maximum(coors, 0)),
    _mutant("own_classes", "every distinct invalid row is a class of its own", mark=_own_classes),
    _mutant("invalid_kept", "the invalid points are voxel 0", drop=lambda found: found),
    _mutant("first_dropped", "the first voxel goes though all points are valid", drop=without_first),
    _mutant("into_voxel_0", "invalid points count in voxel 0", drop=_into_voxel_0),
    _mutant(
        "map_kept",
        "the map is not decremented",
        drop=lambda found: replace(without_invalid(found), of_point=found.of_point),
    ),
    _mutant(
        "map_lowered",
        "the map is decremented though nothing was invalid",
        drop=lambda found: replace(without_invalid(found), of_point=found.of_point - 1),
    ),
    _mutant(
        "counts_kept",
        "the counts are not shifted",
        drop=lambda found: replace(without_invalid(found), sizes=found.sizes),
    ),
    _mutant("counts_lowered", "§3.1.1's kernel 3: the counts are decremented", drop=_counts_lowered),
    _mutant("features_lowered", "features land one voxel too low where nothing was invalid", placed=_one_too_low),
    _mutant("invalid_counted", "voxel_num counts the invalid class", finish=_count_invalid),
)

_REDUCTION = (
    _mutant("starts_at_zero", "a maximum begins at 0", start=0.0),
    _mutant("starts_at_tiny", "a maximum begins at FLT_MIN", start=1.17549e-38),
    _mutant(
        "starts_at_minus_tiny", "a maximum begins at −1.17549e38, FLT_MIN with its sign misplaced", start=-1.17549e38
    ),
    _mutant("minimum", "the smallest feature is taken", maxima=lambda feats, *rest: -maxima(-feats, *rest)),
    _mutant(
        "largest_magnitude", "absolute values are compared", maxima=lambda feats, *rest: maxima(np.abs(feats), *rest)
    ),
    _mutant("last_point_wins", "the last point overwrites the others", maxima=_assigned),
    _mutant(
        "half_maximum",
        "maxima pass through half precision",
        maxima=lambda *args: maxima(*args).astype(np.float16).astype(np.float32),
    ),
    _mutant("summed", "the sum is returned for the mean", divided=lambda total, _sizes, _points: total),
    _mutant("divided_by_all", "the mean divides by N", divided=lambda total, _, points: total / np.float32(points)),
    _mutant(
        "divided_by_one_more",
        "the mean divides by the count plus 1",
        divided=lambda total, sizes, points: divided(total, sizes + 1, points),
    ),
    _mutant(
        "divided_by_neighbour",
        "the mean divides by the next voxel's count",
        divided=lambda total, sizes, points: divided(total, np.roll(sizes, -1), points),
    ),
    _mutant(
        "divided_twice",
        "the mean divides twice",
        divided=lambda total, sizes, points: divided(divided(total, sizes, points), sizes, points),
    ),
    _mutant("half_sums", "sums are kept in half precision", sums=_half_sums),
    _mutant("lost_updates", "additions to one voxel are not atomic", sums=_lost_updates),
    _mutant(
        "nan_ignored",
        "NaN counts as 0 in a mean",
        sums=lambda feats, *rest: sums(np.where(np.isnan(feats), np.float32(0), feats), *rest),
    ),
    _mutant("always_maximum", "the maximum is returned for the mean", reduce_type=lambda _given: MAX),
    _mutant("always_mean", "the mean is returned for the maximum", reduce_type=lambda _given: MEAN),
    _mutant(
        "clipped",
        "infinities become the largest float",
        reduced=lambda result, _feats, _placed: np.clip(result, -_LARGEST, _LARGEST),
    ),
    _mutant("mask_multiplied", "invalid points are multiplied by 0 instead of left out", reduced=_mask_multiplied),
    _mutant("first_tile_reduced", "only the first tile of channels is reduced", reduced=_first_tile_reduced),
    _mutant("tile_offset_forgotten", "the second tile of channels lands on the first", reduced=_tile_offset_forgotten),
    _mutant("channel_tail_lost", "channels behind the last whole vector of 64 are lost", reduced=_channel_tail_lost),
    _mutant(
        "point_tail_lost",
        "points behind the last whole block of 64 are lost",
        placed=lambda found: _only_the_first(found, len(found.of_point) // _TILE * _TILE or _TILE),
    ),
    _mutant(
        "last_point_lost",
        "the last point is not taken",
        placed=lambda found: _only_the_first(found, len(found.of_point) - 1),
    ),
)

_WRITTEN = (
    _mutant("last_voxel_lost", "the last voxel is missing", drop=_last_voxel_lost),
    _mutant("map_sorted", "the map is sorted with the points", finish=_sort_map),
    _mutant("map_closed", "invalid points are left out of the map", finish=_close_map),
    _mutant("features_changed", "the features of invalid points are cleared in place", finish=_clear_invalid_features),
    _mutant("coordinates_sorted", "coors is sorted in place", finish=_sort_coordinates),
    _mutant("coordinates_clamped", "only coordinates below 0 become −1, not their rows", finish=_clamp_coordinates),
    _mutant("coordinates_partly_marked", "one invalid row of coors is not marked", finish=_mark_all_but_one),
    _mutant("coordinates_cleared", "invalid rows of coors become 0, 0, 0", finish=_clear_invalid_coordinates),
)

# What tiles, threads, counters and earlier calls leave.
_LEFT = (
    *tails_left(_RIGHT, "point2voxel_map", 0, "entries", tiles=(16, 32, 64, 128)),
    part_left(_RIGHT, "point2voxel_map", 0, "entries"),
    *tails_left(_RIGHT, "voxel_feats", 1, "channels", tiles=(16, 32)),
    spoilt("byte_counts", "points of a voxel are counted in 8 bits", _RIGHT, _count_in(np.int8)),
    spoilt("byte_map", "map entries are kept in 8 bits", _RIGHT, _in_bytes("point2voxel_map")),
    input_cleared(_RIGHT, "feats"),
    cached_by_shape(_RIGHT),
    sum_goes_on(_RIGHT, "voxel_points_count"),
)

MUTANTS = (*_ORDER, *_INVALID, *_REDUCTION, *_WRITTEN, *_LEFT)


# Right implementations that the document allows; the cases of each tag alone tell them apart.


def _maxima_with_nan(feats: Array, of_point: Array, rows: int, start: float) -> Array:
    best = np.full((rows, feats.shape[1]), start, np.float32)
    np.maximum.at(best, of_point, feats)
    return best


VARIANTS: Final = {
    "subnormal": (
        Mutant(
            "tiny_flushed",
            "subnormal results become 0",
            Steps(reduced=lambda result, _feats, _placed: flushed(result)).run,
        ),
        Mutant(
            "tiny_ignored_in_sums",
            "subnormal features count as 0 in a mean",
            Steps(sums=lambda feats, *rest: sums(flushed(feats), *rest)).run,
        ),
    ),
    "undefined": (
        Mutant(
            "nan_wins",
            "NaN is the maximum of its voxel, as torch's amax has it",
            Steps(maxima=_maxima_with_nan).run,
        ),
    ),
}
