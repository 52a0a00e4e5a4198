"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.filters import extents, weights_by_offset
from mluops_gtest.authoring.roundings import WRONG_WRITES


class _Step(NamedTuple):
    """One kernel offset: its weights [Ci, Co] and the rows that meet."""

    weights: Array
    inputs: Array
    outputs: Array


def _right_weights(call: OpCall) -> Array:
    return weights_by_offset(call.array("filters"), call.tensor("filters").layout)


def _right_steps(call: OpCall, weights: Array) -> list[_Step]:
    pairs, counts = call.array("indice_pairs"), call.param("indice_num")
    return [_Step(weights[k], *pairs[k, :, :count]) for k, count in enumerate(counts)]


def _add(total: Array, rows: Array, part: Array) -> None:
    np.add.at(total, rows, part)


def _write(result: Array, total: Array) -> None:
    result[...] = total


def _variant(
    name: str,
    message: str,
    *,
    weights: Callable[[OpCall], Array] = _right_weights,
    steps: Callable[[OpCall, Array], list[_Step]] = _right_steps,
    scatter: Callable[[Array, Array, Array], None] = _add,
    write: Callable[[Array, Array], None] = _write,
) -> Mutant:
    """The plain loop of §1.2.2 in float32 with one part exchanged."""

    def run(call: OpCall) -> Status:
        grad = call.array("output_grad").astype(np.float32)
        total = np.zeros(call.tensor("input_grad").dims, np.float32)
        for step in steps(call, weights(call).astype(np.float32)):
            scatter(total, step.inputs, grad[step.outputs] @ step.weights.T)
        write(call.array("input_grad"), total)
        return Status.SUCCESS

    return Mutant(name, message, run)


def _weights_transposed(call: OpCall) -> Array:
    right = _right_weights(call)
    offsets, channels_in, channels_out = right.shape
    return right.reshape(offsets, channels_out, channels_in).swapaxes(1, 2)


def _weights_channels_last(call: OpCall) -> Array:
    offsets, channels_in, channels_out = extents(call.tensor("filters").desc)
    return call.array("filters").reshape(channels_out, offsets, channels_in).transpose(1, 2, 0)


def _weights_mirrored(call: OpCall) -> Array:
    return _right_weights(call)[::-1]


def _steps_without_last(call: OpCall, weights: Array) -> list[_Step]:
    return _right_steps(call, weights)[:-1]


def _steps_without_centre(call: OpCall, weights: Array) -> list[_Step]:
    steps = _right_steps(call, weights)
    if call.param("sub_m") == 1:
        del steps[len(steps) // 2]
    return steps


def _steps_with_tail(call: OpCall, weights: Array) -> list[_Step]:
    return [_Step(weights[k], *pairs) for k, pairs in enumerate(call.array("indice_pairs"))]


def _steps_until_minus_one(call: OpCall, weights: Array) -> list[_Step]:
    used = (pairs[:, pairs[0] >= 0] for pairs in call.array("indice_pairs"))
    return [_Step(weights[k], *pairs) for k, pairs in enumerate(used)]


def _steps_exchanged(call: OpCall, weights: Array) -> list[_Step]:
    # Clipped: a kernel that reads outside its buffers would be caught by that alone.
    last_in, last_out = (call.tensor(name).dims[0] - 1 for name in ("input_grad", "output_grad"))
    return [
        _Step(step.weights, np.minimum(step.outputs, last_in), np.minimum(step.inputs, last_out))
        for step in _right_steps(call, weights)
    ]


def _overwrite(total: Array, rows: Array, part: Array) -> None:
    total[rows] = part


def _accumulates_in_own_type(call: OpCall) -> Status:
    grad, result = call.array("output_grad"), call.array("input_grad")
    total = np.zeros_like(result)
    for step in _right_steps(call, _right_weights(call)):
        for channel in range(grad.shape[1]):
            np.add.at(total, step.inputs, grad[step.outputs, channel, None] * step.weights[:, channel])
    result[...] = total
    return Status.SUCCESS


def _leaves_rows_without_pairs(call: OpCall) -> Status:
    result = call.array("input_grad")
    before, pairs = result.copy(), call.array("indice_pairs")
    _variant("", "").run(call)
    received = np.zeros(len(result), np.bool_)
    for k, count in enumerate(call.param("indice_num")):
        received[pairs[k, 0, :count]] = True
    result[~received] = before[~received]
    return Status.SUCCESS


def _multiplies_zeros(call: OpCall) -> Status:
    grad, result = call.array("output_grad").astype(np.float32), call.array("input_grad")
    total = np.zeros(result.shape, np.float32)
    for step in _right_steps(call, _right_weights(call).astype(np.float32)):
        met = np.zeros((len(result), grad.shape[1]), np.float32)
        met[step.inputs] = grad[step.outputs]
        total += met @ step.weights.T
    result[...] = total
    return Status.SUCCESS


def _skips_zeros(call: OpCall) -> Status:
    """As a kernel for sparse operands does: 0 · ∞ and 0 · NaN are not looked at."""
    grad, result = call.array("output_grad").astype(np.float32), call.array("input_grad")
    total = np.zeros(result.shape, np.float32)
    for step in _right_steps(call, _right_weights(call).astype(np.float32)):
        rows, weights = grad[step.outputs][:, None, :], step.weights[None]
        products = np.where((rows == 0) | (weights == 0), np.float32(0), rows * weights)
        _add(total, step.inputs, products.sum(axis=2))
    result[...] = total
    return Status.SUCCESS


MUTANTS: Final = (
    _variant("weights_transposed", "reads W_k as [Co, Ci], as §3.1 prints it", weights=_weights_transposed),
    _variant("channels_last", "reads every layout as N(D)HWC", weights=_weights_channels_last),
    _variant("kernel_mirrored", "takes W of the opposite offset", weights=_weights_mirrored),
    _variant("last_offset", "stops before the last offset", steps=_steps_without_last),
    _variant("sub_m_centre", "skips the middle offset with sub_m", steps=_steps_without_centre),
    _variant("tail_read", "reads all L pairs, whatever indice_num says", steps=_steps_with_tail),
    _variant("until_minus_one", "ends an offset at −1 instead of indice_num", steps=_steps_until_minus_one),
    _variant("rows_exchanged", "takes input rows for output rows", steps=_steps_exchanged),
    _variant("overwrites", "updates rows instead of adding to them, §3.1 step 6 without step 7", scatter=_overwrite),
    *(_variant(name, message, write=write) for name, message, write in WRONG_WRITES),
    Mutant("zeros_skipped", "takes 0 · ∞ and 0 · NaN for 0", _skips_zeros),
    Mutant("own_type", "accumulates half in half", _accumulates_in_own_type),
    Mutant("zeros_for_nobody", "multiplies zeros where a row has no partner, and 0 · ∞ is NaN", _multiplies_zeros),
    Mutant("rows_without_pairs", "does not zero rows that receive nothing", _leaves_rows_without_pairs),
)
