"""Implementations with one plausible mistake each: the query in rules, of which every mistake replaces one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status, mistakes

from .._shared.points import axes_first
from . import in_shell

F32 = np.float32
_TILE = 64


def squared_distances(centre: Array, points: Array) -> Array:
    """[N] between one centre and all points."""
    return np.asarray(np.square(points - centre).sum(axis=1))


def _filled_up(listed: Array, nsample: int) -> Array:
    return np.append(listed, np.full(nsample - len(listed), listed[0]))


@dataclass(frozen=True, slots=True)
class Rules:
    """The right decisions; a mistake replaces one of them."""

    # Coordinates as the arithmetic has them, float32.
    coordinates: Callable[[Array], Array] = lambda coordinates: coordinates.astype(np.float32)
    # Centres and points of a batch: (new_xyz, xyz, batch).
    sides: Callable[[Array, Array, int], tuple[Array, Array]] = lambda new_xyz, xyz, batch: (new_xyz[batch], xyz[batch])
    distances: Callable[[Array, Array], Array] = squared_distances
    # The bounds that distances are compared with: (min_radius, max_radius).
    bounds: Callable[[np.float32, np.float32], tuple[np.float32, np.float32]] = lambda low, high: (low**2, high**2)
    # Which points: (squared distances, bounds).
    inside: Callable[[Array, np.float32, np.float32], Array] = in_shell
    # Which of the hits, in which order: (hits, distances of all points, nsample).
    listed: Callable[[Array, Array, int], Array] = lambda hits, _, nsample: hits[:nsample]
    # The whole row of nsample entries: (listed, nsample).
    row: Callable[[Array, int], Array] = _filled_up
    # What stands in a row without a hit; None: what the caller left there. (distances).
    empty: Callable[[Array], int] | None = None
    # What a row holds of its indices: (entries, batch, points).
    entries: Callable[[Array, int, int], Array] = lambda entries, _batch, _points: entries
    # Whether a row is computed: (an earlier one is empty).
    reached: Callable[[bool], bool] = lambda _: True


def apply(rules: Rules, call: OpCall) -> Status:
    """Write the rows of a valid call by these rules."""
    with np.errstate(all="ignore"):
        low, high = rules.bounds(*(F32(call.param(name)) for name in ("min_radius", "max_radius")))
        new_xyz, xyz = (rules.coordinates(call.array(name)) for name in ("new_xyz", "xyz"))
        for batch, rows in enumerate(call.array("idx")):
            centres, points = rules.sides(new_xyz, xyz, batch)
            some_empty = False
            for centre, row in zip(centres, rows, strict=True):
                distance = rules.distances(centre, points)
                hits = np.flatnonzero(rules.inside(distance, low, high))
                if len(hits) == 0:
                    some_empty = True
                    if rules.empty is not None:
                        row[:] = rules.empty(distance)
                elif rules.reached(some_empty):
                    listed = rules.listed(hits, distance, len(row))
                    row[:] = rules.entries(rules.row(listed, len(row)), batch, len(points))
    return Status.SUCCESS


_right = partial(apply, Rules())


# Which points are inside.


def _without_point(index: int) -> Callable[..., Array]:
    return lambda d, low, high: in_shell(d, low, high) & (np.arange(len(d)) != index % len(d))


def _infinite_too(distance: Array, low: np.float32, high: np.float32) -> Any:
    return in_shell(distance, low, high) | (np.isinf(distance) & (distance >= low) & np.isinf(high))


_INSIDE: Mapping[str, Callable[..., Any]] = {
    "coincident_like_any_other: distance 0 is no exception": lambda d, low, high: (d >= low) & (d < high),
    "coincident_skipped: the centre itself is not a neighbour": lambda d, low, high: in_shell(d, low, high) & (d > 0),
    "coincident_only_in_a_ball: a point at distance 0 counts only if min_radius is 0": (
        lambda d, low, high: in_shell(d, low, high) & ((d > 0) | (low == 0))
    ),
    "coincident_not_without_a_ball: radius 0 finds nothing": lambda d, low, high: in_shell(d, low, high) & (high > 0),
    "nearly_coincident: squared distances below 1e-6 count as 0": lambda d, low, high: (
        in_shell(d, low, high) | (d < 1e-6)
    ),
    "inclusive_max: a point on the outer sphere is inside": lambda d, low, high: in_shell(d, low, high) | (d == high),
    "exclusive_min: a point on the inner sphere is outside": lambda d, low, high: (d == 0) | ((d > low) & (d < high)),
    "min_ignored: the shell is a ball": lambda d, _, high: in_shell(d, F32(0), high),
    "max_ignored: the shell has no end": lambda d, low, _: in_shell(d, low, F32(np.inf)),
    "infinite_radius_refused: a squared radius beyond the largest float holds nothing": (
        lambda d, low, high: in_shell(d, low, high) & ((d == 0) | np.isfinite(high))
    ),
    "nan_inside: what is not outside is inside, NaN too": lambda d, low, high: (d == 0) | ~((d < low) | (d >= high)),
    "infinite_distance_inside: an infinite distance is below an infinite bound": _infinite_too,
    "first_point_skipped: the search begins at point 1": _without_point(0),
    "last_point_skipped: the search ends before point N − 1": _without_point(-1),
}

_BOUNDS: Mapping[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "radii_not_squared: squared distances are compared with radii": lambda low, high: (low, high),
    "max_not_squared: max_radius is not squared": lambda low, high: (low**2, high),
    "min_not_squared: min_radius is not squared": lambda low, high: (low, high**2),
    "diameters: §1.3: the radii are diameters": lambda low, high: (low**2 / 4, high**2 / 4),
    "radii_sorted: the smaller radius is taken for min_radius": lambda *radii: (min(radii) ** 2, max(radii) ** 2),
    "radii_exchanged: min_radius is taken for max_radius": lambda low, high: (high**2, low**2),
    "radii_truncated: the radii are integers": lambda low, high: (np.trunc(low) ** 2, np.trunc(high) ** 2),
    "half_radii: the radii are squared in half precision": lambda *radii: tuple(F32(np.float16(r) ** 2) for r in radii),
}


# Distances, and the numbers that they are made of.


def _expanded(centre: Array, points: Array) -> Any:
    return np.square(points).sum(axis=1) + np.square(centre).sum() - 2 * (points * centre).sum(axis=1)


def _half(values: Array) -> Array:
    return values.astype(np.float16).astype(np.float32)


def _without_bits(bits: int) -> Callable[[Array], Array]:
    """Floats without the lowest `bits` of their 23 mantissa bits."""
    mask = np.uint32(0xFFFFFFFF << bits & 0xFFFFFFFF)
    return lambda values: (np.ascontiguousarray(values, np.float32).view("<u4") & mask).view("<f4")


def _of_differences(shorten: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda centre, points: np.square(shorten(points - centre)).astype(np.float32).sum(axis=1)


def _half_sums(centre: Array, points: Array) -> Any:
    squares = np.square(points - centre).astype(np.float16)
    return ((squares[:, 0] + squares[:, 1]) + squares[:, 2]).astype(np.float32)


_DISTANCES: Mapping[str, Callable[[Array, Array], Array]] = {
    "l1: distances are sums of differences": lambda c, p: np.abs(p - c).sum(axis=1) ** 2,
    "largest_difference: distances are the largest difference": lambda c, p: np.abs(p - c).max(axis=1) ** 2,
    "x_dropped: x does not count": lambda c, p: squared_distances(c[1:], p[:, 1:]),
    "y_dropped: y does not count": lambda c, p: squared_distances(c[::2], p[:, ::2]),
    "z_dropped: z does not count": lambda c, p: squared_distances(c[:2], p[:, :2]),
    "expanded: |u|² + |k|² − 2u·k, which cancels far from the origin": _expanded,
    "half_differences: differences are rounded to half": _of_differences(_half),
    "tf32_differences: differences lose 13 mantissa bits": _of_differences(_without_bits(13)),
    "half_sums: squares are rounded to half and added there": _half_sums,
}

_COORDINATES: Mapping[str, Callable[[Array], Array]] = {
    "half_coordinates: coordinates are rounded to half": _half,
    "bf16_coordinates: coordinates lose 16 mantissa bits": _without_bits(16),
    "tf32_coordinates: coordinates lose 13 mantissa bits": _without_bits(13),
    "nan_becomes_0: coordinates that are not finite count as 0": (
        lambda values: np.nan_to_num(values.astype(np.float32), nan=0, posinf=0, neginf=0)
    ),
}


# Which of the hits, in which order, and what else a row holds.


def _merged(hits: Array, distance: Array, nsample: int) -> Array:
    _, first = np.unique(distance[hits], return_index=True)
    return hits[np.sort(first)][:nsample]


def _up_to_a_coincident(hits: Array, distance: Array, nsample: int) -> Array:
    coincident = np.flatnonzero(distance[hits] == 0)
    return hits[: coincident[0] + 1 if len(coincident) else None][:nsample]


_LISTED: Mapping[str, Callable[[Array, Array, int], Array]] = {
    "nearest_first: the nearest points, not the first": lambda hits, d, n: hits[np.argsort(d[hits], kind="stable")[:n]],
    "last_ones: the last nsample points": lambda hits, _, nsample: hits[-nsample:],
    "descending: from the last index down": lambda hits, _, nsample: hits[::-1][:nsample],
    "first_ones_descending: the right points in reverse": lambda hits, _, nsample: hits[:nsample][::-1],
    "one_too_few: the last entry is never another point": lambda hits, _, nsample: hits[: max(1, nsample - 1)],
    "stops_at_a_gap: the first gap ends the search": lambda hits, _, n: hits[hits - hits[0] == np.arange(len(hits))][
        :n
    ],
    "equal_distances_merged: of points at one distance the first counts": _merged,
    "ends_at_a_coincident: the search ends at distance 0": _up_to_a_coincident,
    "counted_in_7_bits: a row lists no more than 127 points": lambda hits, _, nsample: hits[: min(nsample, 127)],
}


def _filled_with(value: Callable[[Array], Any]) -> Callable[[Array, int], Array]:
    return lambda listed, nsample: np.append(listed, np.full(nsample - len(listed), value(listed)))


def _last_tile(listed: Array) -> Any:
    """The hits that lie in the tile of the last one."""
    return listed[listed // _TILE == listed[-1] // _TILE]


def _restarted(listed: Array, nsample: int) -> Array:
    """Every tile with a hit fills the row anew, over what earlier tiles left."""
    tail = _last_tile(listed)
    row = np.full(nsample, tail[0])
    row[len(listed) - len(tail) : len(listed)] = tail
    return row


_ROW: Mapping[str, Callable[[Array, int], Array]] = {
    "filled_with_last: the last point is repeated": _filled_with(lambda listed: listed[-1]),
    "filled_with_0: the rest of a row is 0": _filled_with(lambda _: 0),
    "filled_with_minus_1: the rest of a row is −1": _filled_with(lambda _: -1),
    "filled_in_turn: all points are repeated in turn": np.resize,
    "fill_restarted: each tile fills the row anew": _restarted,
    "filled_by_last_tile: the first point of the last tile is repeated": _filled_with(lambda one: _last_tile(one)[0]),
    "rest_not_written: a row ends at its last point": (
        _filled_with(lambda _: int.from_bytes(b"\xa5" * 4, "little", signed=True))
    ),
}

_EMPTY: Mapping[str, Callable[[Array], int]] = {
    "empty_row_minus_1: a row without a point is −1": lambda _: -1,
    "empty_row_n: a row without a point is N": len,
    "empty_row_nearest: a row without a point has the nearest one": lambda distance: int(np.argmin(distance)),
}

_ENTRIES: Mapping[str, Callable[[Array, int, int], Array]] = {
    "indices_from_1: indices begin at 1": lambda entries, _batch, _points: entries + 1,
    "batch_in_index: indices count through all batches": lambda entries, batch, points: entries + batch * points,
    "byte_indices: indices kept in 8 bits": lambda entries, _batch, _points: entries & 0xFF,
    "tile_base_lost: indices count within a tile of 64": lambda entries, _batch, _points: entries % _TILE,
}


# Which cloud, and how it is cut.


def _padded(new_xyz: Array, xyz: Array, batch: int) -> tuple[Array, Array]:
    missing = -xyz.shape[1] % _TILE
    return new_xyz[batch], np.append(xyz[batch], np.zeros((missing, 3), np.float32), axis=0)


_SIDES: Mapping[str, Callable[[Array, Array, int], tuple[Array, Array]]] = {
    "xyz_axes_first: xyz is read as [B, 3, N]": lambda new, xyz, batch: (new[batch], axes_first(xyz)[batch]),
    "new_xyz_axes_first: new_xyz is read as [B, 3, M]": lambda new, xyz, batch: (axes_first(new)[batch], xyz[batch]),
    "first_cloud: every batch searches the first cloud": lambda new, xyz, batch: (new[batch], xyz[0]),
    "first_centres: every batch has the first centres": lambda new, xyz, batch: (new[0], xyz[batch]),
    "swapped: §1.3's order: new_xyz is the cloud": (
        lambda new, xyz, batch: (np.resize(xyz[batch], new[batch].shape), new[batch])
    ),
    "tail_dropped: points behind the last whole tile are lost": (
        lambda new, xyz, batch: (new[batch], xyz[batch, : xyz.shape[1] // _TILE * _TILE or None])
    ),
    "padding_counts: the padding of the last tile is points at 0": _padded,
}


# What is written where no rule decides.


def _row_before(call: OpCall) -> Status:
    """The buffer that a row is built in is written whether or not a point was found."""
    unseen = -7
    status = apply(Rules(empty=lambda _: unseen), call)
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


_WRONG: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "inside": _INSIDE,
    "bounds": _BOUNDS,
    "distances": _DISTANCES,
    "coordinates": _COORDINATES,
    "listed": _LISTED,
    "row": _ROW,
    "empty": _EMPTY,
    "entries": _ENTRIES,
    "sides": _SIDES,
    "reached": {"ends_at_an_empty_row: rows behind an empty one are not reached": lambda is_empty: not is_empty},
}


def _of_rule(words: str, rule: str, wrong: Callable[..., Any]) -> Mutant:
    name, _, message = words.partition(": ")
    return Mutant(name, message, partial(apply, Rules(**{rule: wrong})))


MUTANTS = (
    *(_of_rule(words, rule, wrong) for rule, wrongs in _WRONG.items() for words, wrong in wrongs.items()),
    Mutant("empty_row_of_the_one_before", "a row without a point repeats the row before", _row_before),
    mistakes.spoilt("samples_first", "idx is written as [B, nsample, M]", _right, _samples_first),
    *mistakes.tails_left(_right, "idx", 1, "centres", (16, 64, 128)),
    *mistakes.tails_left(_right, "idx", 2, "samples", (16,)),
    mistakes.part_left(_right, "idx", 1, "centres"),
    # What another call finds.
    mistakes.cached_by_shape(_right),
    mistakes.first_param_kept(_right, "max_radius"),
    mistakes.first_length_kept(_right, "idx", 1, "centres"),
    mistakes.input_cleared(_right, "xyz"),
)
