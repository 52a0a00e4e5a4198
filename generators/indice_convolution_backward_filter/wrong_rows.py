"""Which rows meet at every offset, and the plausible mistakes in that.

Where a mistake would read outside a buffer it is kept inside: it must be caught by its values.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, OpCall

# The rows that meet at one offset: inputs, outputs.
Rows = tuple[Array, Array]
TILE: Final = 64


def right_rows(call: OpCall) -> list[Rows]:
    """Per offset the first indice_num[k] pairs."""
    pairs = call.array("indice_pairs")
    return [(pairs[k, 0, :count], pairs[k, 1, :count]) for k, count in enumerate(call.param("indice_num"))]


def _both(call: OpCall, rows: Callable[[Array, Array], Rows]) -> list[Rows]:
    last_in, last_out = (call.tensor(name).dims[0] - 1 for name in ("features", "output_grad"))
    found = (rows(inputs, outputs) for inputs, outputs in right_rows(call))
    return [(np.minimum(inputs, last_in), np.minimum(outputs, last_out)) for inputs, outputs in found]


def _exchanged(call: OpCall) -> list[Rows]:
    return _both(call, lambda inputs, outputs: (outputs, inputs))


def _inputs_twice(call: OpCall) -> list[Rows]:
    return _both(call, lambda inputs, _: (inputs, inputs))


def _outputs_twice(call: OpCall) -> list[Rows]:
    return _both(call, lambda _, outputs: (outputs, outputs))


def _with_tail(call: OpCall) -> list[Rows]:
    return [(pairs[0], pairs[1]) for pairs in call.array("indice_pairs")]


def _tail_is_row_0(call: OpCall) -> list[Rows]:
    return [(pairs[0], pairs[1]) for pairs in np.maximum(call.array("indice_pairs"), 0)]


def _until_minus_one(call: OpCall) -> list[Rows]:
    used = (pairs[:, pairs[0] >= 0] for pairs in call.array("indice_pairs"))
    return [(pairs[0], pairs[1]) for pairs in used]


def _count_of_offset_0(call: OpCall) -> list[Rows]:
    count = call.param("indice_num")[0]
    return [(pairs[0, :count], pairs[1, :count]) for pairs in call.array("indice_pairs")]


def _stride_of_outputs(call: OpCall) -> list[Rows]:
    flat = call.array("indice_pairs").reshape(-1)
    rows_in, rows_out = (call.tensor(name).dims[0] for name in ("features", "output_grad"))
    found = []
    for k, count in enumerate(call.param("indice_num")):
        inputs, outputs = (flat.take(np.arange(count) + (2 * k + side) * rows_out, mode="wrap") for side in (0, 1))
        found.append((inputs % rows_in, outputs % rows_out))
    return found


def _without_last_pair(call: OpCall) -> list[Rows]:
    return [(inputs[:-1], outputs[:-1]) for inputs, outputs in right_rows(call)]


def _without_partial_tile(call: OpCall) -> list[Rows]:
    # An offset of less than a tile is done by itself, so only longer ones lose something.
    cut = (max(len(inputs) // TILE * TILE, min(len(inputs), TILE)) for inputs, _ in right_rows(call))
    return [(inputs[:end], outputs[:end]) for (inputs, outputs), end in zip(right_rows(call), cut, strict=True)]


def _until_an_empty_offset(call: OpCall) -> list[Rows]:
    met = right_rows(call)
    first = next((k for k, (inputs, _) in enumerate(met) if not len(inputs)), len(met))
    return met[:first] + [(inputs[:0], outputs[:0]) for inputs, outputs in met[first:]]


def _shifted_by_empty_offsets(call: OpCall) -> list[Rows]:
    met = right_rows(call)
    return sorted(met, key=lambda rows: not len(rows[0]))


def _all_rows_in_the_middle(call: OpCall) -> list[Rows]:
    met = right_rows(call)
    most = np.arange(min(call.tensor(name).dims[0] for name in ("features", "output_grad")))
    met[len(met) // 2] = most, most
    return met


def _with_sub_m(change: Callable[[list[Rows], int], None]) -> Callable[[OpCall], list[Rows]]:
    def rows(call: OpCall) -> list[Rows]:
        met = right_rows(call)
        if call.param("sub_m") == 1:
            change(met, len(met) // 2)
        return met

    return rows


def _centre_skipped(met: list[Rows], middle: int) -> None:
    met[middle] = met[middle][0][:0], met[middle][1][:0]


def _centre_doubled(met: list[Rows], middle: int) -> None:
    inputs, outputs = met[middle]
    met[middle] = np.tile(inputs, 2), np.tile(outputs, 2)


def _mirrored_pairs(met: list[Rows], middle: int) -> None:
    # True of sites, whose window is centred, and of nothing else.
    for k in range(middle):
        met[-1 - k] = met[k][1], met[k][0]


# Name, what it says of itself, and the rows that it takes.
WRONG_ROWS: Final = (
    ("rows_exchanged", "takes row 0 of a pair for the output", _exchanged),
    ("inputs_twice", "gathers output_grad by the input's row", _inputs_twice),
    ("outputs_twice", "gathers features by the output's row", _outputs_twice),
    ("tail_read", "reads all L pairs, whatever indice_num says", _with_tail),
    ("tail_is_row_0", "reads all L pairs and takes −1 for row 0", _tail_is_row_0),
    ("until_minus_one", "ends an offset at −1 instead of indice_num", _until_minus_one),
    ("first_count", "uses indice_num[0] for every offset", _count_of_offset_0),
    ("stride_of_outputs", "steps through indice_pairs by Y instead of L", _stride_of_outputs),
    ("last_pair", "stops before the last pair", _without_last_pair),
    ("partial_tile", "drops the pairs behind the last whole tile", _without_partial_tile),
    ("stops_at_empty", "ends at the first offset without pairs", _until_an_empty_offset),
    ("skips_empty", "skips an offset without pairs together with its place", _shifted_by_empty_offsets),
    ("middle_of_all", "multiplies all rows for the middle offset, sub_m or not", _all_rows_in_the_middle),
    ("centre_skipped", "leaves out the middle offset with sub_m", _with_sub_m(_centre_skipped)),
    ("centre_doubled", "adds the middle offset twice with sub_m", _with_sub_m(_centre_doubled)),
    ("pairs_by_symmetry", "exchanges k's pairs for K−1−k with sub_m", _with_sub_m(_mirrored_pairs)),
)
