"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status, mistakes
from mluops_gtest.authoring.narrowing import wrapped
from mluops_gtest.authoring.roundings import WRONG_COPIES

from . import OPERATOR, Met, Place, at_limits, by_coordinates, half_up, in_cells, in_order, kernel, voxelize

# Where points are: other arguments, or other cells and which of them count.


def _read(change: Callable[[Array, Array, Array], tuple[Array, Array, Array]]) -> Place:
    return lambda *at: in_cells(*change(*at))


def _inside(is_inside: Callable[[Array, Array, Array, Array], Array]) -> Place:
    """By cells, the grid, coordinates and limits: bool [N, 3], or of those axes that are looked at."""

    def place(points: Array, size: Array, limits: Array) -> tuple[Array, Array]:
        cells, _ = in_cells(points, size, limits)
        grid = half_up((limits[3:].astype(np.float64) - limits[:3]) / size)
        return cells, np.asarray(is_inside(cells, grid, points[:, :3], limits).all(axis=1))

    return place


def _clamped(points: Array, size: Array, limits: Array) -> tuple[Array, Array]:
    cells, inside = in_cells(points, size, limits)
    # The last cell that a point is in, on every axis.
    return np.clip(cells, 0, cells[inside].max(axis=0, initial=0)), inside | True


def _outside_is_a_cell(*at: Array) -> tuple[Array, Array]:
    cells, inside = in_cells(*at)
    return np.where(inside[:, None], cells, -1), inside | True


def _unchecked(axis: int) -> Place:
    return _inside(lambda cells, grid, _p, _l: np.delete((cells >= 0) & (cells < grid), axis, axis=1))


def _through(change: Callable[[Array], Array]) -> Place:
    """The same points are inside, in other cells."""
    return lambda *at: (change(in_cells(*at)[0]).astype(np.int64), in_cells(*at)[1])


_PLACES: Final[dict[str, tuple[str, Place]]] = {
    "grid_to_even": ("halves of the grid go to even numbers", partial(in_cells, whole=np.rint)),
    "upper_limit_decides": ("the limits decide alone", _inside(lambda c, _, p, to: (c >= 0) & (p < to[3:]))),
    "lower_face_outside": ("lower faces of the space are outside", _inside(lambda c, n, p, to: (p > to[:3]) & (c < n))),
    "lower_limit_ignored": ("points in front of the space are inside", _inside(lambda c, n, _p, _l: c < n)),
    **{f"{name}_unchecked": (f"no limit of {name} is checked", _unchecked(axis)) for axis, name in enumerate("xyz")},
    "all_inside": ("outside points go to the cells at the border", _clamped),
    "outside_is_a_cell": ("outside points make a voxel of their own", _outside_is_a_cell),
    "inverse_size": ("voxel_size is read as 1/size", _read(lambda p, size, to: (p, 1 / size, to))),
    "sizes_reversed": ("voxel_size is read as z, y, x", _read(lambda p, size, to: (p, size[::-1], to))),
    "points_exchanged": ("x and y of points are exchanged", _read(lambda p, size, to: (p[:, [1, 0, 2]], size, to))),
    "limits_paired": ("limits are read axis by axis", _read(lambda *at: (*at[:2], at[2].reshape(3, 2).T.reshape(6)))),
    "origin_ignored": ("cells count from 0", lambda p, s, to: (in_cells(p, s, 0 * to)[0], in_cells(p, s, to)[1])),
    "short_cells": ("cells have 16 bits", _through(wrapped(16))),
    "half_cells": ("cells are half", _through(lambda cells: cells.astype(np.float16))),
}  # fmt: skip

# Which points share a voxel, by cells and whether they are inside.

Meet = Callable[[Array, Array], Met]


def _keyed(key: Callable[[Array], Array]) -> Meet:
    """Cells of one key are one cell."""
    return lambda cells, inside: in_order(key(cells.T)[:, None], inside)


