"""Which rows of a sparse convolution meet at each kernel offset: any at all, or those of random or swept sites."""

import math
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from mluops_gtest.authoring.clouds import nearest_sites, network_layer, random_sites, small_layer
from mluops_gtest.authoring.random import Draw
from mluops_gtest.authoring.sparse import Geometry, find_pairs, refuse_lonely
from mluops_gtest.base.frozen import Value
from mluops_gtest.core.call import OpCall, SizedAxis
from mluops_gtest.core.operator import Theory
from mluops_gtest.core.tensor import Array, DType

# What stands behind the pairs in use: −1, as the search for pairs leaves it, or rows that would be legal.
Tail = Literal["minus_one", "stale"]
# Entries of a table up to which one look at all offsets is faster than one at each.
_AT_ONCE: Final = 1 << 18


class Connections(Value):
    """Which rows meet: pairs [K, 2, L] int32, how many are in use per offset, the output rows, the kernel's axes."""

    pairs: Array
    counts: tuple[int, ...]
    rows_out: int
    kernel: tuple[int, ...]
    sub_m: bool = False

    @property
    def rows_in(self) -> int:
        """Number of input rows L."""
        return int(self.pairs.shape[2])

    @property
    def used(self) -> tuple[Array, ...]:
        """Per offset the pairs in use, [2, n]: input rows above output rows."""
        return pairs_in_use(self.pairs, self.counts)


def pairs_in_use(pairs: Array, counts: Sequence[int]) -> tuple[Array, ...]:
    """Per offset its first counts[k] pairs, [2, n]: input rows above output rows; what stands behind is not read."""
    return tuple(pairs[k, :, :count] for k, count in enumerate(counts))


def random_connections(
    draw: Draw,
    kernel: tuple[int, ...],
    rows_in: int,
    rows_out: int,
    *,
    counts: tuple[int, ...] = (),
    tail: Tail = "minus_one",
    sub_m: bool = False,
) -> Connections:
    """Any rows meet, in any order: `counts` pairs per offset; one number is for all, none leaves it to chance.

    With sub_m the middle offset pairs every row with itself.
    """
    offsets, most = math.prod(kernel), min(rows_in, rows_out)
    if not counts:
        counts = tuple(draw.stream("counts").integers(0, most + 1, offsets).tolist())
    elif len(counts) == 1:
        counts *= offsets
    if len(counts) != offsets or not 0 <= min(counts) <= max(counts) <= most:
        raise ValueError(f"counts must be one number or {offsets}, each in 0 … {most}, not {counts}")
    pairs = np.empty((offsets, 2, rows_in), "<i4")
    for k in range(offsets):
        pairs[k, 0] = draw.stream(f"inputs/{k}").permutation(rows_in)
        pairs[k, 1] = np.resize(draw.stream(f"outputs/{k}").permutation(rows_out), rows_in)
    if sub_m:
        middle = offsets // 2
        counts = (*counts[:middle], rows_in, *counts[middle + 1 :])
        pairs[middle] = np.arange(rows_in)
    if tail == "minus_one":
        for k, count in enumerate(counts):
            pairs[k, :, count:] = -1
    return Connections(pairs, counts, rows_out, kernel, sub_m)


def site_connections(draw: Draw, geometry: Geometry, count: int) -> Connections:
    """The pairs of a convolution over `count` random active sites, some of which are neighbours."""
    sites = random_sites(draw.stream("sites"), geometry.batch, geometry.input_space, count)
    connections = _convolved(sites, geometry)
    refuse_lonely(connections.counts)
    return connections


def layer_connections(draw: Draw, layer: str, keep: int = 0) -> Connections:
    """The pairs of a layer of the detection network; `keep` makes its twin: that many neighbours of a small cloud."""
    sites, geometry = small_layer(layer, draw) if keep else network_layer(layer, draw)
    return _convolved(nearest_sites(sites, keep) if keep else sites, geometry)


