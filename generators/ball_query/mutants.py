"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.mistakes import (
    cached_by_shape,
    first_length_kept,
    first_param_kept,
    input_cleared,
    part_left,
    spoilt,
    tails_left,
)

# The right query in rules that can be replaced one by one; mutants do.


F32 = np.float32


def squared_distances(centre: Array, points: Array) -> Array:
    """[N] between one centre and all points."""
    total: Array = np.square(points - centre).sum(axis=1)
    return total


def in_shell(distance: Array, low: np.float32, high: np.float32) -> Array:
    """bool [N]: §3.1 step 6."""
    inside: Array = (distance == 0) | ((distance >= low) & (distance < high))
    return inside


def _leave(_row: Array, _distance: Array) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Rules:
    """The right decisions; a mistake replaces one of them."""

    # Coordinates as the arithmetic has them, float32.
    coordinates: Callable[[Array], Array] = lambda coordinates: coordinates.astype(np.float32)
    # Centres and points of a batch: (new_xyz, xyz, batch).
    sides: Callable[[Array, Array, int], tuple[Array, Array]] = lambda new_xyz, xyz, batch: (new_xyz[batch], xyz[batch])
    distances: Callable[[Array, Array], Array] = squared_distances
    # The bounds that distances are compared with: (min_radius, max_radius).
    bounds: Callable[[np.float32, np.float32], tuple[np.float32, np.float32]] = lambda low, high: (
        low * low,
        high * high,
    )
    inside: Callable[[Array, np.float32, np.float32], Array] = in_shell
    # Which of the hits, in which order: (hits, distances of all points, nsample).
    listed: Callable[[Array, Array, int], Array] = lambda hits, _, nsample: hits[:nsample]
    # The whole row of nsample entries: (listed, nsample).
    row: Callable[[Array, int], Array] = lambda listed, nsample: np.append(
        listed, np.full(nsample - len(listed), listed[0])
    )
    # What becomes of a row without a hit: (row, distances).
    empty: Callable[[Array, Array], None] = _leave
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
                    rules.empty(row, distance)
                    some_empty = True
                elif rules.reached(some_empty):
                    listed = rules.listed(hits, distance, len(row))
                    row[:] = rules.entries(rules.row(listed, len(row)), batch, len(points))
    return Status.SUCCESS


_TILE = 64


_right = partial(apply, Rules())


def _mutant(name: str, message: str, rules: Rules) -> Mutant:
    return Mutant(name, message, partial(apply, rules))


def _nearest(hits: Array, distance: Array, nsample: int) -> Array:
    return hits[np.argsort(distance[hits], kind="stable")[:nsample]]


def _stops_at_a_gap(hits: Array, _distance: Array, nsample: int) -> Array:
    run: Array = hits[hits - hits[0] == np.arange(len(hits))]
    return run[:nsample]


def _merged(hits: Array, distance: Array, nsample: int) -> Array:
    _, first = np.unique(distance[hits], return_index=True)
    return hits[np.sort(first)][:nsample]


def _filled_with(value: Callable[[Array], Array | int]) -> Callable[[Array, int], Array]:
    return lambda listed, nsample: np.append(listed, np.full(nsample - len(listed), value(listed)))


