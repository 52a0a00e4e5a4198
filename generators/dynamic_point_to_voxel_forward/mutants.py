"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status, mistakes
from mluops_gtest.authoring.roundings import clamped, flushed, nan_cleared, through_half

from .._shared.reduced_voxels import MAX
from . import OPERATOR, is_invalid


@dataclass(frozen=True, slots=True)
class Found:
    """What steps 1 to 3 of §1.2 find: the voxels, the voxel of every point, and how many points each has."""

    coors: Array
    of_point: Array
    sizes: Array


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


def maxima(feats: Array, of_point: Array, rows: int, start: float = -np.inf, meet: np.ufunc = np.fmax) -> Array:
    """Step 4, max: [M, C], `start` where no point is."""
    best = np.full((rows, feats.shape[1]), start, np.float32)
    meet.at(best, of_point, feats)
    return best


def sums(feats: Array, of_point: Array, rows: int, dtype: type[np.floating] = np.float32) -> Array:
    """Step 4, mean: [M, C], 0 where no point is."""
    total = np.zeros((rows, feats.shape[1]), dtype)
    np.add.at(total, of_point, feats.astype(dtype))
    return total.astype(np.float32)


def divided(total: Array, sizes: Array, _points: int) -> Array:
    """Sums made means; rows without points stay 0."""
    return total / np.maximum(sizes, 1)[:, None].astype(np.float32)


@dataclass(frozen=True, slots=True)
class Steps:
    """One way to do each step."""

    invalid: Callable[[Array], Array] = is_invalid
    mark: Callable[[Array, Array], Array] = marked
    # What rows are sorted and told apart by.
    keys: Callable[[Array], Array] = lambda rows: rows
    # By what step 2 found, and what is left of it when the class of the invalid points goes.
    drop: Callable[[Found, Found], Found] = lambda _, right: right
    # Where the features of every point go.
    placed: Callable[[Found], Array] = lambda found: found.of_point
    maxima: Callable[[Array, Array, int], Array] = maxima
    sums: Callable[[Array, Array, int], Array] = sums
    divided: Callable[[Array, Array, int], Array] = divided

    def run(self, call: OpCall) -> Status:
        """Write all outputs of a valid call; nothing behind the rows that exist."""
        coors = call.array("coors").astype(np.int64)
        rows = self.mark(coors, self.invalid(coors))
        classes = unique(rows, self.keys(rows))
        found = self.drop(classes, without_invalid(classes))
        feats = self._reduce(call, self.placed(found))
        count = min(len(found.coors), len(feats))
        call.array("voxel_feats")[:count] = feats[:count]
        call.array("voxel_coors")[:count] = found.coors[:count]
        call.array("voxel_points_count")[:count] = found.sizes[:count]
        call.array("point2voxel_map")[...] = found.of_point
        call.array("voxel_num")[...] = len(found.coors)
        return Status.SUCCESS

    def _reduce(self, call: OpCall, placed: Array) -> Array:
        feats, rows = call.array("feats"), call.tensor("voxel_feats").dims[0]
        inside = np.flatnonzero((placed >= 0) & (placed < rows))
        gathered, voxels = feats[inside], placed[inside]
        if call.param("reduce_type") == MAX:
            return self.maxima(gathered, voxels, rows)
        return self.divided(self.sums(gathered, voxels, rows), np.bincount(voxels, minlength=rows), len(feats))


_TILE = 64  # channels, or points, that the mistaken tilings handle at once
_RIGHT = Steps().run


def _mutant(name: str, message: str, **steps: Any) -> Mutant:
    return Mutant(name, message, Steps(**steps).run)


# Which voxels there are, and in which order.


def _bytes(rows: Array) -> Array:
    strings = np.ascontiguousarray(rows, "<i4").view(np.uint8).reshape(len(rows), -1)
    return np.concatenate([(rows[:, :1] >= 0).astype(np.uint8), strings], axis=1)


