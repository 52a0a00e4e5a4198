"""Implementations with one plausible mistake each; the small cases must catch every one."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status, mistakes
from mluops_gtest.authoring.narrowing import wrapped
from mluops_gtest.authoring.roundings import WRONG_COPIES

from . import OPERATOR, SUSPECTS, Meet, Place, half_up, in_cells, in_order, kernel, only, voxelize

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


def _but(axis: int, cells: Array, grid: Array, _points: Array, _limits: Array) -> Array:
    return np.delete((cells >= 0) & (cells < grid), axis, axis=1)


def _all(change: Callable[[Array, Array], Array]) -> Place:
    """All points count, in cells made of those that they are in and of whether they are inside."""
    return lambda *at: (change(*in_cells(*at)), np.ones(len(at[0]), bool))


_PLACES: Final[dict[str, tuple[str, Place]]] = {
    "grid_to_even": ("halves of the grid go to even numbers", partial(in_cells, whole=np.rint)),
    "upper_limit_decides": ("the limits decide alone", _inside(lambda c, _, p, to: (c >= 0) & (p < to[3:]))),
    "lower_face_outside": ("lower faces of the space are outside", _inside(lambda c, n, p, to: (p > to[:3]) & (c < n))),
    "lower_limit_ignored": ("points in front of the space are inside", _inside(lambda c, n, _p, _l: c < n)),
    **{f"{name}_unchecked": (f"no limit of {name} counts", _inside(partial(_but, a))) for a, name in enumerate("xyz")},
    "all_inside": ("outside points go to border cells", _all(lambda c, i: np.clip(c, 0, c[i].max(0, initial=0)))),
    "outside_is_a_cell": ("outside points make a voxel", _all(lambda c, i: np.where(i[:, None], c, -1))),
    "inverse_size": ("voxel_size is read as 1/size", _read(lambda p, size, to: (p, 1 / size, to))),
    "sizes_reversed": ("voxel_size is read as z, y, x", _read(lambda p, size, to: (p, size[::-1], to))),
    "points_exchanged": ("x and y of points are exchanged", _read(lambda p, size, to: (p[:, [1, 0, 2]], size, to))),
    "limits_paired": ("limits are read axis by axis", _read(lambda *at: (*at[:2], at[2].reshape(3, 2).T.reshape(6)))),
    "short_cells": ("cells have 16 bits", lambda *at: (wrapped(16)(in_cells(*at)[0]), in_cells(*at)[1])),
}  # fmt: skip

# Which points share a voxel, by cells and whether they are inside.


def _keyed(key: Callable[[Array], Array]) -> Meet:
    """Cells of which that is equal are one cell."""
    return lambda cells, inside: in_order(key(cells.T).reshape(-1, len(cells)).T, inside)


def _placed(change: Callable[[Array], Array]) -> Meet:
    return lambda *at: in_order(*at)._replace(places=change(in_order(*at).places))


_MEETS: Final[dict[str, tuple[str, Meet]]] = {
    "sorted_by_key": ("voxels are sorted by z, y, x", lambda c, inside: in_order(c[:, ::-1], inside, ascending=True)),
    "short_key": ("32 bits tell cells apart", _keyed(lambda c: wrapped(32)((c[2] * 2000 + c[1]) * 2000 + c[0]))),
    "float_key": ("the key is a float", _keyed(lambda c: (c[2] * 4.9e9 + c[1] * 7e4 + c[0]).astype("<f4"))),
    **{f"key_of_{n}_bits": (f"{n} bits count", _keyed(partial(np.bitwise_and, 2**n - 1))) for n in (8, 10, 16)},
    "key_of_x_and_y": ("z does not tell cells apart", _keyed(lambda c: c[:2])),
    "first_point_lost": ("the first point is lost", lambda c, inside: in_order(c, inside & (np.cumsum(inside) > 1))),
    "opening_lost": ("the point that opens a voxel is not copied", _placed(lambda n: np.where(n == 0, 1 << 30, n - 1))),
    "second_at_most": ("§3.1's example: later points of a cell are its second", _placed(lambda n: np.minimum(n, 1))),
}  # fmt: skip

# What is written: by the right values of an output and the call.


def _used(call: OpCall) -> Array:
    """bool [V]: the voxel is there."""
    return np.arange(call.param("max_voxels")) < voxelize(call)["voxel_num"]


def _met(call: OpCall) -> Array:
    """The points of every cell that one is in."""
    return np.bincount(in_order(*in_cells(*call.arrays("points", "voxel_size", "coors_range"))).voxels)


def _all_counts(counts: Array, call: OpCall) -> Array:
    return np.resize(np.append(_met(call), np.zeros_like(counts)), counts.shape)


_COUNTS: Final = "num_points_per_voxel"
_WRITTEN: Final[tuple[tuple[str, str, str, Callable[[Array, OpCall], Array]], ...]] = (
    ("counts_above_limit", "counts are not limited", _COUNTS, _all_counts),
    ("counts_of_next", "counts are those of the next voxel", _COUNTS, lambda counts, _: np.roll(counts, -1)),
    ("cells_counted", "voxel_num counts all cells", "voxel_num", lambda _, call: np.array([len(_met(call))])),
    ("room_counted", "voxel_num is max_voxels", "voxel_num", lambda _, call: call.param("max_voxels")),
    ("coors_from_one", "coors count from 1", "coors", lambda coors, call: coors + _used(call)[:, None]),
    ("coors_minus_one", "coors of no voxel are −1", "coors", lambda c, call: np.where(_used(call)[:, None], c, -1)),
    ("coordinates_alone", "only coordinates are copied", "voxels", lambda v, _: v * (np.arange(v.shape[2]) < 3)),
    ("places_outermost", "voxels are [S, V, F]", "voxels", lambda v, _: v.swapaxes(0, 1).reshape(v.shape)),
    *((name, words, "voxels", lambda v, _, to=change: to(v)) for name, words, change in WRONG_COPIES),
)


def _wrong(name: str, message: str, write: Callable[[OpCall], Any]) -> Mutant:
    def run(call: OpCall) -> Status:
        for output, values in {**voxelize(call), **write(call)}.items():
            call.array(output)[...] = values
        return Status.SUCCESS

    return Mutant(name, message, run)


MUTANTS: Final = (
    *mistakes.suspected(OPERATOR, {re.sub(r"\W+", "_", words): words for words in SUSPECTS}),
    *(_wrong(name, words, partial(voxelize, place=place)) for name, (words, place) in _PLACES.items()),
    *(_wrong(name, words, partial(voxelize, meet=meet)) for name, (words, meet) in _MEETS.items()),
    _wrong("one_voxel_less", "the last voxel is not made", only(lambda met, voxels, _: met.voxels < voxels - 1)),
    _wrong("one_point_less", "the last place is not taken", only(lambda met, _, points: met.places < points - 1)),
    _wrong("as_printed", "§3.1: max_voxels limits points, too", only(lambda met, voxels, _: met.places < voxels)),
    *(
        _wrong(name, words, lambda call, one=output, to=change: {one: to(voxelize(call)[one], call)})  # type: ignore[misc]
        for name, words, output, change in _WRITTEN
    ),
    *(
        mistakes.left(f"{one}_left", f"{one} of no voxel are not cleared", kernel, one, lambda call: ~_used(call))
        for one in ("voxels", "coors", _COUNTS)
    ),
    mistakes.left("zero_left", "a voxel_num of 0 is not written", kernel, "voxel_num", lambda call: ~_used(call)[:1]),
    *mistakes.tails_left(kernel, "voxels", 2, "features", (16, 32)),
    *mistakes.tails_left(kernel, "coors", 0, "voxels", (16,)),
    mistakes.part_left(kernel, "voxels", 0, "voxels"),
    mistakes.input_cleared(kernel, "points"),
    mistakes.cached_by_shape(kernel),
    mistakes.first_param_kept(kernel, "max_points"),
)  # fmt: skip
