"""Wrong readings of the filters and of the pairs, for implementations that are otherwise right."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mluops_gtest.authoring import Array, Layout, OpCall
from mluops_gtest.authoring.filters import extents, weights_by_offset


class Step(NamedTuple):
    """One kernel offset: its weights [Ci, Co] and the rows that meet."""

    weights: Array
    inputs: Array
    outputs: Array


def right_weights(call: OpCall) -> Array:
    """The weights as [K, Ci, Co]."""
    return weights_by_offset(call.array("filters"), call.tensor("filters").layout)


def right_steps(call: OpCall, weights: Array) -> list[Step]:
    """Every offset with its weights and its pairs in use."""
    pairs, counts = call.array("indice_pairs"), call.param("indice_num")
    return [Step(weights[k], *pairs[k, :, :count]) for k, count in enumerate(counts)]


# Weights.


def weights_transposed(call: OpCall) -> Array:
    """W_k read as [Co, Ci]."""
    right = right_weights(call)
    offsets, channels_in, channels_out = right.shape
    return right.reshape(offsets, channels_out, channels_in).swapaxes(1, 2)


def weights_mirrored(call: OpCall) -> Array:
    """W of the opposite offset."""
    return right_weights(call)[::-1]


def _canonical(call: OpCall) -> Array:
    """The weights as [Kd, Kh, Kw, Ci, Co]."""
    order = {Layout.NDHWC: (1, 2, 3, 4, 0), Layout.NCDHW: (2, 3, 4, 1, 0), Layout.ARRAY: (0, 1, 2, 3, 4)}
    return call.array("filters").transpose(order[call.tensor("filters").layout])


def weights_width_first(call: OpCall) -> Array:
    """Offsets counted along the depth first, the width last."""
    right = _canonical(call)
    return right.transpose(2, 1, 0, 3, 4).reshape(-1, *right.shape[3:])


def weights_of_first_depth(call: OpCall) -> Array:
    """W(k / Kw, k % Kw), as if there were no depth."""
    right = _canonical(call)
    return np.broadcast_to(right[:1], right.shape).reshape(-1, *right.shape[3:])


def weights_ndhwc_as_array(call: OpCall) -> Array:
    """NDHWC read as ARRAY."""
    if call.tensor("filters").layout is not Layout.NDHWC:
        return right_weights(call)
    return call.array("filters").reshape(extents(call.tensor("filters").desc))


def weights_ncdhw_as_ndhwc(call: OpCall) -> Array:
    """NCDHW read as NDHWC."""
    if call.tensor("filters").layout is not Layout.NCDHW:
        return right_weights(call)
    offsets, channels_in, channels_out = extents(call.tensor("filters").desc)
    return call.array("filters").reshape(channels_out, offsets, channels_in).transpose(1, 2, 0)


def weights_of_met_offsets(call: OpCall) -> Array:
    """The n-th W for the n-th offset that has pairs."""
    right = right_weights(call)
    place = np.cumsum([count > 0 for count in call.param("indice_num")]) - 1
    taken: Array = right[np.maximum(place, 0)]
    return taken


# Steps.


def steps_exchanged(call: OpCall, weights: Array) -> list[Step]:
    """Row 0 of a pair taken for the output."""
    # Clipped: a kernel that reads outside its buffers would be caught by that alone.
    last_in, last_out = (call.tensor(name).dims[0] - 1 for name in ("features", "features_out"))
    return [
        Step(step.weights, np.minimum(step.outputs, last_in), np.minimum(step.inputs, last_out))
        for step in right_steps(call, weights)
    ]


def steps_with_tail(call: OpCall, weights: Array) -> list[Step]:
    """All L pairs of every offset."""
    # −1 is the last row of an array.
    return [Step(weights[k], *pairs) for k, pairs in enumerate(call.array("indice_pairs"))]


def steps_of_first_count(call: OpCall, weights: Array) -> list[Step]:
    """indice_num[0] pairs of every offset."""
    first = call.param("indice_num")[0]
    used = (pairs[:, :first] for pairs in call.array("indice_pairs"))
    return [Step(weights[k], *pairs[:, pairs[0] >= 0]) for k, pairs in enumerate(used)]


def steps_until_empty(call: OpCall, weights: Array) -> list[Step]:
    """Nothing behind the first empty offset."""
    steps = right_steps(call, weights)
    empty = (k for k, step in enumerate(steps) if not step.inputs.size)
    return steps[: next(empty, len(steps))]


def steps_without_last(call: OpCall, weights: Array) -> list[Step]:
    """All offsets but the last."""
    return right_steps(call, weights)[:-1]


def steps_by_stride(stride: Callable[[int, int], int]) -> Callable[[OpCall, Array], list[Step]]:
    """The table is read as if every row of it had `stride` entries, made from Y and indice_num[k], instead of L."""

    def steps(call: OpCall, weights: Array) -> list[Step]:
        flat = call.array("indice_pairs").reshape(-1)
        rows = [call.tensor(name).dims[0] for name in ("features", "features_out")]
        made = []
        for k, count in enumerate(call.param("indice_num")):
            wide = stride(rows[1], count)
            sides = [
                np.take(flat, np.arange(count) + (2 * k + side) * wide, mode="clip").clip(0, rows[side] - 1)
                for side in (0, 1)
            ]
            made.append(Step(weights[k], *sides))
        return made

    return steps


def steps_without_centre(call: OpCall, weights: Array) -> list[Step]:
    """With sub_m all offsets but the middle one."""
    steps = right_steps(call, weights)
    if call.param("sub_m") == 1:
        del steps[len(steps) // 2]
    return steps


def steps_with_centre_twice(call: OpCall, weights: Array) -> list[Step]:
    """With sub_m the middle offset once more."""
    steps = right_steps(call, weights)
    return steps + steps[len(steps) // 2 :][:1] if call.param("sub_m") == 1 else steps


def steps_by_symmetry(call: OpCall, weights: Array) -> list[Step]:
    """With sub_m the pairs of k, not exchanged, for K − 1 − k."""
    steps = right_steps(call, weights)
    if call.param("sub_m") == 0:
        return steps
    first = steps[: len(steps) // 2 + 1]
    mirrored = [Step(weights[-1 - k], step.inputs, step.outputs) for k, step in enumerate(first[:-1])]
    return [*first, *mirrored]


def steps_by_position(call: OpCall, weights: Array) -> list[Step]:
    """Row l instead of the row that the pair names."""
    return [Step(step.weights, np.arange(step.inputs.size), step.outputs) for step in right_steps(call, weights)]