def _linear(rows: Array) -> Array:
    _, height, width = rows.max(axis=0) + 1
    linear = (rows[:, 0] * height + rows[:, 1]) * width + rows[:, 2]
    return np.where(rows[:, 0] < 0, -(2**31), linear.astype(np.int32))[:, None]


_KEYS = {
    "descending": ("voxels are sorted downwards", lambda rows: np.where(rows < 0, -(2**32), -rows)),
    "last_column_first": ("the last column is the most significant", lambda rows: rows[:, ::-1]),
    # −1 is then the largest, and the invalid class the last, where nobody drops it.
    "unsigned": ("coordinates are sorted without their sign", lambda rows: rows & 0xFFFFFFFF),
    "bytewise": ("rows are sorted as strings of bytes, the lowest first", _bytes),
    "linear_key": ("rows are sorted by a linear key of 32 bits", _linear),
    "float_coordinates": ("coordinates pass through float32", lambda rows: rows.astype(np.float32)),
    "short_coordinates": ("coordinates are kept in 16 bits", lambda rows: np.where(rows < 0, -1, rows & 0xFFFF)),
}

# Which points are invalid, and what becomes of their class.

_INVALID = {
    "column_0_decides": ("only column 0 makes a point invalid", lambda coors: coors[:, 0] < 0),
    "column_2_decides": ("only column 2 makes a point invalid", lambda coors: coors[:, 2] < 0),
    "all_below_zero": ("all three make a point invalid", lambda coors: (coors < 0).all(axis=1)),
    "only_minus_one": ("nothing but −1 is invalid", lambda coors: (coors == -1).any(axis=1)),
}


def _own_classes(coors: Array, invalid: Array) -> Array:
    # Column 0 is below 0, so that they are all sorted in front of the voxels.
    return np.where(invalid[:, None], np.concatenate([np.minimum(coors[:, :1], -1), coors[:, 1:]], axis=1), coors)


def _into_voxel_0(_: Found, right: Found) -> Found:
    of_point = np.maximum(right.of_point, 0)
    return replace(right, of_point=of_point, sizes=np.bincount(of_point, minlength=len(right.sizes)))


def _last_voxel_lost(_: Found, right: Found) -> Found:
    last = max(len(right.coors) - 1, 0)
    return replace(right, coors=right.coors[:last], sizes=right.sizes[:last])


_DROPS: dict[str, tuple[str, Callable[[Found, Found], Found]]] = {
    "invalid_kept": ("the invalid points are voxel 0", lambda found, _: found),
    "first_dropped": ("the first voxel goes though all points are valid", lambda found, _: without_first(found)),
    "into_voxel_0": ("invalid points count in voxel 0", _into_voxel_0),
    "map_kept": ("the map is not decremented", lambda found, right: replace(right, of_point=found.of_point)),
    "map_lowered": (
        "the map is decremented though nothing was invalid",
        lambda found, right: replace(right, of_point=found.of_point - 1),
    ),
    "counts_kept": ("the counts are not shifted", lambda found, right: replace(right, sizes=found.sizes)),
    "counts_lowered": (
        "§3.1.1's kernel 3: the counts are decremented",
        lambda found, right: replace(right, sizes=right.sizes - (found.coors[0, 0] < 0)),
    ),
    "last_voxel_lost": ("the last voxel is missing", _last_voxel_lost),
}


def _one_too_low(found: Found) -> Array:
    return found.of_point if (found.of_point < 0).any() else found.of_point - 1


def _only_the_first(found: Found, points: int) -> Array:
    return np.where(np.arange(len(found.of_point)) < points, found.of_point, -1)


# What is made of the features of a voxel.


def _assigned(feats: Array, of_point: Array, rows: int) -> Array:
    best = np.full((rows, feats.shape[1]), -np.inf, np.float32)
    # Of a repeated index the last value stays.
    best[of_point] = feats
    return best


def _lost_updates(feats: Array, of_point: Array, rows: int) -> Array:
    total = np.zeros((rows, feats.shape[1]), np.float32)
    total[of_point] += feats
    return total


