"""Mistakes in what is written of the sites that meet: rows, counts, tails, and what an earlier call left."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall
from mluops_gtest.authoring.mistakes import (
    cached_by_shape,
    input_cleared,
    left,
    spoilt,
    sum_goes_on,
)

from .plain import Plain

_RIGHT = Plain().run
# Sites that kernels take at a time; stored cases have fewer than the next larger ones.
_TILES = (16, 32, 64, 128)


class _SitesInTiles(Plain):
    """Sites behind the last whole tile are not looked at; fewer than a tile are."""

    def __init__(self, tile: int) -> None:
        self._tile = tile

    def _handled(self, call: OpCall, rows: Array) -> Array:
        sites = call.tensor("indices").dims[0]
        return rows[rows < sites // self._tile * self._tile] if sites > self._tile else rows


class _WithoutRow(Plain):
    """One input row is not looked at."""

    def __init__(self, row: Callable[[int], int]) -> None:
        self._row = row

    def _handled(self, call: OpCall, rows: Array) -> Array:
        kept: Array = rows[rows != self._row(call.tensor("indices").dims[0])]
        return kept


class _OutputsTwice(Plain):
    """Outputs that several offsets meet stand several times."""

    def _outputs(self, *args: Any) -> tuple[Array, Array]:
        call, indices, rows, keys, sites = args
        if call.param("sub_m"):
            return super()._outputs(*args)
        order = np.argsort(keys, kind="stable")
        return keys[order], np.column_stack([indices[rows[order], 0], sites[order]])


class _RoomForInputs(Plain):
    """No more outputs than there are inputs."""

    def _outputs(self, *args: Any) -> tuple[Array, Array]:
        keys, sites = super()._outputs(*args)
        return keys[: len(args[1])], sites[: len(args[1])]


class _BatchFastest(Plain):
    """Outputs are sorted by their place first, then by their sample."""

    def _keys(self, call: OpCall, batch: Array, site: Array) -> Array:
        right = super()._keys(call, np.zeros_like(batch), site)
        key: Array = right * call.param("batch") + batch
        return key


def _exchange_rows(call: OpCall) -> None:
    pairs = call.array("indice_pairs")
    pairs[...] = pairs[:, ::-1].copy()


def _interleave(call: OpCall) -> None:
    pairs = call.array("indice_pairs")
    pairs[...] = pairs.transpose(0, 2, 1).reshape(pairs.shape)


def _batch_last(call: OpCall) -> None:
    made = call.array("out_indices")[: call.scalars["num_act_out"]]
    made[...] = np.roll(made, -1, axis=1)


def _lose_last_offset(call: OpCall) -> None:
    call.array("indice_num")[-1], call.array("indice_pairs")[-1] = 0, -1


def _add_up_counts(call: OpCall) -> None:
    counts = call.array("indice_num")
    counts[...] = np.cumsum(counts)


def _count_in(dtype: type[np.generic]) -> Callable[[OpCall], None]:
    def spoil(call: OpCall) -> None:
        counts = call.array("indice_num")
        counts[...] = counts.astype(dtype)

    return spoil


def _rows_in(dtype: type[np.generic]) -> Callable[[OpCall], None]:
    """Row numbers pass through a narrow type; the mark of unused places is put in afterwards."""

    def spoil(call: OpCall) -> None:
        pairs = call.array("indice_pairs")
        pairs[...] = np.where(pairs < 0, pairs, np.maximum(pairs, 0).astype(dtype))

    return spoil


def _no_tail(call: OpCall) -> Array:
    pairs = call.array("indice_pairs")
    return np.broadcast_to(np.arange(pairs.shape[2]) >= call.array("indice_num")[:, None, None], pairs.shape)


def _zero_output_tails(call: OpCall) -> None:
    pairs = call.array("indice_pairs")[:, 1]
    pairs[pairs < 0] = 0


def _count_inputs(call: OpCall) -> None:
    call.scalars["num_act_out"] = call.tensor("indices").dims[0]


def _with_sub_m(change: Callable[[Array, Array, int], None]) -> Callable[[OpCall], None]:
    def spoil(call: OpCall) -> None:
        if call.param("sub_m"):
            counts = call.array("indice_num")
            change(call.array("indice_pairs"), counts, len(counts) // 2)

    return spoil


def _centre_lost(pairs: Array, counts: Array, middle: int) -> None:
    pairs[middle], counts[middle] = -1, 0


def _centre_of_all(pairs: Array, counts: Array, middle: int) -> None:
    pairs[middle], counts[middle] = np.arange(pairs.shape[2]), pairs.shape[2]


def _symmetric(pairs: Array, counts: Array, middle: int) -> None:
    # True of a window that is centred, and of no other.
    for k in range(middle):
        pairs[-1 - k], counts[-1 - k] = pairs[k, ::-1], counts[k]


WRONG_TABLES = (
    *(
        Mutant(f"site_tail_{tile}", f"looks at no site behind a multiple of {tile}", _SitesInTiles(tile).run)
        for tile in _TILES
    ),
    Mutant("first_site_lost", "looks at all sites but the first", _WithoutRow(lambda _: 0).run),
    Mutant("last_site_lost", "looks at all sites but the last", _WithoutRow(lambda sites: sites - 1).run),
    Mutant("outputs_twice", "two threads that find one output both add it", _OutputsTwice().run),
    Mutant("room_for_inputs", "has space for no more outputs than inputs", _RoomForInputs().run),
    Mutant("batch_fastest", "sorts outputs by their place, and by their sample last", _BatchFastest().run),
    spoilt("rows_exchanged", "writes the output row of a pair in front of the input row", _RIGHT, _exchange_rows),
    spoilt("pairs_interleaved", "writes the two rows of each pair side by side", _RIGHT, _interleave),
    spoilt("batch_last", "writes out_indices as d, h, w, n", _RIGHT, _batch_last),
    spoilt("last_offset_lost", "stops before the last offset", _RIGHT, _lose_last_offset),
    spoilt(
        "counts_added_up",
        "writes where the pairs of an offset end instead of how many there are",
        _RIGHT,
        _add_up_counts,
    ),
    spoilt("byte_counts", "counts the pairs of an offset in 8 bits", _RIGHT, _count_in(np.int8)),
    spoilt("byte_rows", "keeps row numbers in 8 bits", _RIGHT, _rows_in(np.uint8)),
    left("tails_left", "does not write −1 behind the pairs of an offset", _RIGHT, "indice_pairs", _no_tail),
    spoilt(
        "zero_output_tails", "marks unused input rows alone with −1, output rows with 0", _RIGHT, _zero_output_tails
    ),
    left(
        "counts_of_none_left",
        "does not write a count of 0",
        _RIGHT,
        "indice_num",
        lambda call: call.array("indice_num") == 0,
    ),
    spoilt("counts_the_inputs", "takes num_act_out from the number of inputs", _RIGHT, _count_inputs),
    spoilt("sub_m_centre_lost", "finds no pairs for the middle offset with sub_m", _RIGHT, _with_sub_m(_centre_lost)),
    spoilt(
        "sub_m_centre_of_all",
        "pairs every site with itself in the middle with sub_m",
        _RIGHT,
        _with_sub_m(_centre_of_all),
    ),
    spoilt("sub_m_symmetric", "exchanges the pairs of k for K − 1 − k with sub_m", _RIGHT, _with_sub_m(_symmetric)),
    input_cleared(_RIGHT, "indices"),
    cached_by_shape(_RIGHT),
    sum_goes_on(_RIGHT, "indice_num"),
)
