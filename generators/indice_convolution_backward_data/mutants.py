"""Implementations with one plausible mistake each; the small cases must catch every one."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status

from .._shared.wrong_pairs import right_rows
from .._shared.wrong_products import ProductLoop, right_weights

# §1.2.2
LOOP: Final = ProductLoop("output_grad", "input_grad", to=0)


MUTANTS: Final = tuple(LOOP.mutants())


# Right implementations that the document allows; the cases of each tag alone tell them apart.


def _without_zeros(rows: Array, matrix: Array) -> Array:
    """As a kernel for sparse operands does: 0 · ∞ and 0 · NaN are not looked at."""
    rows, weights = rows[:, None], matrix.T[None]
    total: Array = np.where((rows == 0) | (weights == 0), np.float32(0), rows * weights).sum(axis=2)
    return total


def _multiplies_zeros(call: OpCall) -> Status:
    grad, result = call.array("output_grad").astype(np.float32), call.array("input_grad")
    total = np.zeros(result.shape, np.float32)
    for (inputs, outputs), weights in zip(right_rows(call), right_weights(call).astype(np.float32), strict=True):
        met = np.zeros((len(result), grad.shape[1]), np.float32)
        met[inputs] = grad[outputs]
        total += met @ weights.T
    result[...] = total
    return Status.SUCCESS


def _adds_with_compensation(call: OpCall) -> Status:
    """Kahan's sum: beside an infinity the compensation is NaN."""
    grad, result = call.array("output_grad").astype(np.float32), call.array("input_grad")
    total, lost = np.zeros((2, *result.shape), np.float32)
    for (inputs, outputs), weights in zip(right_rows(call), right_weights(call).astype(np.float32), strict=True):
        for channel in range(grad.shape[1]):
            term = grad[outputs, channel, None] * weights[:, channel] - lost[inputs]
            summed = total[inputs] + term
            lost[inputs] = (summed - total[inputs]) - term
            total[inputs] = summed
    result[...] = total
    return Status.SUCCESS


VARIANTS: Final = {
    "subnormal": LOOP.flushing(),
    "undefined": (
        LOOP.variant("zeros_skipped", "takes 0 · ∞ and 0 · NaN for 0", multiply=_without_zeros),
        Mutant("zeros_for_nobody", "multiplies zeros where a row has no partner, and 0 · ∞ is NaN", _multiplies_zeros),
        Mutant("kahan", "adds with compensation, which an infinity makes NaN", _adds_with_compensation),
    ),
}