def _convolved(sites: Array, geometry: Geometry) -> Connections:
    found = find_pairs(sites, geometry)
    counts = tuple(found.indice_num.tolist())
    return Connections(found.indice_pairs, counts, len(found.out_indices), geometry.kernel, geometry.sub_m)


def pairs_theory(call: OpCall, channels_in: int, channels_out: int) -> Theory:
    """Every tensor is touched once, of indice_pairs the pairs in use; a multiplication and an addition per product."""
    pairs = sum(call.param("indice_num"))
    whole = sum(call.tensor(name).desc.nbytes for name in (*call.inputs, *call.outputs) if name != "indice_pairs")
    return Theory(whole + 2 * pairs * DType.INT32.itemsize, 2 * pairs * channels_in * channels_out)


def pairs_size(rows: str, side: int) -> SizedAxis:
    """For `sizes`: the pairs of the first offset. A kernel that loses one sees 0 in the row of `rows` that it names."""

    def without(call: OpCall, index: int) -> dict[str, Array]:
        """Where there is one offset, that is the pair alone."""
        array = call.array(rows).copy()
        array[call.array("indice_pairs")[0, side, index]] = 0
        return {rows: array}

    return SizedAxis("indice_pairs", count=lambda call: int(call.param("indice_num")[0]), without=without)


def broken_pairs(
    pairs: Array, counts: Sequence[int], *, offsets: int, rows_in: int, rows_out: int, sub_m: bool = False
) -> str | None:
    """What a table of pairs lacks of what every sparse convolution takes for granted, in words.

    One count per kernel offset; rows that exist, each once per offset; with sub_m as many output rows as input rows
    and a centre that is the identity.
    """
    if len(counts) != offsets:
        return f"indice_num has {len(counts)} entries for {offsets} kernel offsets"
    for side, limit in enumerate((rows_in, rows_out)):
        if pairs[:, side].size <= _AT_ONCE and _all_sound(pairs[:, side], counts, limit):
            continue
        # Where each row was named last. Stale entries of earlier offsets do no harm: only rows named now are asked for.
        places = np.empty(limit, np.int32)
        for offset, count in enumerate(counts):
            broken = _unsound(pairs[offset, side, :count], places)
            if broken is not None:
                return f"indice_pairs[{offset}, {side}] names {broken}"
    if sub_m and rows_in != rows_out:
        return f"with sub_m the {rows_in} input rows must be the output rows too, but there are {rows_out} of those"
    middle = offsets // 2
    if sub_m and not _is_identity(pairs[middle, :, : counts[middle]], rows_in):
        return f"with sub_m the centre, indice_pairs[{middle}], must join each of the {rows_in} rows to itself"
    return None


def _all_sound(pairs: Array, counts: Sequence[int], rows: int) -> bool:
    """The rows that the offsets name on one side exist, each once per offset."""
    count = np.clip(counts, 0, pairs.shape[1])
    named = pairs[np.arange(pairs.shape[1]) < count[:, None]].astype(np.int64)
    if named.size and (named.min() < 0 or named.max() >= rows):
        return False
    keys = np.sort(np.repeat(np.arange(len(count)), count) * rows + named)
    return not (keys[1:] == keys[:-1]).any()


def _unsound(named: Array, places: Array) -> str | None:
    """What is wrong with the rows that one offset names on one side, in words."""
    if not named.size:
        return None
    if named.min() < 0 or named.max() >= len(places):
        return f"a row outside of 0 … {len(places) - 1}"
    order = np.arange(len(named), dtype=np.int32)
    places[named] = order
    again = np.flatnonzero(places[named] != order)
    return f"row {named[again[0]]} more than once" if again.size else None


def _is_identity(pairs: Array, rows: int) -> bool:
    """Every row meets itself, in any order; that no row occurs twice is known."""
    return pairs.shape[1] == rows and np.array_equal(pairs[0], pairs[1])
