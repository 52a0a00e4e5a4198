"""Plausible mistakes in which rows meet at every offset of a sparse convolution; for mutants.

Where a mistake would read outside a buffer it is kept inside: it must be caught by its values.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np

from mluops_gtest.authoring import Array, OpCall

from .connections import pairs_in_use

# The rows that meet at one offset: inputs, outputs.
Rows = tuple[Array, Array]
_TILES: Final = (16, 32, 64, 128)
# Pairs that a vector instruction takes at a time.
_VECTOR: Final = 8


class WrongPairs(NamedTuple):
    """A mistake by name, what it says of itself, and the rows that it takes."""

    name: str
    message: str
    rows: Callable[[OpCall], list[Rows]]


def right_rows(call: OpCall) -> list[Rows]:
    """Per offset the first indice_num[k] pairs."""
    return _rows(pairs_in_use(call.array("indice_pairs"), call.param("indice_num")))


def _rows(table: Iterable[Array]) -> list[Rows]:
    return [(pairs[0], pairs[1]) for pairs in table]


def wrong_pairs(rows_in: str, rows_out: str) -> tuple[WrongPairs, ...]:
    """All of them, for an operator whose input rows are those of one tensor and output rows those of another."""

    def kept_inside(wrong: Callable[[OpCall], list[Rows]]) -> Callable[[OpCall], list[Rows]]:
        def rows(call: OpCall) -> list[Rows]:
            counts = [call.tensor(name).dims[0] for name in (rows_in, rows_out)]
            # −1 is the last row of an array.
            return [
                (np.clip(inputs, -1, counts[0] - 1), np.clip(outputs, -1, counts[1] - 1))
                for inputs, outputs in wrong(call)
            ]

        return rows

    def by_outputs(call: OpCall) -> list[Rows]:
        return _by_stride(call, lambda _: call.tensor(rows_out).dims[0])

    def all_in_the_middle(call: OpCall) -> list[Rows]:
        met = right_rows(call)
        most = np.arange(min(call.tensor(name).dims[0] for name in (rows_in, rows_out)))
        met[len(met) // 2] = most, most
        return met

    all_wrong = {
        **_WRONG,
        "stride_of_outputs: finds pairs as many entries apart as there are output rows": by_outputs,
        "middle_of_all: takes all rows for the middle offset, sub_m or not": all_in_the_middle,
    }
    named = ((words.partition(": "), wrong) for words, wrong in all_wrong.items())
    return tuple(WrongPairs(name, message, kept_inside(wrong)) for (name, _, message), wrong in named)


# Which row of the table is which.


def _each(change: Callable[[Array, Array], Rows]) -> Callable[[OpCall], list[Rows]]:
    return lambda call: [change(inputs, outputs) for inputs, outputs in right_rows(call)]


def _by_stride(call: OpCall, stride: Callable[[int], int]) -> list[Rows]:
    """The table is read as if every row of it had that many entries, by indice_num[k], instead of L."""
    flat = call.array("indice_pairs").reshape(-1)
    found = []
    for k, count in enumerate(call.param("indice_num")):
        places = (np.arange(count) + (2 * k + side) * stride(count) for side in (0, 1))
        inputs, outputs = (np.maximum(flat.take(at, mode="wrap"), 0) for at in places)
        found.append((inputs, outputs))
    return found


def _by_position(inputs: Array, outputs: Array) -> Rows:
    return np.arange(inputs.size, dtype=inputs.dtype), outputs


def _narrow(dtype: type[np.generic]) -> Callable[[Array, Array], Rows]:
    return lambda inputs, outputs: (inputs.astype(dtype).astype(np.int64), outputs.astype(dtype).astype(np.int64))


# How many pairs an offset has.


def _of_counts(change: Callable[[int, int], int]) -> Callable[[OpCall], list[Rows]]:
    """indice_num[k] and L make the count."""

    def rows(call: OpCall) -> list[Rows]:
        pairs = call.array("indice_pairs")
        counts = [min(change(count, pairs.shape[2]), pairs.shape[2]) for count in call.param("indice_num")]
        return _rows(pairs_in_use(pairs, counts))

    return rows


def _tail_is_row_0(call: OpCall) -> list[Rows]:
    return _rows(np.maximum(call.array("indice_pairs"), 0))


def _until_minus_one(call: OpCall) -> list[Rows]:
    return _rows(pairs[:, pairs[0] >= 0] for pairs in call.array("indice_pairs"))


def _count_of_offset_0(call: OpCall) -> list[Rows]:
    used = call.array("indice_pairs")[:, :, : call.param("indice_num")[0]]
    return _rows(pairs[:, pairs[0] >= 0] for pairs in used)


def _whole_tiles(tile: int) -> Callable[[int, int], int]:
    # An offset of less than a tile is done by itself, so only longer ones lose something.
    return lambda count, _: count // tile * tile if count > tile else count


def _without_last_thread(count: int, _most: int) -> int:
    # A few pairs are not worth several threads.
    return 3 * -(-count // 4) if count >= _VECTOR else count


# Which offset has them.


def _until_an_empty_offset(call: OpCall) -> list[Rows]:
    met = right_rows(call)
    first = next((k for k, (inputs, _) in enumerate(met) if not len(inputs)), len(met))
    return met[:first] + [_none(rows) for rows in met[first:]]


def _shifted_by_empty_offsets(call: OpCall) -> list[Rows]:
    return sorted(right_rows(call), key=lambda rows: not len(rows[0]))


def _without_offset(which: int) -> Callable[[OpCall], list[Rows]]:
    def rows(call: OpCall) -> list[Rows]:
        met = right_rows(call)
        met[which] = _none(met[which])
        return met

    return rows


def _of_next(call: OpCall) -> list[Rows]:
    met = right_rows(call)
    return [*met[1:], _none(met[0])]


def _none(rows: Rows) -> Rows:
    return rows[0][:0], rows[1][:0]


def _with_sub_m(change: Callable[[list[Rows], int, int], None], how: int) -> Callable[[OpCall], list[Rows]]:
    def rows(call: OpCall) -> list[Rows]:
        met = right_rows(call)
        if call.param("sub_m") == 1:
            change(met, len(met) // 2, how)
        return met

    return rows


def _repeat_centre(met: list[Rows], middle: int, times: int) -> None:
    inputs, outputs = met[middle]
    met[middle] = np.tile(inputs, times), np.tile(outputs, times)


def _derive_second_half(met: list[Rows], middle: int, first: int) -> None:
    # With the output rows first that is true of sites, whose window is centred, and of nothing else.
    for k in range(middle):
        met[-1 - k] = met[k][first], met[k][1 - first]


_WRONG: Final[Mapping[str, Callable[[OpCall], list[Rows]]]] = {
    "rows_exchanged: takes row 0 of a pair for the output": _each(lambda first, second: (second, first)),
    "inputs_twice: takes the input row of a pair for the output row, too": _each(lambda one, _: (one, one)),
    "outputs_twice: takes the output row of a pair for the input row, too": _each(lambda _, one: (one, one)),
    "positions: takes row l instead of the input row that pair l names": _each(_by_position),
    "sorted_apart: sorts input rows and output rows each for themselves": (
        _each(lambda first, second: (np.sort(first), np.sort(second)))
    ),
    "byte_rows: keeps row numbers in 8 bits": _each(_narrow(np.uint8)),
    "stride_of_counts: finds pairs indice_num[k] entries apart": lambda call: _by_stride(call, int),
    "tail_read: reads all L pairs, whatever indice_num says": _of_counts(lambda _, most: most),
    "tail_is_row_0: reads all L pairs and takes −1 for row 0": _tail_is_row_0,
    "until_minus_one: ends an offset at −1 instead of indice_num": _until_minus_one,
    "first_count: takes indice_num[0] for every offset": _count_of_offset_0,
    "one_pair_more: reads one pair behind the last": _of_counts(lambda count, _: count + 1),
    "whole_vectors: reads pairs up to a multiple of 8": _of_counts(lambda count, _: -(-count // _VECTOR) * _VECTOR),
    "byte_counts: keeps indice_num in 7 bits and a sign": (
        _of_counts(lambda count, _: max(int(np.array(count).astype(np.int8)), 0))
    ),
    "one_pair: takes one pair of every offset": _of_counts(lambda count, _: min(count, 1)),
    "first_pair: begins behind the first pair": _each(lambda first, second: (first[1:], second[1:])),
    "last_pair: stops before the last pair": _of_counts(lambda count, _: max(count - 1, 0)),
    **{
        f"pair_tail_{tile}: drops the pairs behind a multiple of {tile}": _of_counts(_whole_tiles(tile))
        for tile in _TILES
    },
    "pairs_of_last_thread: loses the pairs of the last of 4 threads": _of_counts(_without_last_thread),
    "stops_at_empty: ends at the first offset without pairs": _until_an_empty_offset,
    "skips_empty: skips an offset without pairs together with its place": _shifted_by_empty_offsets,
    "first_offset: begins behind the first offset": _without_offset(0),
    "last_offset: stops before the last offset": _without_offset(-1),
    "pairs_of_next: takes the pairs of the next offset": _of_next,
    "centre_skipped: leaves out the middle offset with sub_m": _with_sub_m(_repeat_centre, 0),
    "centre_doubled: takes the middle offset twice with sub_m": _with_sub_m(_repeat_centre, 2),
    "pairs_by_symmetry: exchanges k's pairs for K − 1 − k with sub_m": _with_sub_m(_derive_second_half, 1),
    "pairs_repeated: takes k's pairs for K − 1 − k with sub_m, not exchanged": _with_sub_m(_derive_second_half, 0),
}
