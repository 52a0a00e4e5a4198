"""Implementations with one plausible mistake each; the small cases must catch every one."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.mistakes import infinities_clipped, nan_lost
from mluops_gtest.authoring.wrong_pairs import right_rows
from mluops_gtest.authoring.wrong_products import ProductLoop
from mluops_gtest.authoring.wrong_weights import right_weights

# §1.2.2
_LOOP: Final = ProductLoop("output_grad", "input_grad", to=0)


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


MUTANTS: Final = (
    *_LOOP.mutants(),
    _LOOP.variant("zeros_skipped", "takes 0 · ∞ and 0 · NaN for 0", multiply=_without_zeros),
    Mutant("zeros_for_nobody", "multiplies zeros where a row has no partner, and 0 · ∞ is NaN", _multiplies_zeros),
    nan_lost(_LOOP.right, "input_grad"),
    infinities_clipped(_LOOP.right, "input_grad"),
)
