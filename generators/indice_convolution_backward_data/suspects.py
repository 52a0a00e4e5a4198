"""Mistakes that kernels make where pairs of several offsets meet in a row, and about matrices and rows."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.suspects import Suspect

from .._shared.products import products_suspects, summed
from .._shared.wrong_pairs import Rows, wrong_pairs
from .._shared.wrong_products import wrong_weights
from .reference import products_of

# Those that a place or a law of values tells already are not among them.
_WEIGHTS = {
    "depth_mirrored", "height_mirrored", "width_mirrored", "width_slowest", "height_for_width", "weights_of_first",
    "weights_of_next", "channels_last_as_array", "array_as_channels_last", "two_dimensional", "weights_transposed",
    "first_output_channel", "last_output_channel",
}  # fmt: skip
_PAIRS = {
    "rows_exchanged", "inputs_twice", "outputs_twice", "positions", "sorted_apart", "stride_of_counts", "first_count",
    "one_pair", "first_pair", "last_pair", "stops_at_empty", "skips_empty", "first_offset", "last_offset",
    "pairs_of_next", "pairs_repeated", "stride_of_outputs", "middle_of_all",
}  # fmt: skip


def _of_weights(weights: Callable[[OpCall], Array]) -> Suspect:
    def outputs(call: OpCall) -> Mapping[str, Array]:
        matrices = np.ascontiguousarray(weights(call).swapaxes(1, 2))
        return {"input_grad": summed(replace(products_of(call), matrices=matrices))}

    return outputs


def _of_rows(rows: Callable[[OpCall], list[Rows]]) -> Suspect:
    def outputs(call: OpCall) -> Mapping[str, Array]:
        right = products_of(call)
        limits = np.array([[right.count], [len(right.rows)]])
        # A row of −1 is the last one.
        meetings = tuple(np.stack((inputs, outputs)).astype(np.int64) % limits for inputs, outputs in rows(call))
        return {"input_grad": summed(replace(right, meetings=meetings))}

    return outputs


SUSPECTS = {
    **products_suspects("input_grad", products_of),
    **{f"it {one.message}": _of_weights(one.weights) for one in wrong_weights(2) if one.name in _WEIGHTS},
    **{
        f"it {one.message}": _of_rows(one.rows)
        for one in wrong_pairs("input_grad", "output_grad")
        if one.name in _PAIRS
    },
}
