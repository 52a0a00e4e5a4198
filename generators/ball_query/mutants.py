"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status

_TILE = 64
_F32 = np.float32


def _distances(centre: Array, points: Array) -> Array:
    total: Array = np.square(points - centre).sum(axis=1)
    return total


def _inside(distance: Array, low: np.float32, high: np.float32) -> Array:
    inside: Array = (distance == 0) | ((distance >= low) & (distance < high))
    return inside


def _leave(_row: Array, _distance: Array) -> None:
    pass


@dataclass(frozen=True, slots=True)
class _Rules:
    """The right decisions; a mistake replaces one of them."""

    # Coordinates as the arithmetic has them, float32.
    coordinates: Callable[[Array], Array] = lambda coordinates: coordinates.astype(np.float32)
    # Centres and points of a batch: (new_xyz, xyz, batch).
    sides: Callable[[Array, Array, int], tuple[Array, Array]] = lambda new_xyz, xyz, batch: (new_xyz[batch], xyz[batch])
    distances: Callable[[Array, Array], Array] = _distances
    # The bounds that distances are compared with: (min_radius, max_radius).
    bounds: Callable[[np.float32, np.float32], tuple[np.float32, np.float32]] = lambda low, high: (
        low * low,
        high * high,
    )
    inside: Callable[[Array, np.float32, np.float32], Array] = _inside
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


def _apply(rules: _Rules, call: OpCall) -> Status:
    with np.errstate(all="ignore"):
        low, high = rules.bounds(*(_F32(call.param(name)) for name in ("min_radius", "max_radius")))
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


def _mutant(name: str, message: str, rules: _Rules) -> Mutant:
    return Mutant(name, message, lambda call: _apply(rules, call))


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


