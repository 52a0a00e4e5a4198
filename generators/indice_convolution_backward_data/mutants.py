"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.interpolation import shortened
from mluops_gtest.authoring.mistakes import (
    cached_by_shape,
    infinities_clipped,
    input_cleared,
    left,
    nan_lost,
    part_left,
    sum_goes_on,
    tails_left,
)
from mluops_gtest.authoring.roundings import WRONG_WRITES, flushed
from mluops_gtest.authoring.wrong_pairs import Rows, right_rows, wrong_pairs
from mluops_gtest.authoring.wrong_weights import right_weights, wrong_weights


def _add(total: Array, rows: Array, part: Array) -> None:
    np.add.at(total, rows, part)


def _as_it_is(values: Array) -> Array:
    return values


def _matrix_product(rows: Array, weights: Array) -> Array:
    return rows @ weights.T


def _write(result: Array, total: Array) -> None:
    result[...] = total


def _variant(
    name: str,
    message: str,
    *,
    weights: Callable[[OpCall], Array] = right_weights,
    rows: Callable[[OpCall], list[Rows]] = right_rows,
    multiply: Callable[[Array, Array], Array] = _matrix_product,
    scatter: Callable[[Array, Array, Array], None] = _add,
    rounded: Callable[[Array], Array] = _as_it_is,
    write: Callable[[Array, Array], None] = _write,
) -> Mutant:
    """The plain loop of §1.2.2 in float32 with one part exchanged."""

    def run(call: OpCall) -> Status:
        grad = rounded(call.array("output_grad").astype(np.float32))
        total = np.zeros(call.tensor("input_grad").dims, np.float32)
        with np.errstate(invalid="ignore", over="ignore"):
            by_offset = rounded(weights(call).astype(np.float32))
            for (inputs, outputs), weight in zip(rows(call), by_offset, strict=True):
                scatter(total, inputs, multiply(grad[outputs], weight))
            write(call.array("input_grad"), total)
        return Status.SUCCESS

    return Mutant(name, message, run)


_RIGHT: Final = _variant("", "").run


def _overwrite(total: Array, rows: Array, part: Array) -> None:
    total[rows] = part


def _largest(total: Array, rows: Array, part: Array) -> None:
    np.maximum.at(total, rows, part)


def _without_zeros(rows: Array, weights: Array) -> Array:
    """As a kernel for sparse operands does: 0 · ∞ and 0 · NaN are not looked at."""
    products = np.where((rows[:, None] == 0) | (weights[None] == 0), np.float32(0), rows[:, None] * weights[None])
    total: Array = products.sum(axis=2)
    return total


def _adds_to_what_was_there(call: OpCall) -> Status:
    before = call.array("input_grad").copy()
    status = _RIGHT(call)
    with np.errstate(invalid="ignore", over="ignore"):
        call.array("input_grad")[...] += before
    return status


def _accumulates_in_own_type(call: OpCall) -> Status:
    grad, result = call.array("output_grad"), call.array("input_grad")
    total = np.zeros_like(result)
    for (inputs, outputs), weights in zip(right_rows(call), right_weights(call), strict=True):
        for channel in range(grad.shape[1]):
            np.add.at(total, inputs, grad[outputs, channel, None] * weights[:, channel])
    result[...] = total
    return Status.SUCCESS


def _rows_without_pairs(call: OpCall) -> Array:
    received = np.zeros(call.tensor("input_grad").dims[0], np.bool_)
    for inputs, _ in right_rows(call):
        received[inputs] = True
    return ~received


def _multiplies_zeros(call: OpCall) -> Status:
    grad, result = call.array("output_grad").astype(np.float32), call.array("input_grad")
    total = np.zeros(result.shape, np.float32)
    for (inputs, outputs), weights in zip(right_rows(call), right_weights(call).astype(np.float32), strict=True):
        met = np.zeros((len(result), grad.shape[1]), np.float32)
        met[inputs] = grad[outputs]
        total += met @ weights.T
    result[...] = total
    return Status.SUCCESS


MUTANTS: Final = (
    *(_variant(one.name, one.message, weights=one.weights) for one in wrong_weights(summed=2)),
    *(_variant(one.name, one.message, rows=one.rows) for one in wrong_pairs("input_grad", "output_grad")),
    *(_variant(name, message, write=write) for name, message, write in WRONG_WRITES),
    _variant("overwrites", "updates rows instead of adding to them, §3.1 step 6 without step 7", scatter=_overwrite),
    _variant("maximum", "takes the largest product of an offset instead of the sum", scatter=_largest),
    _variant("bfloat16_products", "multiplies in bfloat16", rounded=lambda values: shortened(values, 8)),
    _variant("tf32_products", "multiplies in TF32", rounded=lambda values: shortened(values, 11)),
    _variant("tiny_factors_flushed", "takes subnormal gradients and weights for 0", rounded=flushed),
    _variant("zeros_skipped", "takes 0 · ∞ and 0 · NaN for 0", multiply=_without_zeros),
    *tails_left(_RIGHT, "input_grad", 0, "rows", tiles=(16, 32, 64)),
    *tails_left(_RIGHT, "input_grad", 1, "channels", tiles=(16, 32, 64)),
    part_left(_RIGHT, "input_grad", 0, "rows"),
    left("rows_without_pairs", "does not zero rows that receive nothing", _RIGHT, "input_grad", _rows_without_pairs),
    Mutant("output_not_zeroed", "adds to what the output held before", _adds_to_what_was_there),
    Mutant("own_type", "accumulates half in half", _accumulates_in_own_type),
    Mutant("zeros_for_nobody", "multiplies zeros where a row has no partner, and 0 · ∞ is NaN", _multiplies_zeros),
    nan_lost(_RIGHT, "input_grad"),
    infinities_clipped(_RIGHT, "input_grad"),
    input_cleared(_RIGHT, "output_grad"),
    cached_by_shape(_RIGHT),
    sum_goes_on(_RIGHT, "input_grad"),
)
