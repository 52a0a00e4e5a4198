"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.mistakes import cached_by_shape, first_length_kept, input_cleared, part_left, tails_left

# The right search in steps that can be replaced one by one; mutants do.


INFINITY = np.float32(np.inf)


def differences(unknown: Array, known: Array) -> Array:
    """[N, M, 3]."""
    result: Array = unknown[:, None] - known
    return result


def sum_of_squares(values: Array) -> Array:
    """Of the three along the last axis."""
    x, y, z = np.moveaxis(values, -1, 0)
    result: Array = x * x + y * y + z * z
    return result


def distances(unknown: Array, known: Array) -> Array:
    """[N, M]."""
    return sum_of_squares(differences(unknown, known))


def ascending(squared: Array) -> Array:
    """[N, M]: all known points, the nearest first, of equals the one that comes first."""
    return np.argsort(squared, axis=1, kind="stable")


def filled(dist2: Array, idx: Array, _: Array) -> tuple[Array, Array]:
    """What stands where there is no neighbour."""
    return dist2, np.where(np.isfinite(dist2), idx, 0)


def write(call: OpCall, batch: int, dist2: Array, idx: Array) -> None:
    """The results of a batch."""
    call.array("dist2")[batch], call.array("idx")[batch] = dist2, idx


@dataclass(frozen=True, slots=True)
class Steps:
    """Everything at once and in float32: all distances, sorted. A mistake replaces one step."""

    # The coordinates [B, N, 3] and [B, M, 3] to compute with.
    clouds: Callable[[Array, Array], tuple[Array, Array]] = lambda unknown, known: (unknown, known)
    distances: Callable[[Array, Array], Array] = distances
    # Distances [N, M], +Inf where there is none.
    valid: Callable[[Array], Array] = lambda squared: np.fmin(squared, INFINITY)
    order: Callable[[Array], Array] = ascending
    # (dist2 [N, 3], idx [N, 3], all distances): +Inf and the first indices at hand where there are fewer.
    filled: Callable[[Array, Array, Array], tuple[Array, Array]] = filled
    # (idx, known points in the batches before) → the indices of neighbours as they are reported.
    named: Callable[[Array, int], Array] = lambda idx, _: idx
    write: Callable[[OpCall, int, Array, Array], None] = write


def apply(steps: Steps, call: OpCall) -> Status:
    """Write both outputs of a valid call by these steps."""
    unknown, known = steps.clouds(call.array("unknown").astype("<f4"), call.array("known").astype("<f4"))
    for batch, (queries, points) in enumerate(zip(unknown, known, strict=True)):
        squared = steps.valid(steps.distances(queries, points))
        order = steps.order(squared)[:, :3]
        dist2, idx = np.full((len(squared), 3), INFINITY), np.zeros((len(squared), 3), np.int64)
        idx[:, : order.shape[1]] = order
        dist2[:, : order.shape[1]] = np.take_along_axis(squared, order, axis=1)
        dist2, idx = steps.filled(dist2, idx, squared)
        steps.write(call, batch, dist2, np.where(np.isfinite(dist2), steps.named(idx, batch * len(points)), idx))
    return Status.SUCCESS


# What kernels cut axes into.
_TILE: Final = 64
_LARGEST: Final = float(np.finfo(np.float32).max)

_right = partial(apply, Steps())


def _wrong(name: str, message: str, steps: Steps) -> Mutant:
    return Mutant(name, message, partial(apply, steps))


# Which clouds.


def _axes_first(cloud: Array) -> Array:
    batches, points, _ = cloud.shape
    return cloud.reshape(batches, 3, points).swapaxes(1, 2)


def _first_batch(cloud: Array) -> Array:
    return np.broadcast_to(cloud[:1], cloud.shape)


def _exchanged(unknown: Array, known: Array) -> tuple[Array, Array]:
    """The nearest unknown points of the known ones, as far as they go."""
    return known[:, np.arange(unknown.shape[1]) % known.shape[1]], unknown


def _padded(unknown: Array, known: Array) -> tuple[Array, Array]:
    """Up to a whole vector of 8, with points at 0."""
    return unknown, np.pad(known, ((0, 0), (0, -known.shape[1] % 8), (0, 0)))


def _both(change: Callable[[Array], Array]) -> Callable[[Array, Array], tuple[Array, Array]]:
    return lambda unknown, known: (change(unknown), change(known))


def _cleared(cloud: Array) -> Array:
    return np.where(np.isnan(cloud), np.float32(0), cloud)


