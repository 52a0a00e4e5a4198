"""Implementations with one plausible mistake each: the query step by step, of which every mistake replaces one."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status, mistakes

from .._shared.points import axes_first
from . import in_shell

F32 = np.float32
_TILE = 64
# wrong(what the right step says, *what the step was made from).
Wrong = Callable[..., Any]


def write(call: OpCall, /, **wrong: Wrong) -> Status:
    """Write the rows of a valid call; the steps that are named go wrong."""

    def step(name: str, right: Any, *made_from: Any) -> Any:
        return wrong[name](right, *made_from) if name in wrong else right

    with np.errstate(all="ignore"):
        radii = [F32(call.param(name)) for name in ("min_radius", "max_radius")]
        low, high = step("bounds", [radius**2 for radius in radii], *radii)
        new_xyz, xyz = (step("coordinates", call.array(name).astype(np.float32)) for name in ("new_xyz", "xyz"))
        for batch, rows in enumerate(call.array("idx")):
            centres, points = step("sides", (new_xyz[batch], xyz[batch]), new_xyz, xyz, batch)
            some_empty = False
            for centre, row in zip(centres, rows, strict=True):
                distance = step("distances", squared(points - centre), centre, points)
                hits = np.flatnonzero(step("inside", in_shell(distance, low, high), distance, low, high))
                if len(hits) == 0:
                    some_empty = True
                    row[:] = step("empty", row, distance)
                elif step("reached", True, some_empty):
                    listed = step("listed", hits[: len(row)], hits, distance, len(row))
                    filled = np.append(listed, np.full(len(row) - len(listed), listed[0]))
                    row[:] = step("entries", step("row", filled, listed), batch, len(points))
    return Status.SUCCESS


def squared(difference: Array) -> Any:
    """[N] of differences [N, axes]."""
    return np.square(difference).sum(axis=1)


# Which points are inside.

_INSIDE: Mapping[str, Wrong] = {
    "coincident_like_any_other: a point at distance 0 counts only where the shell holds it": (
        lambda _, d, low, high: (d >= low) & (d < high)
    ),
    "coincident_skipped: the centre itself is not a neighbour": lambda inside, d, *_: inside & (d > 0),
    "coincident_only_in_a_ball: a point at distance 0 counts only if min_radius is 0": (
        lambda inside, d, low, _: inside & ((d > 0) | (low == 0))
    ),
    "coincident_not_without_a_ball: max_radius 0 finds nothing": lambda inside, _, __, high: inside & (high > 0),
    "nearly_coincident: squared distances below 1e-6 count as 0": lambda inside, d, *_: inside | (d < 1e-6),
    "inclusive_max: a point on the outer sphere is inside": lambda inside, d, _, high: inside | (d == high),
    "exclusive_min: a point on the inner sphere is outside": lambda _, d, low, high: (
        (d == 0) | ((d > low) & (d < high))
    ),
    "min_ignored: the shell is a ball": lambda _, d, __, high: in_shell(d, F32(0), high),
    "max_ignored: the shell has no end": lambda _, d, low, __: in_shell(d, low, F32(np.inf)),
    "infinite_radius_refused: a squared radius beyond the largest float holds nothing": (
        lambda inside, d, _, high: inside & ((d == 0) | np.isfinite(high))
    ),
    "nan_inside: what is not outside is inside, NaN too": lambda _, d, low, high: (d == 0) | ~((d < low) | (d >= high)),
    "infinite_distance_inside: an infinite distance is below an infinite bound": (
        lambda inside, d, low, high: inside | (np.isinf(d) & (d >= low) & np.isinf(high))
    ),
    "first_point_skipped: the search begins at point 1": lambda inside, *_: inside & (np.arange(len(inside)) > 0),
    "last_point_skipped: the search ends before point N − 1": (
        lambda inside, *_: inside & (np.arange(len(inside)) < len(inside) - 1)
    ),
}

_BOUNDS: Mapping[str, Wrong] = {
    "radii_not_squared: squared distances are compared with radii": lambda _, low, high: (low, high),
    "max_not_squared: max_radius is not squared": lambda _, low, high: (low**2, high),
    "min_not_squared: min_radius is not squared": lambda _, low, high: (low, high**2),
    "diameters: §1.3: the radii are diameters": lambda bounds, *_: [bound / 4 for bound in bounds],
    "radii_sorted: min_radius above max_radius is put right": lambda bounds, *_: sorted(bounds),
    "radii_exchanged: min_radius is taken for max_radius": lambda bounds, *_: bounds[::-1],
    "radii_truncated: the radii are integers": lambda _, *radii: [np.trunc(radius) ** 2 for radius in radii],
    "half_radii: the radii are squared in half precision": lambda _, *radii: [
        F32(np.float16(one) ** 2) for one in radii
    ],
}


# Distances, and the numbers that they are made of.


def _expanded(_right: Array, centre: Array, points: Array) -> Any:
    return squared(points) + np.square(centre).sum() - 2 * (points * centre).sum(axis=1)


def _half(values: Array) -> Array:
    return values.astype(np.float16).astype(np.float32)


def _without_bits(bits: int) -> Callable[[Array], Array]:
    """Floats without the lowest `bits` of their 23 mantissa bits."""
    mask = np.uint32(0xFFFFFFFF << bits & 0xFFFFFFFF)
    return lambda values: (np.ascontiguousarray(values, np.float32).view("<u4") & mask).view("<f4")


def _of_differences(distances: Callable[[Array], Array]) -> Wrong:
    return lambda _, centre, points: distances(points - centre)


def _half_sums(difference: Array) -> Any:
    squares = np.square(difference).astype(np.float16)
    return ((squares[:, 0] + squares[:, 1]) + squares[:, 2]).astype(np.float32)


_DISTANCES: Mapping[str, Wrong] = {
    "l1: distances are sums of differences": _of_differences(lambda d: np.abs(d).sum(axis=1) ** 2),
    "largest_difference: distances are the largest difference": _of_differences(lambda d: np.abs(d).max(axis=1) ** 2),
    "x_dropped: x does not count": _of_differences(lambda d: squared(d[:, 1:])),
    "y_dropped: y does not count": _of_differences(lambda d: squared(d[:, ::2])),
    "z_dropped: z does not count": _of_differences(lambda d: squared(d[:, :2])),
    "expanded: |u|² + |k|² − 2u·k, which cancels far from the origin": _expanded,
    "half_differences: differences are rounded to half": _of_differences(lambda d: squared(_half(d))),
    "tf32_differences: differences lose 13 mantissa bits": _of_differences(lambda d: squared(_without_bits(13)(d))),
    "half_sums: squares are rounded to half and added there": _of_differences(_half_sums),
}

_COORDINATES: Mapping[str, Wrong] = {
    "half_coordinates: coordinates are rounded to half": _half,
    "bf16_coordinates: coordinates lose 16 mantissa bits": _without_bits(16),
    "tf32_coordinates: coordinates lose 13 mantissa bits": _without_bits(13),
    "nan_becomes_0: coordinates that are not finite count as 0": (
        lambda values: np.nan_to_num(values, nan=0, posinf=0, neginf=0)
    ),
}


# Which of the hits, in which order, and what else a row holds.


def _up_to_a_gap(right: Array, *_: Any) -> Any:
    return right[right - right[0] == np.arange(len(right))]


def _up_to_a_coincident(right: Array, _hits: Array, distance: Array, _nsample: int) -> Array:
    coincident = np.flatnonzero(distance[right] == 0)
    return right[: coincident[0] + 1 if len(coincident) else None]


def _merged(_right: Array, hits: Array, distance: Array, nsample: int) -> Array:
    _, first = np.unique(distance[hits], return_index=True)
    return hits[np.sort(first)][:nsample]


_LISTED: Mapping[str, Wrong] = {
    "nearest_first: the nearest points in place of the first ones": (
        lambda _, hits, distance, nsample: hits[np.argsort(distance[hits], kind="stable")[:nsample]]
    ),
    "last_ones: the last nsample points": lambda _, hits, __, nsample: hits[-nsample:],
    "descending: from the last index down": lambda _, hits, __, nsample: hits[::-1][:nsample],
    "first_ones_descending: the right points in reverse": lambda right, *_: right[::-1],
    "one_too_few: the last entry is never another point": lambda right, *made_from: right[: max(1, made_from[-1] - 1)],
    "stops_at_a_gap: the search ends at the first point outside": _up_to_a_gap,
    "equal_distances_merged: of points at one distance the first counts": _merged,
    "ends_at_a_coincident: the search ends at distance 0": _up_to_a_coincident,
    "counted_in_7_bits: a row lists no more than 127 points": lambda right, *_: right[:127],
}


def _filled_with(value: Callable[[Array], Any]) -> Wrong:
    return lambda right, listed: np.where(np.arange(len(right)) < len(listed), right, value(listed))


def _last_tile(listed: Array) -> Any:
    """The hits that lie in the tile of the last one."""
    return listed[listed // _TILE == listed[-1] // _TILE]


def _restarted(right: Array, listed: Array) -> Array:
    """Every tile with a hit fills the row anew, over what earlier tiles left."""
    tail = _last_tile(listed)
    row = np.full(len(right), tail[0])
    row[len(listed) - len(tail) : len(listed)] = tail
    return row


_ROW: Mapping[str, Wrong] = {
    "filled_with_last: the last point is repeated": _filled_with(lambda listed: listed[-1]),
    "filled_with_0: the rest of a row is 0": _filled_with(lambda _: 0),
    "filled_with_minus_1: the rest of a row is −1": _filled_with(lambda _: -1),
    "filled_in_turn: all points are repeated in turn": lambda right, listed: np.resize(listed, len(right)),
    "fill_restarted: each tile fills the row anew": _restarted,
    "filled_by_last_tile: the first point of the last tile is repeated": _filled_with(lambda one: _last_tile(one)[0]),
    "rest_not_written: a row ends at its last point": (
        _filled_with(lambda _: int.from_bytes(b"\xa5" * 4, "little", signed=True))
    ),
}

_EMPTY: Mapping[str, Wrong] = {
    "empty_row_minus_1: a row without a point is −1": lambda *_: -1,
    "empty_row_n: a row without a point is N": lambda _, distance: len(distance),
    "empty_row_nearest: a row without a point has the nearest one": lambda _, distance: np.argmin(distance),
}

_ENTRIES: Mapping[str, Wrong] = {
    "indices_from_1: indices begin at 1": lambda row, *_: row + 1,
    "batch_in_index: indices count through all batches": lambda row, batch, points: row + batch * points,
    "byte_indices: indices kept in 8 bits": lambda row, *_: row & 0xFF,
    "tile_base_lost: indices count within a tile of 64": lambda row, *_: row % _TILE,
}


# Which cloud, and how it is cut; a side is (centres, points).


def _padded(right: Any, *_: Any) -> Any:
    return right[0], np.append(right[1], np.zeros((-len(right[1]) % _TILE, 3), np.float32), axis=0)


_SIDES: Mapping[str, Wrong] = {
    "xyz_axes_first: xyz is read as [B, 3, N]": lambda right, _, xyz, batch: (right[0], axes_first(xyz)[batch]),
    "new_xyz_axes_first: new_xyz is read as [B, 3, M]": lambda right, new, _, batch: (axes_first(new)[batch], right[1]),
    "first_cloud: every batch searches the first cloud": lambda right, _, xyz, __: (right[0], xyz[0]),
    "first_centres: every batch has the first centres": lambda right, new, *_: (new[0], right[1]),
    "swapped: §1.3's order: new_xyz is the cloud": lambda right, *_: (np.resize(right[1], right[0].shape), right[0]),
    "tail_dropped: points behind the last whole tile are lost": (
        lambda right, *_: (right[0], right[1][: len(right[1]) // _TILE * _TILE or None])
    ),
    "padding_counts: the padding of the last tile is points at 0": _padded,
}


# What is written where no step decides.


def _row_before(call: OpCall) -> Status:
    """The buffer that a row is built in is written whether or not a point was found."""
    unseen = -7
    status = write(call, empty=lambda *_: unseen)
    for rows in call.array("idx"):
        before = np.zeros_like(rows[0])
        for row in rows:
            if row[0] == unseen:
                row[:] = before
            before = row
    return status


def _samples_first(call: OpCall) -> None:
    idx = call.array("idx")
    idx[...] = idx.swapaxes(1, 2).reshape(idx.shape)


_STEPS: Mapping[str, Mapping[str, Wrong]] = {
    "inside": _INSIDE,
    "bounds": _BOUNDS,
    "distances": _DISTANCES,
    "coordinates": _COORDINATES,
    "listed": _LISTED,
    "row": _ROW,
    "empty": _EMPTY,
    "entries": _ENTRIES,
    "sides": _SIDES,
    "reached": {"ends_at_an_empty_row: rows behind an empty one are not reached": lambda _, some_empty: not some_empty},
}


def _of_step(words: str, step: str, wrong: Wrong) -> Mutant:
    name, _, message = words.partition(": ")
    return Mutant(name, message, partial(write, **{step: wrong}))


MUTANTS = (
    *(_of_step(words, step, wrong) for step, wrongs in _STEPS.items() for words, wrong in wrongs.items()),
    Mutant("empty_row_of_the_one_before", "a row without a point repeats the row before", _row_before),
    mistakes.spoilt("samples_first", "idx is written as [B, nsample, M]", write, _samples_first),
    *mistakes.tails_left(write, "idx", 1, "centres", (16, 64, 128)),
    *mistakes.tails_left(write, "idx", 2, "samples", (16,)),
    mistakes.part_left(write, "idx", 1, "centres"),
    # What another call finds.
    mistakes.cached_by_shape(write),
    mistakes.first_param_kept(write, "max_radius"),
    mistakes.first_length_kept(write, "idx", 1, "centres"),
    mistakes.input_cleared(write, "xyz"),
)