MUTANTS = (
    # Which points are inside.
    _mutant(
        "coincident_like_any_other",
        "a point at distance 0 counts only where the shell holds it",
        _Rules(inside=lambda distance, low, high: (distance >= low) & (distance < high)),
    ),
    _mutant(
        "coincident_skipped",
        "the centre itself is not a neighbour",
        _Rules(inside=lambda distance, low, high: (distance > 0) & (distance >= low) & (distance < high)),
    ),
    _mutant(
        "coincident_only_in_a_ball",
        "a point at distance 0 counts only if min_radius is 0",
        _Rules(inside=lambda distance, low, high: _inside(distance, low, high) & ((distance > 0) | (low == 0))),
    ),
    _mutant(
        "coincident_not_without_a_ball",
        "max_radius 0 finds nothing",
        _Rules(inside=lambda distance, low, high: _inside(distance, low, high) & (high > 0)),
    ),
    _mutant(
        "inclusive_max",
        "a point on the outer sphere is inside",
        _Rules(inside=lambda distance, low, high: (distance == 0) | ((distance >= low) & (distance <= high))),
    ),
    _mutant(
        "exclusive_min",
        "a point on the inner sphere is outside",
        _Rules(inside=lambda distance, low, high: (distance == 0) | ((distance > low) & (distance < high))),
    ),
    _mutant(
        "min_ignored", "the shell is a ball", _Rules(inside=lambda distance, _, high: _inside(distance, _F32(0), high))
    ),
    _mutant(
        "max_ignored",
        "the shell has no end",
        _Rules(inside=lambda distance, low, _: _inside(distance, low, _F32(np.inf))),
    ),
    _mutant(
        "radii_not_squared", "squared distances are compared with radii", _Rules(bounds=lambda low, high: (low, high))
    ),
    _mutant(
        "diameters", "§1.3: the radii are diameters", _Rules(bounds=lambda low, high: (low * low / 4, high * high / 4))
    ),
    _mutant(
        "radii_sorted",
        "min_radius above max_radius is put right",
        _Rules(bounds=lambda low, high: (min(low, high) ** 2, max(low, high) ** 2)),
    ),
    _mutant(
        "half_radii",
        "the radii are squared in half precision",
        _Rules(bounds=lambda low, high: (_F32(np.float16(low) ** 2), _F32(np.float16(high) ** 2))),
    ),
    _mutant(
        "infinite_radius_refused",
        "a squared radius beyond the largest float holds nothing",
        _Rules(inside=lambda distance, low, high: _inside(distance, low, high) & ((distance == 0) | np.isfinite(high))),
    ),
    _mutant("nan_inside", "what is not outside is inside, NaN too", _Rules(inside=_not_beyond)),
    _mutant(
        "infinite_distance_inside",
        "an infinite distance is below an infinite bound",
        _Rules(
            inside=lambda distance, low, high: (
                _inside(distance, low, high) | (np.isinf(distance) & (distance >= low) & np.isinf(high))
            )
        ),
    ),
    _mutant(
        "nan_becomes_0",
        "coordinates that are not finite count as 0",
        _Rules(coordinates=lambda values: np.nan_to_num(values.astype(np.float32), nan=0, posinf=0, neginf=0)),
    ),
    # Distances.
    _mutant("l1", "distances are sums of differences", _Rules(distances=lambda c, p: np.abs(p - c).sum(axis=1) ** 2)),
    _mutant(
        "largest_difference",
        "distances are the largest difference",
        _Rules(distances=lambda c, p: np.abs(p - c).max(axis=1) ** 2),
    ),
    _mutant("x_dropped", "x does not count", _Rules(distances=lambda c, p: _distances(c[1:], p[:, 1:]))),
    _mutant("y_dropped", "y does not count", _Rules(distances=lambda c, p: _distances(c[::2], p[:, ::2]))),
    _mutant("z_dropped", "z does not count", _Rules(distances=lambda c, p: _distances(c[:2], p[:, :2]))),
    _mutant("expanded", "|u|² + |k|² − 2u·k, which cancels far from the origin", _Rules(distances=_expanded)),
    _mutant("half_coordinates", "coordinates are rounded to half", _Rules(coordinates=_half)),
    _mutant(
        "bf16_coordinates",
        "coordinates lose 16 mantissa bits",
        _Rules(coordinates=lambda values: _truncated(values, 16)),
    ),
    _mutant(
        "tf32_coordinates",
        "coordinates lose 13 mantissa bits",
        _Rules(coordinates=lambda values: _truncated(values, 13)),
    ),
    _mutant("half_differences", "differences are rounded to half", _Rules(distances=_of_differences(_half))),
    _mutant(
        "tf32_differences",
        "differences lose 13 mantissa bits",
        _Rules(distances=_of_differences(lambda values: _truncated(values, 13))),
    ),
    # Which of the hits, in which order.
    _mutant("nearest_first", "the nearest points in place of the first ones", _Rules(listed=_nearest)),
    _mutant("last_ones", "the last nsample points", _Rules(listed=lambda hits, _, nsample: hits[-nsample:])),
    _mutant("descending", "from the last index down", _Rules(listed=lambda hits, _, nsample: hits[::-1][:nsample])),
    _mutant(
        "first_ones_descending",
        "the right points in reverse",
        _Rules(listed=lambda hits, _, nsample: hits[:nsample][::-1]),
    ),
    _mutant(
        "one_too_few",
        "the last entry is never another point",
        _Rules(listed=lambda hits, _, nsample: hits[: max(1, nsample - 1)]),
    ),
    _mutant("stops_at_a_gap", "the search ends at the first point outside", _Rules(listed=_stops_at_a_gap)),
    _mutant("equal_distances_merged", "of points at one distance the first counts", _Rules(listed=_merged)),
    # What else a row holds.
    _mutant("filled_with_last", "the last point is repeated", _Rules(row=_filled_with(lambda listed: listed[-1]))),
    _mutant("filled_with_0", "the rest of a row is 0", _Rules(row=_filled_with(lambda _: 0))),
    _mutant("filled_with_minus_1", "the rest of a row is −1", _Rules(row=_filled_with(lambda _: -1))),
    _mutant("filled_in_turn", "all points are repeated in turn", _Rules(row=np.resize)),
    _mutant(
        "rest_not_written",
        "a row ends at its last point",
        _Rules(row=_filled_with(lambda _: int.from_bytes(b"\xa5" * 4, "little", signed=True))),
    ),
    _mutant("empty_row_minus_1", "a row without a point is −1", _Rules(empty=_set(lambda _: -1))),
    _mutant("empty_row_n", "a row without a point is N", _Rules(empty=_set(len))),
    _mutant(
        "empty_row_nearest",
        "a row without a point has the nearest one",
        _Rules(empty=_set(lambda d: int(np.argmin(d)))),
    ),
    _mutant(
        "ends_at_an_empty_row", "rows behind an empty one are not reached", _Rules(reached=lambda empty: not empty)
    ),
    _mutant("indices_from_1", "indices begin at 1", _Rules(entries=lambda entries, _batch, _points: entries + 1)),
    _mutant(
        "batch_in_index",
        "indices count through all batches",
        _Rules(entries=lambda entries, batch, points: entries + batch * points),
    ),
    # Which cloud, and how it is cut.
    _mutant(
        "first_cloud",
        "every batch searches the first cloud",
        _Rules(sides=lambda new_xyz, xyz, batch: (new_xyz[batch], xyz[0])),
    ),
    _mutant(
        "first_centres",
        "every batch has the first centres",
        _Rules(sides=lambda new_xyz, xyz, batch: (new_xyz[0], xyz[batch])),
    ),
    _mutant("swapped", "§1.3's order: new_xyz is the cloud", _Rules(sides=_swapped)),
    _mutant(
        "tile_base_lost",
        "indices count within a tile of 64",
        _Rules(entries=lambda entries, _batch, _points: entries % _TILE),
    ),
    _mutant("fill_restarted", "each tile fills the row anew", _Rules(row=_restarted)),
    _mutant(
        "filled_by_last_tile",
        "the first point of the last tile is repeated",
        _Rules(row=_filled_with(lambda listed: _last_tile(listed)[0])),
    ),
    _mutant("tail_dropped", "points behind the last whole tile are lost", _Rules(sides=_whole_tiles)),
    _mutant("padding_counts", "the padding of the last tile is points at 0", _Rules(sides=_padded)),
)