_DIVISIONS: dict[str, tuple[str, Callable[[Array, Array, int], Array]]] = {
    "divided_by_all": ("the mean divides by N", lambda total, _, points: total / np.float32(points)),
    "divided_by_neighbour": (
        "the mean divides by the next voxel's count",
        lambda total, sizes, points: divided(total, np.roll(sizes, -1), points),
    ),
    "divided_twice": (
        "the mean divides twice",
        lambda total, sizes, points: divided(divided(total, sizes, points), sizes, points),
    ),
}


# What is done to the buffers when everything is written.


def _invalid(call: OpCall) -> Array:
    """The points that are in no voxel."""
    return np.flatnonzero(call.array("point2voxel_map") < 0)


def _rewrite(name: str, change: Callable[[Array], Array]) -> Callable[[OpCall], None]:
    """Other values of that tensor, in the rows that the call owns."""

    def spoil(call: OpCall) -> None:
        is_by_voxel = name in ("voxel_feats", "voxel_points_count")
        rows = call.array(name)[: int(call.array("voxel_num")[0]) if is_by_voxel else None]
        rows[...] = change(rows)

    return spoil


def _set_invalid(name: str, value: int, points: slice = slice(None)) -> Callable[[OpCall], None]:
    def spoil(call: OpCall) -> None:
        call.array(name)[_invalid(call)[points]] = value

    return spoil


def _without_tile_offset(feats: Array) -> Array:
    second = feats[:, _TILE : 2 * _TILE]
    return np.concatenate([second, feats[:, second.shape[1] :]], axis=1)