def _rounded(bits: int) -> Callable[[Array], Array]:
    """To the nearest with so many bits of mantissa behind the point; 7 is bfloat16, 10 is tf32 and half."""
    dropped = np.uint32(23 - bits)

    def shorten(values: Array) -> Array:
        pattern = values.astype("<f4").view("<u4")
        nearest = ((pattern + (np.uint32(1) << (dropped - np.uint32(1)))) >> dropped) << dropped
        return np.where(np.isfinite(values), nearest.astype("<u4").view("<f4"), values)

    return shorten


# Which distance.


def _of_differences(distance: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda unknown, known: distance(differences(unknown, known))


def _without(axis: int) -> Callable[[Array], Array]:
    return lambda values: sum_of_squares(np.where(np.arange(3) == axis, np.float32(0), values))


def _multiplied_out(unknown: Array, known: Array) -> Array:
    """|u|² + |k|² − 2u·k."""
    squares = sum_of_squares(unknown)[:, None] + sum_of_squares(known)
    products = sum(unknown[:, axis, None] * known[:, axis] for axis in range(3))
    squared: Array = np.maximum(squares - 2 * products, np.float32(0))
    return squared


def _in_half(unknown: Array, known: Array) -> Array:
    squares = np.square(differences(unknown, known)).astype(np.float16)
    total: Array = (squares[..., 0] + squares[..., 1]) + squares[..., 2]
    return total.astype(np.float32)


# Which points are looked at: distances of others become +Inf.


def _only(seen: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda squared: np.where(seen(squared), np.fmin(squared, INFINITY), INFINITY)


def _place(squared: Array) -> Array:
    return np.arange(squared.shape[1])


def _before_a_coincident(squared: Array) -> Array:
    coincident = squared == 0
    first: Array = np.cumsum(coincident, axis=1) - coincident == 0
    return first


def _nearest_of_tiles(squared: Array) -> Array:
    """bool [N, M]: of every tile its nearest point."""
    seen = np.zeros(squared.shape, bool)
    for first in range(0, squared.shape[1], _TILE):
        tile = np.fmin(squared[:, first : first + _TILE], INFINITY)
        seen[np.arange(len(squared)), first + tile.argmin(axis=1)] = True
    return seen


# Which order.


def _last_of_equals(squared: Array) -> Array:
    backwards: Array = squared.shape[1] - 1 - ascending(squared[:, ::-1])
    return backwards


def _equals_merged(squared: Array) -> Array:
    order = ascending(squared)
    ranked = np.take_along_axis(squared, order, axis=1)
    repeated = np.diff(ranked, axis=1, prepend=np.float32(-1)) == 0
    return np.take_along_axis(order, np.argsort(repeated, axis=1, kind="stable"), axis=1)


def _later_tile_first(squared: Array) -> Array:
    place = _place(squared)
    keys = np.broadcast_to(-(place // _TILE), squared.shape)
    return np.lexsort((np.broadcast_to(place, squared.shape), keys, squared), axis=1)


def _without_shift(squared: Array) -> Array:
    """A new nearest replaces the old one, which does not become the second."""
    rows = np.arange(len(squared))
    best = np.full((len(squared), 3), INFINITY)
    place = np.tile(ascending(squared)[:, -1:], 3)
    for point, distance in enumerate(squared.T):
        rank = (distance[:, None] >= best).sum(axis=1)
        better = rank < 3
        best[rows[better], rank[better]], place[rows[better], rank[better]] = distance[better], point
    return place


# What is reported.


def _then(
    change: Callable[[Array, Array], tuple[Array, Array]],
) -> Callable[[Array, Array, Array], tuple[Array, Array]]:
    """The right answer, changed."""
    return lambda dist2, idx, squared: change(*filled(dist2, idx, squared))


def _where_missing(
    value: float | None = None, index: Callable[[Array], Array | int] | None = None
) -> Callable[[Array, Array, Array], tuple[Array, Array]]:
    """Another distance, or another index by all distances, where there is no neighbour."""

    def fill(dist2: Array, idx: Array, squared: Array) -> tuple[Array, Array]:
        missing = ~np.isfinite(dist2)
        dist2, idx = filled(dist2, idx, squared)
        if value is not None:
            dist2 = np.where(missing, np.float32(value), dist2)
        return dist2, idx if index is None else np.where(missing, index(squared), idx)

    return fill


def _repeated(dist2: Array, idx: Array) -> tuple[Array, Array]:
    missing = ~np.isfinite(dist2)
    return np.where(missing, dist2[:, :1], dist2), np.where(missing, idx[:, :1], idx)


def _by_index(dist2: Array, idx: Array) -> tuple[Array, Array]:
    order = np.argsort(np.where(np.isfinite(dist2), idx, np.iinfo(np.int64).max), axis=1, kind="stable")
    return np.take_along_axis(dist2, order, axis=1), np.take_along_axis(idx, order, axis=1)


def _nearest_of_first_tile(squared: Array) -> Array | int:
    return squared[:, :_TILE].argmin(axis=1)[:, None] if squared.shape[1] > _TILE else 0


# What is written.


def _whole_tiles(call: OpCall, batch: int, dist2: Array, idx: Array) -> None:
    whole = len(dist2) // _TILE * _TILE or len(dist2)
    call.array("dist2")[batch, :whole], call.array("idx")[batch, :whole] = dist2[:whole], idx[:whole]


def _first_alone(call: OpCall, batch: int, dist2: Array, idx: Array) -> None:
    call.array("dist2")[batch, :, :1], call.array("idx")[batch, :, :1] = dist2[:, :1], idx[:, :1]


def _ranks_first(call: OpCall, batch: int, dist2: Array, idx: Array) -> None:
    write(call, batch, dist2.T.reshape(dist2.shape), idx.T.reshape(idx.shape))


def _distances_alone(call: OpCall, batch: int, dist2: Array, _: Array) -> None:
    call.array("dist2")[batch] = dist2


MUTANTS: Final = (
    # Which clouds.
    _wrong("swapped", "unknown and known are exchanged", Steps(clouds=_exchanged)),
    _wrong("known_axes_first", "known read as [B, 3, M]", Steps(clouds=lambda u, k: (u, _axes_first(k)))),
    _wrong("unknown_axes_first", "unknown read as [B, 3, N]", Steps(clouds=lambda u, k: (_axes_first(u), k))),
    _wrong(
        "first_batch_known",
        "every batch searches the known points of batch 0",
        Steps(clouds=lambda u, k: (u, _first_batch(k))),
    ),
    _wrong(
        "first_batch_unknown",
        "every batch asks for the unknown points of batch 0",
        Steps(clouds=lambda u, k: (_first_batch(u), k)),
    ),
    _wrong("padding_counts", "padding is taken for points at the origin", Steps(clouds=_padded)),
    _wrong("nan_is_zero", "NaN coordinates count as 0", Steps(clouds=_both(_cleared))),
    _wrong("bfloat16_coordinates", "coordinates are rounded to 8 bits", Steps(clouds=_both(_rounded(7)))),
    _wrong("tf32_coordinates", "coordinates are rounded to 11 bits", Steps(clouds=_both(_rounded(10)))),
    # Which distance.
    _wrong("root", "distances instead of their squares", Steps(filled=_then(lambda d, i: (np.sqrt(d), i)))),
    _wrong("manhattan", "sum of differences", Steps(distances=_of_differences(lambda v: np.abs(v).sum(axis=-1)))),
    _wrong(
        "largest",
        "square of the largest difference",
        Steps(distances=_of_differences(lambda v: np.square(np.abs(v).max(axis=-1)))),
    ),
    _wrong("x_dropped", "x does not count", Steps(distances=_of_differences(_without(0)))),
    _wrong("y_dropped", "y does not count", Steps(distances=_of_differences(_without(1)))),
    _wrong("z_dropped", "z does not count", Steps(distances=_of_differences(_without(2)))),
    _wrong(
        "bfloat16_differences",
        "differences are rounded to 8 bits",
        Steps(distances=_of_differences(lambda v: sum_of_squares(_rounded(7)(v)))),
    ),
    _wrong(
        "tf32_differences",
        "differences are rounded to 11 bits",
        Steps(distances=_of_differences(lambda v: sum_of_squares(_rounded(10)(v)))),
    ),
    _wrong("half_sums", "squares are rounded to half and added there", Steps(distances=_in_half)),
    _wrong("expanded", "the square is multiplied out", Steps(distances=_multiplied_out)),
    # Which points are looked at.
    _wrong("coincident_skipped", "a known point at distance 0 is left out", Steps(valid=_only(lambda s: s != 0))),
    _wrong("ends_at_a_coincident", "the search ends at distance 0", Steps(valid=_only(_before_a_coincident))),
    _wrong("first_known_skipped", "the search begins at known point 1", Steps(valid=_only(lambda s: _place(s) > 0))),
    _wrong(
        "last_known_skipped",
        "the search ends before known point M − 1",
        Steps(valid=_only(lambda s: _place(s) < s.shape[1] - 1)),
    ),
    _wrong(
        "known_tail_dropped",
        "known points behind the last whole tile of 64 are lost",
        Steps(valid=_only(lambda s: _place(s) < (s.shape[1] // _TILE * _TILE or s.shape[1]))),
    ),
    _wrong(
        "last_tile_alone",
        "each tile of 64 known points forgets what the tiles before found",
        Steps(valid=_only(lambda s: _place(s) >= (s.shape[1] - 1) // _TILE * _TILE)),
    ),
    _wrong(
        "one_of_each_tile",
        "each tile of 64 known points gives its nearest alone",
        Steps(valid=_only(_nearest_of_tiles)),
    ),
    _wrong("starts_at_1e10", "distances above 1e10 are not found", Steps(valid=_only(lambda s: s < 1e10))),
    # Which order.
    _wrong("last_of_equals", "of equal distances the highest index comes first", Steps(order=_last_of_equals)),
    _wrong("equals_merged", "equal distances are reported once", Steps(order=_equals_merged)),
    _wrong("later_tile_wins", "of equal distances in two tiles the later comes first", Steps(order=_later_tile_first)),
    _wrong(
        "one_thrice", "the nearest point is reported three times", Steps(order=lambda s: ascending(s)[:, [0, 0, 0]])
    ),
    _wrong("without_shift", "a new nearest point does not make the old one the second", Steps(order=_without_shift)),
    _wrong("farthest", "the three farthest points", Steps(order=lambda s: ascending(-s))),
    _wrong(
        "descending",
        "the three nearest are ordered downwards",
        Steps(filled=_then(lambda d, i: (d[:, ::-1], i[:, ::-1]))),
    ),
    _wrong("by_index", "the three nearest are ordered by index", Steps(filled=_then(_by_index))),
    _wrong(
        "orders_differ",
        "dist2 is ordered by distance, idx by index",
        Steps(filled=_then(lambda d, i: (d, np.sort(i, axis=1)))),
    ),
    # What stands for a missing neighbour.
    _wrong("missing_dist2_0", "a missing neighbour has distance 0", Steps(filled=_where_missing(0))),
    _wrong(
        "missing_dist2_largest", "a missing neighbour has the largest float", Steps(filled=_where_missing(_LARGEST))
    ),
    _wrong("missing_idx_minus_1", "a missing neighbour has index -1", Steps(filled=_where_missing(index=lambda _: -1))),
    _wrong(
        "missing_idx_m", "a missing neighbour has index M", Steps(filled=_where_missing(index=lambda s: s.shape[1]))
    ),
    _wrong("missing_repeated", "a missing neighbour repeats the nearest", Steps(filled=_then(_repeated))),
    _wrong(
        "missing_from_first_tile",
        "a missing neighbour has the first tile's index",
        Steps(filled=_where_missing(index=_nearest_of_first_tile)),
    ),
    _wrong(
        "infinite_counts", "a point at distance +Inf is reported with its index", Steps(filled=lambda d, i, _: (d, i))
    ),
    _wrong("nan_kept", "NaN distances are reported", Steps(valid=lambda squared: squared)),
    _wrong(
        "nan_first",
        "NaN is the smallest distance",
        Steps(valid=lambda s: s, order=lambda s: ascending(np.where(np.isnan(s), np.float32(-1), s))),
    ),
    # Which index.
    _wrong("batch_offset", "indices count through all batches", Steps(named=lambda idx, base: idx + base)),
    _wrong("from_one", "indices count from 1", Steps(named=lambda idx, _: idx + 1)),
    _wrong("tile_base_lost", "indices count within a tile of 64", Steps(named=lambda idx, _: idx % _TILE)),
    _wrong("byte_indices", "indices kept in 8 bits", Steps(named=lambda idx, _: idx & 0xFF)),
    # What is written.
    _wrong("unknown_tail_lost", "unknown points behind the last whole tile of 64 are lost", Steps(write=_whole_tiles)),
    _wrong("first_only", "only the nearest is written", Steps(write=_first_alone)),
    _wrong("ranks_first", "dist2 and idx are written as [B, 3, N]", Steps(write=_ranks_first)),
    _wrong("idx_left", "only dist2 is written", Steps(write=_distances_alone)),
    *tails_left(_right, "idx", 1, "unknown", (16, 128)),
    part_left(_right, "dist2", 1, "unknown"),
    # What another call finds.
    cached_by_shape(_right),
    first_length_kept(_right, "dist2", 1, "unknown"),
    input_cleared(_right, "known"),
)
