"""Implementations with one plausible mistake each; the small cases must catch every one."""

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status

from .search import Search

TILE = 64


class Root(Search):
    """The framework's wrapper takes the root."""

    def found(self, squared: Array, order: Array) -> tuple[Array, Array]:
        dist2, idx = super().found(squared, order)
        return np.sqrt(dist2), idx


class LastOfEquals(Search):
    """`<=` where `<` is meant."""

    def order(self, squared: Array) -> Array:
        backwards: Array = squared.shape[1] - 1 - super().order(squared[:, ::-1])
        return backwards


class EqualsMerged(Search):
    """A set of distances: equal ones are one."""

    def order(self, squared: Array) -> Array:
        order = super().order(squared)
        ranked = np.take_along_axis(squared, order, axis=1)
        repeated = np.diff(ranked, axis=1, prepend=np.float32(-1)) == 0
        return np.take_along_axis(order, np.argsort(repeated, axis=1, kind="stable"), axis=1)


class LaterTileWins(Search):
    """Tiles are merged with `<=`."""

    def order(self, squared: Array) -> Array:
        place = np.arange(squared.shape[1])
        keys = np.broadcast_to(-(place // TILE), squared.shape)
        return np.lexsort((np.broadcast_to(place, squared.shape), keys, squared), axis=1)


class BatchOffset(Search):
    """Indices into all batches."""

    def named(self, idx: Array, base: int) -> Array:
        return idx + base


class FromOne(Search):
    """Indices counted from 1."""

    def named(self, idx: Array, base: int) -> Array:
        return super().named(idx, base) + 1


class TileBaseLost(Search):
    """§3.1's listing: indices count within the tile."""

    def named(self, idx: Array, base: int) -> Array:
        return super().named(idx, base) % TILE


class FirstBatchKnown(Search):
    """All batches search the first cloud."""

    def clouds(self, unknown: Array, known: Array) -> tuple[Array, Array]:
        return unknown, known[:1]


class Swapped(Search):
    """The nearest unknown points of the known ones, as far as they go."""

    def run(self, call: OpCall) -> Status:
        unknown, known = call.array("unknown").astype("<f4"), call.array("known").astype("<f4")
        for batch in range(len(unknown)):
            squared = self.squared(known[batch], unknown[batch])
            dist2, idx = self.found(squared, self.order(squared))
            rows = np.arange(unknown.shape[1]) % len(dist2)
            self.write(call, batch, dist2[rows], idx[rows])
        return Status.SUCCESS


class Manhattan(Search):
    """|x| + |y| + |z|."""

    def distance(self, difference: Array) -> Array:
        x, y, z = np.moveaxis(np.abs(difference), -1, 0)
        distance: Array = x + y + z
        return distance


class Largest(Search):
    """max(x², y², z²)."""

    def distance(self, difference: Array) -> Array:
        x, y, z = np.moveaxis(np.square(difference), -1, 0)
        largest: Array = np.maximum(np.maximum(x, y), z)
        return largest


class AxisDropped(Search):
    """Two coordinates decide."""

    def __init__(self, axis: int) -> None:
        self.axis = axis

    def distance(self, difference: Array) -> Array:
        return super().distance(np.where(np.arange(3) == self.axis, np.float32(0), difference))


class CoincidentSkipped(Search):
    """A point is not its own neighbour."""

    def squared(self, unknown: Array, known: Array) -> Array:
        squared = super().squared(unknown, known)
        return np.where(squared == 0, np.float32(np.inf), squared)


class KnownTailDropped(Search):
    """Whole tiles of known points only, where there is more than one."""

    def squared(self, unknown: Array, known: Array) -> Array:
        squared = super().squared(unknown, known)
        whole = len(known) // TILE * TILE or len(known)
        squared[:, whole:] = np.inf
        return squared


class UnknownTailLost(Search):
    """Whole tiles of unknown points only, where there is more than one."""

    def write(self, call: OpCall, batch: int, dist2: Array, idx: Array) -> None:
        whole = len(dist2) // TILE * TILE or len(dist2)
        call.array("dist2")[batch, :whole], call.array("idx")[batch, :whole] = dist2[:whole], idx[:whole]


class PaddingCounts(Search):
    """Padding up to a whole vector of 8 is taken for points at 0."""

    def clouds(self, unknown: Array, known: Array) -> tuple[Array, Array]:
        return unknown, np.pad(known, ((0, 0), (0, -known.shape[1] % 8), (0, 0)))


class ByIndex(Search):
    """The right three, ordered by index."""

    def filled(self, dist2: Array, idx: Array) -> tuple[Array, Array]:
        dist2, idx = super().filled(dist2, idx)
        order = np.argsort(np.where(np.isfinite(dist2), idx, np.iinfo(np.int64).max), axis=1, kind="stable")
        return np.take_along_axis(dist2, order, axis=1), np.take_along_axis(idx, order, axis=1)


class Descending(Search):
    """The farthest of the three first."""

    def filled(self, dist2: Array, idx: Array) -> tuple[Array, Array]:
        dist2, idx = super().filled(dist2, idx)
        return dist2[:, ::-1], idx[:, ::-1]


class OrdersDiffer(Search):
    """dist2 sorted, idx in the order of the search."""

    def filled(self, dist2: Array, idx: Array) -> tuple[Array, Array]:
        dist2, idx = super().filled(dist2, idx)
        return dist2, np.sort(idx, axis=1)


class Filled(Search):
    """Something else where there is no neighbour."""

    def __init__(self, dist2: float | None = None, idx: int | None = None) -> None:
        self.dist2, self.idx = dist2, idx

    def filled(self, dist2: Array, idx: Array) -> tuple[Array, Array]:
        missing = ~np.isfinite(dist2)
        dist2, idx = super().filled(dist2, idx)
        if self.dist2 is not None:
            dist2 = np.where(missing, np.float32(self.dist2), dist2)
        return dist2, idx if self.idx is None else np.where(missing, self.idx, idx)


class Repeated(Search):
    """The nearest is repeated where there are fewer than three."""

    def filled(self, dist2: Array, idx: Array) -> tuple[Array, Array]:
        missing = ~np.isfinite(dist2)
        dist2, idx = super().filled(dist2, idx)
        return np.where(missing, dist2[:, :1], dist2), np.where(missing, idx[:, :1], idx)


class FilledFromFirstTile(Search):
    """Behind more than one tile the index of the first tile's nearest stands for a missing one."""

    def found(self, squared: Array, order: Array) -> tuple[Array, Array]:
        dist2, idx = super().found(squared, order)
        if squared.shape[1] <= TILE:
            return dist2, idx
        return dist2, np.where(np.isfinite(dist2), idx, squared[:, :TILE].argmin(axis=1)[:, None])


class InfiniteCounts(Search):
    """A distance of +Inf is one: the lowest index that has it is reported."""

    def filled(self, dist2: Array, idx: Array) -> tuple[Array, Array]:
        return dist2, idx


class NanKept(Search):
    """NaN is reported as it comes."""

    def squared(self, unknown: Array, known: Array) -> Array:
        return self.distance(self.difference(unknown, known))

    def filled(self, dist2: Array, idx: Array) -> tuple[Array, Array]:
        return dist2, np.where(np.isfinite(dist2), idx, 0)


class NanFirst(NanKept):
    """The minimum of NaN and anything is NaN."""

    def order(self, squared: Array) -> Array:
        return super().order(np.where(np.isnan(squared), np.float32(-1), squared))


class NanIsZero(Search):
    """NaN coordinates are cleared."""

    def clouds(self, unknown: Array, known: Array) -> tuple[Array, Array]:
        return np.nan_to_num(unknown, nan=0, posinf=np.inf, neginf=-np.inf), np.nan_to_num(
            known, nan=0, posinf=np.inf, neginf=-np.inf
        )


class OneThrice(Search):
    """§3.1's listing: the minimum is blanked in the results, not in the distances."""

    def order(self, squared: Array) -> Array:
        return np.repeat(super().order(squared)[:, :1], 3, axis=1)


class FirstOnly(Search):
    """Only the nearest is written."""

    def write(self, call: OpCall, batch: int, dist2: Array, idx: Array) -> None:
        call.array("dist2")[batch, :, :1], call.array("idx")[batch, :, :1] = dist2[:, :1], idx[:, :1]


class RoundedCoordinates(Search):
    """Coordinates with few bits of mantissa."""

    def __init__(self, bits: int) -> None:
        self.bits = bits

    def clouds(self, unknown: Array, known: Array) -> tuple[Array, Array]:
        return _rounded(unknown, self.bits), _rounded(known, self.bits)


class RoundedDifferences(Search):
    """Differences with few bits of mantissa, as matrix units take them."""

    def __init__(self, bits: int) -> None:
        self.bits = bits

    def difference(self, unknown: Array, known: Array) -> Array:
        return _rounded(super().difference(unknown, known), self.bits)


class Expanded(Search):
    """|u|² + |k|² − 2u·k."""

    def squared(self, unknown: Array, known: Array) -> Array:
        squares = self.distance(unknown)[:, None] + self.distance(known)
        products = sum(unknown[:, axis, None] * known[:, axis] for axis in range(3))
        squared: Array = np.fmin(np.maximum(squares - 2 * products, np.float32(0)), np.float32(np.inf))
        return squared


def _rounded(values: Array, bits: int) -> Array:
    """To the nearest with so many bits of mantissa behind the point; 7 is bfloat16, 10 is tf32 and half."""
    dropped = np.uint32(23 - bits)
    pattern = values.astype("<f4").view("<u4")
    nearest = ((pattern + (np.uint32(1) << (dropped - np.uint32(1)))) >> dropped) << dropped
    return np.where(np.isfinite(values), nearest.astype("<u4").view("<f4"), values)


MUTANTS = (
    Mutant("root", "distances instead of their squares", Root().run),
    Mutant("last_of_equals", "of equal distances the highest index comes first", LastOfEquals().run),
    Mutant("equals_merged", "equal distances are reported once", EqualsMerged().run),
    Mutant("later_tile_wins", "of equal distances in two tiles the later comes first", LaterTileWins().run),
    Mutant("batch_offset", "indices count through all batches", BatchOffset().run),
    Mutant("from_one", "indices count from 1", FromOne().run),
    Mutant("tile_base_lost", "indices count within a tile of 64", TileBaseLost().run),
    Mutant("first_batch_known", "every batch searches the known points of batch 0", FirstBatchKnown().run),
    Mutant("swapped", "unknown and known are exchanged", Swapped().run),
    Mutant("manhattan", "sum of differences", Manhattan().run),
    Mutant("largest", "square of the largest difference", Largest().run),
    Mutant("x_dropped", "x does not count", AxisDropped(0).run),
    Mutant("y_dropped", "y does not count", AxisDropped(1).run),
    Mutant("z_dropped", "z does not count", AxisDropped(2).run),
    Mutant("coincident_skipped", "a known point at distance 0 is left out", CoincidentSkipped().run),
    Mutant("known_tail_dropped", "known points behind the last whole tile of 64 are lost", KnownTailDropped().run),
    Mutant("unknown_tail_lost", "unknown points behind the last whole tile of 64 are lost", UnknownTailLost().run),
    Mutant("padding_counts", "padding is taken for points at the origin", PaddingCounts().run),
    Mutant("by_index", "the three nearest are ordered by index", ByIndex().run),
    Mutant("descending", "the three nearest are ordered downwards", Descending().run),
    Mutant("orders_differ", "dist2 is ordered by distance, idx by index", OrdersDiffer().run),
    Mutant("missing_dist2_0", "a missing neighbour has distance 0", Filled(dist2=0).run),
    Mutant("missing_dist2_largest", "a missing neighbour has the largest float", Filled(dist2=3.4028235e38).run),
    Mutant("missing_idx_minus_1", "a missing neighbour has index -1", Filled(idx=-1).run),
    Mutant("missing_repeated", "a missing neighbour repeats the nearest", Repeated().run),
    Mutant("missing_from_first_tile", "a missing neighbour has the first tile's index", FilledFromFirstTile().run),
    Mutant("infinite_counts", "a point at distance +Inf is reported with its index", InfiniteCounts().run),
    Mutant("nan_kept", "NaN distances are reported", NanKept().run),
    Mutant("nan_first", "NaN is the smallest distance", NanFirst().run),
    Mutant("nan_is_zero", "NaN coordinates count as 0", NanIsZero().run),
    Mutant("one_thrice", "the nearest point is reported three times", OneThrice().run),
    Mutant("first_only", "only the nearest is written", FirstOnly().run),
    Mutant("bfloat16_coordinates", "coordinates are rounded to 8 bits", RoundedCoordinates(7).run),
    Mutant("tf32_coordinates", "coordinates are rounded to 11 bits", RoundedCoordinates(10).run),
    Mutant("bfloat16_differences", "differences are rounded to 8 bits", RoundedDifferences(7).run),
    Mutant("tf32_differences", "differences are rounded to 11 bits", RoundedDifferences(10).run),
    Mutant("expanded", "the square is multiplied out", Expanded().run),
)