def _without_channel_tail(feats: Array) -> Array:
    channels = feats.shape[1]
    return np.where(np.arange(channels) < (channels // _TILE * _TILE or channels), feats, 0)


def _multiply_invalid(call: OpCall) -> None:
    voxels = call.array("voxel_feats")[: min(1, int(call.array("voxel_num")[0]))]
    voxels += (call.array("feats")[_invalid(call)] * np.float32(0)).sum(axis=0)


def _reduce_first_tile(call: OpCall) -> None:
    inside = np.flatnonzero(call.array("point2voxel_map") >= 0)
    call.array("voxel_feats")[call.array("point2voxel_map")[inside], _TILE:] = call.array("feats")[inside, _TILE:]


def _count_invalid(call: OpCall) -> None:
    call.array("voxel_num")[...] += len(_invalid(call)) > 0


_REWRITTEN: dict[str, tuple[str, str, Callable[[Array], Array]]] = {
    "clipped": ("infinities become the largest float", "voxel_feats", clamped),
    "tile_offset_forgotten": ("the second tile of channels lands on the first", "voxel_feats", _without_tile_offset),
    "channel_tail_lost": ("channels behind the last vector of 64 are lost", "voxel_feats", _without_channel_tail),
    "byte_counts": ("points are counted in 8 bits", "voxel_points_count", lambda counts: counts.astype(np.int8)),
    "byte_map": ("the map is kept in 8 bits", "point2voxel_map", lambda of: np.where(of < 0, of, of & 0xFF)),
    "map_sorted": ("the map is sorted with the points", "point2voxel_map", np.sort),
    "map_closed": (
        "invalid points are left out of the map",
        "point2voxel_map",
        lambda of: of[np.argsort(of < 0, kind="stable")],
    ),
    "coordinates_sorted": ("coors is sorted in place", "coors", lambda coors: coors[np.lexsort(coors[:, ::-1].T)]),
    "coordinates_clamped": ("coordinates below 0 become −1, not their rows", "coors", lambda c: np.maximum(c, -1)),
}

_SPOILT: dict[str, tuple[str, Callable[[OpCall], None]]] = {
    "mask_multiplied": ("invalid points are multiplied by 0 instead of left out", _multiply_invalid),
    "first_tile_reduced": ("only the first tile of channels is reduced", _reduce_first_tile),
    "invalid_counted": ("voxel_num counts the invalid class", _count_invalid),
    "features_changed": ("the features of invalid points are cleared in place", _set_invalid("feats", 0)),
    "coordinates_partly_marked": ("one invalid row of coors is not marked", _set_invalid("coors", -1, slice(-1))),
    "coordinates_cleared": ("invalid rows of coors become 0, 0, 0", _set_invalid("coors", 0)),
}

MUTANTS: Final = (
    *(_mutant(name, words, keys=keys) for name, (words, keys) in _KEYS.items()),
    *(_mutant(name, words, invalid=invalid) for name, (words, invalid) in _INVALID.items()),
    *(_mutant(name, words, drop=drop) for name, (words, drop) in _DROPS.items()),
    *(_mutant(name, words, divided=division) for name, (words, division) in _DIVISIONS.items()),
    *(
        mistakes.spoilt(name, words, _RIGHT, _rewrite(tensor, change))
        for name, (words, tensor, change) in _REWRITTEN.items()
    ),
    *(mistakes.spoilt(name, words, _RIGHT, spoil) for name, (words, spoil) in _SPOILT.items()),
    *mistakes.suspected(
        OPERATOR,
        {
            "first_appearance": "voxels stand in the order in which points meet them",
            "zero_invalid": "points with a coordinate 0 are invalid",
            "summed": "the sum is not divided by the number of points",
            "divided_by_one_more": "the mean divides by one point more",
            "always_maximum": "the maximum is taken for the mean",
            "always_mean": "the mean is taken for the maximum",
            "minimum": "the smallest feature of every voxel is taken",
        },
    ),
    _mutant("clamped", "coordinates below 0 become 0", mark=lambda coors, _invalid: np.maximum(coors, 0)),
    _mutant("own_classes", "every distinct invalid row is a class of its own", mark=_own_classes),
    _mutant("features_lowered", "features land one voxel too low where nothing was invalid", placed=_one_too_low),
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
    _mutant("last_point_wins", "the last point overwrites the others", maxima=_assigned),
    _mutant("starts_at_zero", "a maximum begins at 0", maxima=partial(maxima, start=0.0)),
    _mutant("starts_at_tiny", "a maximum begins at FLT_MIN", maxima=partial(maxima, start=1.17549e-38)),
    # FLT_MIN with its sign misplaced.
    _mutant("starts_at_minus_tiny", "a maximum begins at −1.17549e38", maxima=partial(maxima, start=-1.17549e38)),
    _mutant(
        "largest_magnitude", "absolute values are compared", maxima=lambda feats, *rest: maxima(np.abs(feats), *rest)
    ),
    _mutant("half_maximum", "maxima pass through half", maxima=lambda *args: through_half(maxima(*args))),
    _mutant("half_sums", "sums are kept in half precision", sums=partial(sums, dtype=np.float16)),
    _mutant("lost_updates", "additions to one voxel are not atomic", sums=_lost_updates),
    _mutant("nan_ignored", "NaN counts as 0 in a mean", sums=lambda feats, *rest: sums(nan_cleared(feats), *rest)),
    *mistakes.tails_left(_RIGHT, "point2voxel_map", 0, "entries", tiles=(16, 32, 64, 128)),
    mistakes.part_left(_RIGHT, "point2voxel_map", 0, "entries"),
    *mistakes.tails_left(_RIGHT, "voxel_feats", 1, "channels", tiles=(16, 32)),
    mistakes.input_cleared(_RIGHT, "feats"),
    mistakes.cached_by_shape(_RIGHT),
    mistakes.sum_goes_on(_RIGHT, "voxel_points_count"),
)


# Right implementations that the document allows; the cases of each tag alone tell them apart.
VARIANTS: Final = {
    "subnormal": (
        mistakes.spoilt("tiny_flushed", "subnormal results become 0", _RIGHT, _rewrite("voxel_feats", flushed)),
        _mutant(
            "tiny_ignored_in_sums",
            "subnormal features count as 0 in a mean",
            sums=lambda feats, *rest: sums(flushed(feats), *rest),
        ),
    ),
    "undefined": (
        _mutant(
            "nan_wins",
            "NaN is the maximum of its voxel, as torch's amax has it",
            maxima=partial(maxima, meet=np.maximum),
        ),
    ),
}
