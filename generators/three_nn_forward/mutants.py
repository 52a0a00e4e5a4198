"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status, mistakes

from .._shared.interpolation import shortened
from .._shared.points import axes_first, first_batch

INFINITY: Final = np.float32(np.inf)
# What kernels cut axes into.
_TILE: Final = 64
_LARGEST: Final = np.finfo(np.float32).max
Clouds = tuple[Array, Array]


def sum_of_squares(values: Array) -> Array:
    """Of the three along the last axis."""
    x, y, z = np.moveaxis(values, -1, 0)
    result: Array = x * x + y * y + z * z
    return result


def ascending(squared: Array) -> Array:
    """[N, M]: all known points, the nearest first, of equals the one that comes first."""
    return np.argsort(squared, axis=1, kind="stable")


def between(distance: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    """[N, M]: the distance of every pair by its differences [N, M, 3]."""
    return lambda unknown, known: distance(unknown[:, None] - known)


def where_found(dist2: Array, values: Array, missing: Array | float) -> Array:
    """The values where there is a neighbour, and what stands where there is none."""
    return np.where(np.isfinite(dist2), values, missing)


def search(
    call: OpCall,
    *,
    # The coordinates [B, N, 3] and [B, M, 3] to compute with.
    clouds: Callable[[Array, Array], Clouds] = lambda unknown, known: (unknown, known),
    distances: Callable[[Array, Array], Array] = lambda unknown, known: sum_of_squares(unknown[:, None] - known),
    # Distances [N, M], +Inf where there is none.
    valid: Callable[[Array], Array] = lambda squared: np.fmin(squared, INFINITY),
    order: Callable[[Array], Array] = ascending,
    # Indices [N, 3], by distances [N, 3]: the first at hand stand where there are fewer.
    filled: Callable[[Array, Array], Array] = lambda dist2, idx: where_found(dist2, idx, 0),
    # Both results, by all distances.
    result: Callable[[Array, Array, Array], tuple[Array, Array]] = lambda dist2, idx, _: (dist2, idx),
    # (idx, known points in the batches before) → the indices of neighbours as they are reported.
    named: Callable[[Array, int], Array] = lambda idx, _: idx,
    # Which part of [N, 3] is written.
    part: Callable[[int], Any] = lambda _: ...,
) -> Status:
    """Everything at once and in float32: all distances, sorted; a mistake replaces one step."""
    unknown, known = clouds(call.array("unknown").astype("<f4"), call.array("known").astype("<f4"))
    for batch, (queries, points) in enumerate(zip(unknown, known, strict=True)):
        squared = valid(distances(queries, points))
        best = order(squared)[:, :3]
        dist2, idx = np.full((len(squared), 3), INFINITY), np.zeros((len(squared), 3), np.int64)
        idx[:, : best.shape[1]] = best
        dist2[:, : best.shape[1]] = np.take_along_axis(squared, best, axis=1)
        dist2, idx = result(dist2, filled(dist2, idx), squared)
        idx, places = where_found(dist2, named(idx, batch * len(points)), idx), part(len(dist2))
        call.array("dist2")[batch][places], call.array("idx")[batch][places] = dist2[places], idx[places]
    return Status.SUCCESS


def whole_tiles(length: int) -> int:
    """How many there are in whole tiles; all where there is none."""
    return length // _TILE * _TILE or length


def _wrong(name: str, message: str, **steps: Any) -> Mutant:
    return Mutant(name, message, partial(search, **steps))


def _both(change: Callable[[Array], Array]) -> Callable[[Array, Array], Clouds]:
    return lambda unknown, known: (change(unknown), change(known))


def _without(axis: int) -> Callable[[Array, Array], Array]:
    return between(lambda values: sum_of_squares(np.where(np.arange(3) == axis, np.float32(0), values)))


def _rounded(bits: int) -> Callable[[Array, Array], Array]:
    return between(lambda values: sum_of_squares(shortened(values, bits)))


def _multiplied_out(unknown: Array, known: Array) -> Array:
    """|u|² + |k|² − 2u·k."""
    squares = sum_of_squares(unknown)[:, None] + sum_of_squares(known)
    squared: Array = np.maximum(squares - 2 * np.einsum("na,ma->nm", unknown, known), np.float32(0))
    return squared


def _in_half(values: Array) -> Array:
    squares = np.square(values).astype(np.float16)
    total: Array = (squares[..., 0] + squares[..., 1]) + squares[..., 2]
    return total.astype(np.float32)


def _only(seen: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Points that are not looked at: their distances become +Inf."""
    return lambda squared: np.where(seen(squared), np.fmin(squared, INFINITY), INFINITY)


def _at(seen: Callable[[Array, int], Array]) -> Callable[[Array], Array]:
    """By the index of a known point, and their number."""
    return _only(lambda squared: seen(np.arange(squared.shape[1]), squared.shape[1]))


def _nearest_of_tiles(squared: Array) -> Array:
    """bool [N, M]: of every tile its nearest point."""
    seen = np.zeros(squared.shape, bool)
    for first in range(0, squared.shape[1], _TILE):
        tile = np.fmin(squared[:, first : first + _TILE], INFINITY)
        seen[np.arange(len(squared)), first + tile.argmin(axis=1)] = True
    return seen


def _equals_merged(squared: Array) -> Array:
    order = ascending(squared)
    ranked = np.take_along_axis(squared, order, axis=1)
    repeated = np.diff(ranked, axis=1, prepend=np.float32(-1)) == 0
    return np.take_along_axis(order, ascending(repeated), axis=1)


def _later_tile_first(squared: Array) -> Array:
    place = np.broadcast_to(np.arange(squared.shape[1]), squared.shape)
    return np.lexsort((place, -(place // _TILE), squared), axis=1)


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


def _by_index(dist2: Array, idx: Array, _: Array) -> tuple[Array, Array]:
    order = ascending(where_found(dist2, idx, np.iinfo(np.int64).max))
    return np.take_along_axis(dist2, order, axis=1), np.take_along_axis(idx, order, axis=1)


def _missing(index: Callable[[Array], Array | int]) -> Callable[[Array, Array, Array], tuple[Array, Array]]:
    """Another index by all distances where there is no neighbour."""
    return lambda dist2, idx, squared: (dist2, where_found(dist2, idx, index(squared)))


def _of_first_tile(squared: Array) -> Array | int:
    return squared[:, :_TILE].argmin(axis=1)[:, None] if squared.shape[1] > _TILE else 0


MUTANTS: Final = (
    # Which clouds.
    _wrong("swapped", "both are exchanged", clouds=lambda u, k: (k[:, np.arange(u.shape[1]) % k.shape[1]], u)),
    _wrong("known_axes_first", "known read as [B, 3, M]", clouds=lambda u, k: (u, axes_first(k))),
    _wrong("unknown_axes_first", "unknown read as [B, 3, N]", clouds=lambda u, k: (axes_first(u), k)),
    _wrong("first_batch_known", "every batch searches the points of batch 0", clouds=lambda u, k: (u, first_batch(k))),
    _wrong("first_batch_unknown", "every batch asks for those of batch 0", clouds=lambda u, k: (first_batch(u), k)),
    _wrong(
        "padding_counts",
        "what pads known to whole vectors of 8 is taken for points at the origin",
        clouds=lambda u, k: (u, np.pad(k, ((0, 0), (0, -k.shape[1] % 8), (0, 0)))),
    ),
    _wrong("nan_is_zero", "NaN counts as 0", clouds=_both(lambda c: np.where(np.isnan(c), np.float32(0), c))),
    _wrong("bfloat16_coordinates", "coordinates are rounded to 8 bits", clouds=_both(lambda c: shortened(c, 8))),
    _wrong("tf32_coordinates", "coordinates are rounded to 11 bits", clouds=_both(lambda c: shortened(c, 11))),
    # Which distance.
    _wrong("root", "distances instead of their squares", result=lambda d, i, _: (np.sqrt(d), i)),
    _wrong("manhattan", "sum of differences", distances=between(lambda v: np.abs(v).sum(axis=-1))),
    _wrong("largest", "square of the largest difference", distances=between(lambda v: np.square(v).max(axis=-1))),
    *(_wrong(f"{name}_dropped", f"{name} does not count", distances=_without(axis)) for axis, name in enumerate("xyz")),
    _wrong("bfloat16_differences", "differences are rounded to 8 bits", distances=_rounded(8)),
    _wrong("tf32_differences", "differences are rounded to 11 bits", distances=_rounded(11)),
    _wrong("half_sums", "squares are rounded to half and added there", distances=between(_in_half)),
    _wrong("expanded", "the square is multiplied out", distances=_multiplied_out),
    # Which points are looked at.
    _wrong("coincident_skipped", "a known point at distance 0 is left out", valid=_only(lambda s: s != 0)),
    _wrong(
        "ends_at_a_coincident",
        "the search ends at distance 0",
        valid=_only(lambda s: np.cumsum(s == 0, axis=1) == (s == 0)),
    ),
    _wrong("first_known_skipped", "the search begins at known point 1", valid=_at(lambda at, _: at > 0)),
    _wrong("last_known_skipped", "it ends before known point M − 1", valid=_at(lambda at, m: at < m - 1)),
    _wrong(
        "known_tail_dropped", "those behind the last tile of 64 are lost", valid=_at(lambda at, m: at < whole_tiles(m))
    ),
    _wrong("last_tile_alone", "tiles forget those before", valid=_at(lambda at, m: at // _TILE == (m - 1) // _TILE)),
    _wrong("one_of_each_tile", "each tile of 64 known points gives its nearest alone", valid=_only(_nearest_of_tiles)),
    _wrong("starts_at_1e10", "distances above 1e10 are not found", valid=_only(lambda s: s < 1e10)),
    # Which order.
    _wrong(
        "last_of_equals",
        "of equal distances the highest index comes first",
        order=lambda s: s.shape[1] - 1 - ascending(s[:, ::-1]),
    ),
    _wrong("equals_merged", "equal distances are reported once", order=_equals_merged),
    _wrong("later_tile_wins", "of equal distances in two tiles the later comes first", order=_later_tile_first),
    _wrong("one_thrice", "the nearest point is reported three times", order=lambda s: ascending(s)[:, [0, 0, 0]]),
    _wrong("without_shift", "a new nearest point does not make the old one the second", order=_without_shift),
    _wrong("farthest", "the three farthest points", order=lambda s: ascending(-s)),
    _wrong("descending", "the nearest are ordered downwards", result=lambda d, i, _: (d[:, ::-1], i[:, ::-1])),
    _wrong("by_index", "the three nearest are ordered by index", result=_by_index),
    _wrong("orders_differ", "dist2 by distance, idx by index", result=lambda d, i, _: (d, np.sort(i, axis=1))),
    # What stands for a missing neighbour.
    _wrong("missing_dist2_0", "a missing one has distance 0", result=lambda d, i, _: (where_found(d, d, 0), i)),
    _wrong(
        "missing_dist2_largest", "a missing one has the largest float", result=lambda d, i, _: (np.fmin(d, _LARGEST), i)
    ),
    _wrong("missing_idx_minus_1", "a missing neighbour has index -1", result=_missing(lambda _: -1)),
    _wrong("missing_idx_m", "a missing neighbour has index M", result=_missing(lambda s: s.shape[1])),
    _wrong(
        "missing_repeated",
        "a missing neighbour repeats the nearest",
        result=lambda d, i, _: (where_found(d, d, d[:, :1]), where_found(d, i, i[:, :1])),
    ),
    _wrong("missing_from_first_tile", "a missing one has the first tile's index", result=_missing(_of_first_tile)),
    _wrong("infinite_counts", "a point at distance +Inf is reported with its index", filled=lambda _, i: i),
    _wrong("nan_kept", "NaN distances are reported", valid=lambda squared: squared),
    _wrong(
        "nan_first",
        "NaN is the smallest distance",
        valid=lambda squared: squared,
        order=lambda s: ascending(np.where(np.isnan(s), np.float32(-1), s)),
    ),
    # Which index.
    _wrong("batch_offset", "indices count through all batches", named=lambda idx, base: idx + base),
    _wrong("from_one", "indices count from 1", named=lambda idx, _: idx + 1),
    _wrong("tile_base_lost", "indices count within a tile of 64", named=lambda idx, _: idx % _TILE),
    _wrong("byte_indices", "indices kept in 8 bits", named=lambda idx, _: idx & 0xFF),
    # What is written.
    _wrong("unknown_tail_lost", "nothing behind the last tile of 64", part=lambda n: slice(whole_tiles(n))),
    _wrong("first_only", "only the nearest is written", part=lambda _: np.s_[:, :1]),
    _wrong(
        "ranks_first",
        "dist2 and idx are written as [B, 3, N]",
        result=lambda d, i, _: (d.T.reshape(d.shape), i.T.reshape(i.shape)),
    ),
    mistakes.left("idx_left", "only dist2 is written", search, "idx", lambda _: ...),
    *mistakes.tails_left(search, "idx", 1, "unknown", (16, 128)),
    mistakes.part_left(search, "dist2", 1, "unknown"),
    # What another call finds.
    mistakes.cached_by_shape(search),
    mistakes.first_length_kept(search, "dist2", 1, "unknown"),
    mistakes.input_cleared(search, "known"),
)