def _last_tile(listed: Array) -> Array:
    """The hits that lie in the tile of the last one."""
    tail: Array = listed[listed // _TILE == listed[-1] // _TILE]
    return tail


def _restarted(listed: Array, nsample: int) -> Array:
    """Every tile with a hit fills the row anew, over what earlier tiles left."""
    tail = _last_tile(listed)
    row = np.full(nsample, tail[0])
    row[len(listed) - len(tail) : len(listed)] = tail
    return row


def _set(value: Callable[[Array], int]) -> Callable[[Array, Array], None]:
    def write(row: Array, distance: Array) -> None:
        row[:] = value(distance)

    return write


def _padded(new_xyz: Array, xyz: Array, batch: int) -> tuple[Array, Array]:
    missing = -xyz.shape[1] % _TILE
    return new_xyz[batch], np.append(xyz[batch], np.zeros((missing, 3), np.float32), axis=0)


def _whole_tiles(new_xyz: Array, xyz: Array, batch: int) -> tuple[Array, Array]:
    return new_xyz[batch], xyz[batch, : xyz.shape[1] // _TILE * _TILE or None]


def _swapped(new_xyz: Array, xyz: Array, batch: int) -> tuple[Array, Array]:
    return np.resize(xyz[batch], new_xyz[batch].shape), new_xyz[batch]


def _expanded(centre: Array, points: Array) -> Array:
    total: Array = np.square(points).sum(axis=1) + np.square(centre).sum() - 2 * (points * centre).sum(axis=1)
    return total


def _truncated(values: Array, bits: int) -> Array:
    """Without the lowest `bits` of 23 mantissa bits."""
    mask = np.uint32(0xFFFFFFFF << bits & 0xFFFFFFFF)
    shortened: Array = (np.ascontiguousarray(values, np.float32).view("<u4") & mask).view("<f4")
    return shortened


def _of_differences(shorten: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda centre, points: np.square(shorten(points - centre)).astype(np.float32).sum(axis=1)


def _half(values: Array) -> Array:
    return values.astype(np.float16).astype(np.float32)


def _not_beyond(distance: Array, low: np.float32, high: np.float32) -> Array:
    kept: Array = (distance == 0) | ~((distance < low) | (distance >= high))
    return kept


def _axes_first(cloud: Array) -> Array:
    batches, points, _ = cloud.shape
    return cloud.reshape(batches, 3, points).swapaxes(1, 2)


def _half_sums(centre: Array, points: Array) -> Array:
    squares = np.square(points - centre).astype(np.float16)
    total: Array = (squares[:, 0] + squares[:, 1]) + squares[:, 2]
    return total.astype(np.float32)


def _up_to_a_coincident(hits: Array, distance: Array, nsample: int) -> Array:
    coincident = np.flatnonzero(distance[hits] == 0)
    return hits[: coincident[0] + 1 if len(coincident) else None][:nsample]


def _row_before(call: OpCall) -> Status:
    """The buffer that a row is built in is written whether or not a point was found."""
    unseen = -7
    status = apply(Rules(empty=_set(lambda _: unseen)), call)
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


MUTANTS = (
    # Which points are inside.
    _mutant(
        "coincident_like_any_other",
        "a point at distance 0 counts only where the shell holds it",
        Rules(inside=lambda distance, low, high: (distance >= low) & (distance < high)),
    ),
    _mutant(
        "coincident_skipped",
        "the centre itself is not a neighbour",
        Rules(inside=lambda distance, low, high: (distance > 0) & (distance >= low) & (distance < high)),
    ),
    _mutant(
        "coincident_only_in_a_ball",
        "a point at distance 0 counts only if min_radius is 0",
        Rules(inside=lambda distance, low, high: in_shell(distance, low, high) & ((distance > 0) | (low == 0))),
    ),
    _mutant(
        "coincident_not_without_a_ball",
        "max_radius 0 finds nothing",
        Rules(inside=lambda distance, low, high: in_shell(distance, low, high) & (high > 0)),
    ),
    _mutant(
        "inclusive_max",
        "a point on the outer sphere is inside",
        Rules(inside=lambda distance, low, high: (distance == 0) | ((distance >= low) & (distance <= high))),
    ),
    _mutant(
        "exclusive_min",
        "a point on the inner sphere is outside",
        Rules(inside=lambda distance, low, high: (distance == 0) | ((distance > low) & (distance < high))),
    ),
    _mutant(
        "min_ignored", "the shell is a ball", Rules(inside=lambda distance, _, high: in_shell(distance, F32(0), high))
    ),
    _mutant(
        "max_ignored",
        "the shell has no end",
        Rules(inside=lambda distance, low, _: in_shell(distance, low, F32(np.inf))),
    ),
    _mutant(
        "radii_not_squared", "squared distances are compared with radii", Rules(bounds=lambda low, high: (low, high))
    ),
    _mutant(
        "diameters", "§1.3: the radii are diameters", Rules(bounds=lambda low, high: (low * low / 4, high * high / 4))
    ),
    _mutant(
        "radii_sorted",
        "min_radius above max_radius is put right",
        Rules(bounds=lambda low, high: (min(low, high) ** 2, max(low, high) ** 2)),
    ),
    _mutant(
        "half_radii",
        "the radii are squared in half precision",
        Rules(bounds=lambda low, high: (F32(np.float16(low) ** 2), F32(np.float16(high) ** 2))),
    ),
    _mutant(
        "infinite_radius_refused",
        "a squared radius beyond the largest float holds nothing",
        Rules(inside=lambda distance, low, high: in_shell(distance, low, high) & ((distance == 0) | np.isfinite(high))),
    ),
    _mutant("nan_inside", "what is not outside is inside, NaN too", Rules(inside=_not_beyond)),
    _mutant(
        "infinite_distance_inside",
        "an infinite distance is below an infinite bound",
        Rules(
            inside=lambda distance, low, high: (
                in_shell(distance, low, high) | (np.isinf(distance) & (distance >= low) & np.isinf(high))
            )
        ),
    ),
    _mutant(
        "nan_becomes_0",
        "coordinates that are not finite count as 0",
        Rules(coordinates=lambda values: np.nan_to_num(values.astype(np.float32), nan=0, posinf=0, neginf=0)),
    ),
    _mutant(
        "radii_exchanged",
        "min_radius is taken for max_radius",
        Rules(bounds=lambda low, high: (high * high, low * low)),
    ),
    _mutant("max_not_squared", "max_radius is not squared", Rules(bounds=lambda low, high: (low * low, high))),
    _mutant("min_not_squared", "min_radius is not squared", Rules(bounds=lambda low, high: (low, high * high))),
    _mutant(
        "radii_truncated",
        "the radii are integers",
        Rules(bounds=lambda low, high: (np.trunc(low) ** 2, np.trunc(high) ** 2)),
    ),
    _mutant(
        "first_point_skipped",
        "the search begins at point 1",
        Rules(inside=lambda distance, low, high: in_shell(distance, low, high) & (np.arange(len(distance)) > 0)),
    ),
    _mutant(
        "last_point_skipped",
        "the search ends before point N − 1",
        Rules(
            inside=lambda distance, low, high: (
                in_shell(distance, low, high) & (np.arange(len(distance)) < len(distance) - 1)
            )
        ),
    ),
    # Distances.
    _mutant("l1", "distances are sums of differences", Rules(distances=lambda c, p: np.abs(p - c).sum(axis=1) ** 2)),
    _mutant(
        "largest_difference",
        "distances are the largest difference",
        Rules(distances=lambda c, p: np.abs(p - c).max(axis=1) ** 2),
    ),
    _mutant("x_dropped", "x does not count", Rules(distances=lambda c, p: squared_distances(c[1:], p[:, 1:]))),
    _mutant("y_dropped", "y does not count", Rules(distances=lambda c, p: squared_distances(c[::2], p[:, ::2]))),
    _mutant("z_dropped", "z does not count", Rules(distances=lambda c, p: squared_distances(c[:2], p[:, :2]))),
    _mutant("expanded", "|u|² + |k|² − 2u·k, which cancels far from the origin", Rules(distances=_expanded)),
    _mutant("half_coordinates", "coordinates are rounded to half", Rules(coordinates=_half)),
    _mutant(
        "bf16_coordinates",
        "coordinates lose 16 mantissa bits",
        Rules(coordinates=lambda values: _truncated(values, 16)),
    ),
    _mutant(
        "tf32_coordinates",
        "coordinates lose 13 mantissa bits",
        Rules(coordinates=lambda values: _truncated(values, 13)),
    ),
    _mutant("half_differences", "differences are rounded to half", Rules(distances=_of_differences(_half))),
    _mutant(
        "tf32_differences",
        "differences lose 13 mantissa bits",
        Rules(distances=_of_differences(lambda values: _truncated(values, 13))),
    ),
    _mutant("half_sums", "squares are rounded to half and added there", Rules(distances=_half_sums)),
    # Which of the hits, in which order.
    _mutant("nearest_first", "the nearest points in place of the first ones", Rules(listed=_nearest)),
    _mutant("last_ones", "the last nsample points", Rules(listed=lambda hits, _, nsample: hits[-nsample:])),
    _mutant("descending", "from the last index down", Rules(listed=lambda hits, _, nsample: hits[::-1][:nsample])),
    _mutant(
        "first_ones_descending",
        "the right points in reverse",
        Rules(listed=lambda hits, _, nsample: hits[:nsample][::-1]),
    ),
    _mutant(
        "one_too_few",
        "the last entry is never another point",
        Rules(listed=lambda hits, _, nsample: hits[: max(1, nsample - 1)]),
    ),
    _mutant("stops_at_a_gap", "the search ends at the first point outside", Rules(listed=_stops_at_a_gap)),
    _mutant("equal_distances_merged", "of points at one distance the first counts", Rules(listed=_merged)),
    _mutant("ends_at_a_coincident", "the search ends at distance 0", Rules(listed=_up_to_a_coincident)),
    _mutant(
        "counted_in_7_bits",
        "a row lists no more than 127 points",
        Rules(listed=lambda hits, _, nsample: hits[: min(nsample, 127)]),
    ),
    # What else a row holds.
    _mutant("filled_with_last", "the last point is repeated", Rules(row=_filled_with(lambda listed: listed[-1]))),
    _mutant("filled_with_0", "the rest of a row is 0", Rules(row=_filled_with(lambda _: 0))),
    _mutant("filled_with_minus_1", "the rest of a row is −1", Rules(row=_filled_with(lambda _: -1))),
    _mutant("filled_in_turn", "all points are repeated in turn", Rules(row=np.resize)),
    _mutant(
        "rest_not_written",
        "a row ends at its last point",
        Rules(row=_filled_with(lambda _: int.from_bytes(b"\xa5" * 4, "little", signed=True))),
    ),
    _mutant("empty_row_minus_1", "a row without a point is −1", Rules(empty=_set(lambda _: -1))),
    _mutant("empty_row_n", "a row without a point is N", Rules(empty=_set(len))),
    _mutant(
        "empty_row_nearest",
        "a row without a point has the nearest one",
        Rules(empty=_set(lambda d: int(np.argmin(d)))),
    ),
    _mutant("ends_at_an_empty_row", "rows behind an empty one are not reached", Rules(reached=lambda empty: not empty)),
    _mutant("indices_from_1", "indices begin at 1", Rules(entries=lambda entries, _batch, _points: entries + 1)),
    _mutant(
        "batch_in_index",
        "indices count through all batches",
        Rules(entries=lambda entries, batch, points: entries + batch * points),
    ),
    Mutant("empty_row_of_the_one_before", "a row without a point repeats the row before", _row_before),
    _mutant("byte_indices", "indices kept in 8 bits", Rules(entries=lambda entries, _batch, _points: entries & 0xFF)),
    spoilt("samples_first", "idx is written as [B, nsample, M]", _right, _samples_first),
    *tails_left(_right, "idx", 1, "centres", (16, 64, 128)),
    *tails_left(_right, "idx", 2, "samples", (16,)),
    part_left(_right, "idx", 1, "centres"),
    # Which cloud, and how it is cut.
    _mutant(
        "xyz_axes_first",
        "xyz is read as [B, 3, N]",
        Rules(sides=lambda new_xyz, xyz, batch: (new_xyz[batch], _axes_first(xyz)[batch])),
    ),
    _mutant(
        "new_xyz_axes_first",
        "new_xyz is read as [B, 3, M]",
        Rules(sides=lambda new_xyz, xyz, batch: (_axes_first(new_xyz)[batch], xyz[batch])),
    ),
    _mutant(
        "first_cloud",
        "every batch searches the first cloud",
        Rules(sides=lambda new_xyz, xyz, batch: (new_xyz[batch], xyz[0])),
    ),
    _mutant(
        "first_centres",
        "every batch has the first centres",
        Rules(sides=lambda new_xyz, xyz, batch: (new_xyz[0], xyz[batch])),
    ),
    _mutant("swapped", "§1.3's order: new_xyz is the cloud", Rules(sides=_swapped)),
    _mutant(
        "tile_base_lost",
        "indices count within a tile of 64",
        Rules(entries=lambda entries, _batch, _points: entries % _TILE),
    ),
    _mutant("fill_restarted", "each tile fills the row anew", Rules(row=_restarted)),
    _mutant(
        "filled_by_last_tile",
        "the first point of the last tile is repeated",
        Rules(row=_filled_with(lambda listed: _last_tile(listed)[0])),
    ),
    _mutant("tail_dropped", "points behind the last whole tile are lost", Rules(sides=_whole_tiles)),
    _mutant("padding_counts", "the padding of the last tile is points at 0", Rules(sides=_padded)),
    # What another call finds.
    cached_by_shape(_right),
    first_param_kept(_right, "max_radius"),
    first_length_kept(_right, "idx", 1, "centres"),
    input_cleared(_right, "xyz"),
)