def _forgotten(cells: Array, inside: Array) -> Met:
    return in_order(np.append(cells, np.arange(len(cells))[:, None] // 16, axis=1), inside)


def _first_lost(cells: Array, inside: Array) -> Met:
    return in_order(cells, inside & (np.cumsum(inside) > 1))


def _placed(change: Callable[[Array], Array]) -> Meet:
    return lambda *at: in_order(*at)._replace(places=change(in_order(*at).places))


_MEETS: Final[dict[str, tuple[str, Meet]]] = {
    "sorted_by_key": ("voxels stand in the order z, y, x", lambda c, inside: by_coordinates(c[:, ::-1], inside)),
    "short_key": ("32 bits tell cells apart", _keyed(lambda c: wrapped(32)((c[2] * 2000 + c[1]) * 2000 + c[0]))),
    "key_of_x_and_y": ("z does not tell cells apart", _keyed(lambda c: (c[0] << 31) + c[1])),
    "key_of_lengths": ("the key takes too small a length", _keyed(lambda c: (c[2] << 40) + c[1] * c[0].max() + c[0])),
    "tile_forgotten": ("cells of an earlier tile of 16 points are not found", _forgotten),
    "first_point_lost": ("the first point inside is lost", _first_lost),
    "opening_lost": ("the point that opens a voxel is not copied", _placed(lambda n: np.where(n == 0, 1 << 30, n - 1))),
    "second_at_most": ("§3.1's example: later points of a cell are its second", _placed(lambda n: np.minimum(n, 1))),
}  # fmt: skip

# What is written.


def _put(call: OpCall, arrays: Mapping[str, Array]) -> Status:
    for name, values in arrays.items():
        call.array(name)[...] = values
    return Status.SUCCESS


def _misplaced(name: str, message: str, **steps: Any) -> Mutant:
    return Mutant(name, message, lambda call: _put(call, voxelize(call, **steps)))


def _rewritten(name: str, message: str, output: str, change: Callable[[Array, OpCall], Array]) -> Mutant:
    def run(call: OpCall) -> Status:
        arrays = voxelize(call)
        return _put(call, {**arrays, output: change(arrays[output], call)})

    return Mutant(name, message, run)


def _voxels_met(call: OpCall) -> Array:
    return in_order(*in_cells(*call.arrays("points", "voxel_size", "coors_range"))).voxels


def _all_counts(counts: Array, call: OpCall) -> Array:
    return np.bincount(_voxels_met(call), minlength=len(counts))[: len(counts)]


def _used(call: OpCall) -> Array:
    """bool [V]: the voxel is there."""
    return np.arange(call.param("max_voxels")) < voxelize(call)["voxel_num"]


def _free(call: OpCall) -> Array:
    """bool [V, S]: no point is there."""
    return np.arange(call.param("max_points")) >= voxelize(call)["num_points_per_voxel"][:, None]


def _minus_one(array: Array, call: OpCall) -> Array:
    array[~_used(call)] = -1
    return array


def _without(features: slice) -> Callable[[Array, OpCall], Array]:
    def change(voxels: Array, _: OpCall) -> Array:
        voxels[..., features] = 0
        return voxels

    return change


def _only(name: str, message: str, taken: Callable[[Met, int, int], Array]) -> Mutant:
    """By what is met, max_voxels and max_points: which points count."""
    change = at_limits(lambda met, *limits: Met(*(column[taken(met, *limits)] for column in met)))
    return Mutant(name, message, lambda call: _put(call, change(call)))


_COUNTS: Final = "num_points_per_voxel"
_REWRITTEN: Final[tuple[tuple[str, str, str, Callable[[Array, OpCall], Array]], ...]] = (
    ("counts_above_limit", "counts are not limited", _COUNTS, _all_counts),
    ("counts_of_next", "counts are those of the next voxel", _COUNTS, lambda counts, _: np.roll(counts, -1)),
    ("counts_minus_one", "counts of no voxel are −1", _COUNTS, _minus_one),
    ("cells_counted", "voxel_num counts all cells", "voxel_num", lambda n, call: max(n, _voxels_met(call).max() + 1)),
    ("room_counted", "voxel_num is max_voxels", "voxel_num", lambda _, call: call.param("max_voxels")),
    ("last_counted", "voxel_num is the number of the last voxel", "voxel_num", lambda n, _: n - 1),
    ("coors_from_one", "coors count from 1", "coors", lambda coors, call: coors + _used(call)[:, None]),
    ("coors_minus_one", "coors of no voxel are −1", "coors", _minus_one),
    ("voxels_minus_one", "values of no voxel are −1", "voxels", _minus_one),
    ("coordinates_alone", "only coordinates are copied", "voxels", _without(slice(3, None))),
    ("last_feature_lost", "the last feature is not copied", "voxels", _without(slice(-1, None))),
    ("places_outermost", "voxels are [S, V, F]", "voxels", lambda v, _: v.swapaxes(0, 1).reshape(v.shape)),
    *((name, words, "voxels", lambda v, _, to=change: to(v)) for name, words, change in WRONG_COPIES),
)
_LEFT: Final[tuple[tuple[str, str, str, Callable[[OpCall], Any]], ...]] = (
    ("places_left", "places without a point are not cleared", "voxels", _free),
    ("coors_left", "coors of no voxel are not cleared", "coors", lambda call: ~_used(call)),
    ("counts_left", "counts of no voxel are not cleared", _COUNTS, lambda call: ~_used(call)),
    ("zero_left", "voxel_num is not written where it is 0", "voxel_num", lambda call: voxelize(call)["voxel_num"] == 0),
)

MUTANTS: Final = (
    *mistakes.suspected(
        OPERATOR,
        {
            "coors_as_xyz": "coors stand as x, y, z",
            "cut_off": "coordinates are cut off, not rounded down",
            "grid_down": "the grid is rounded down",
            "grid_up": "the grid is rounded up",
            "upper_face_inside": "cells behind the grid are inside",
            "sorted": "voxels stand in the order of their coordinates",
            "stops_when_full": "nothing counts any more when a cell finds no voxel",
            "revived": "points of cells without a voxel go to the last voxel",
            "last_points": "the last points of a voxel are taken",
        },
    ),
    *(_misplaced(name, words, place=place) for name, (words, place) in _PLACES.items()),
    *(_misplaced(name, words, meet=meet) for name, (words, meet) in _MEETS.items()),
    _only("one_voxel_less", "the last voxel is not made", lambda met, voxels, _: met.voxels < voxels - 1),
    _only("one_point_less", "the last place is not taken", lambda met, _, points: met.places < points - 1),
    _only("as_printed", "§3.1: max_voxels limits points, too", lambda met, voxels, _: met.places < voxels),
    *(_rewritten(*one) for one in _REWRITTEN),
    *(mistakes.left(name, words, kernel, output, where) for name, words, output, where in _LEFT),
    *mistakes.tails_left(kernel, "voxels", 2, "features", (16, 32)),
    *mistakes.tails_left(kernel, "coors", 0, "voxels", (16,)),
    mistakes.part_left(kernel, "voxels", 0, "voxels"),
    mistakes.input_cleared(kernel, "points"),
    mistakes.cached_by_shape(kernel),
    mistakes.first_param_kept(kernel, "max_points"),
)  # fmt: skip
