"""three_interpolate_backward: each point adds its gradient, weighted, to the gradients of three cells."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, DType, OpCall, Operator, OutputSpec, Status, TensorSpec, axis, diff1_and_diff2
from mluops_gtest.authoring.c_api import c_function
from mluops_gtest.authoring.exact_numbers import ExactElement, products, total
from mluops_gtest.authoring.left_open import find_subnormal
from mluops_gtest.authoring.sum_of_terms import SumOfTerms, define_sums

from .._shared.interpolation import Direction, interpolation_checks, interpolation_verdict, never_reached
from .._shared.wrong_interpolation import interpolation_suspects

# §1.5.1
CRITERIA: Final = diff1_and_diff2(3e-3)
DIRECTION: Final = Direction("grad_output", "grad_features", CRITERIA)


# The oracle (§1.2): every contribution counts, also those of one triple to one cell. A cell that nobody names is 0,
# whatever the buffer held: no document asks the caller to clear it, only mmcv needs that.


def terms(call: OpCall) -> SumOfTerms:
    """All products that meet in a cell (§3.3: in no fixed order)."""
    return DIRECTION.terms(DIRECTION.cells_of(call), *call.arrays("grad_output", "indices", "weights"))


DEFINITION = define_sums("grad_features", terms, term="contribution", place="cell")


# One element of grad_features as §1.2 defines it: every entry that names the cell adds its product.


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """Σ over all (n, t) with indices[b, n, t] = m of grad_output[b, c, n] · weights[b, n, t]."""
    grad, indices, weights = (call.array(name) for name in ("grad_output", "indices", "weights"))

    def grad_features(batch: int, channel: int, cell: int) -> Fraction | float:
        points, entries = np.nonzero(indices[batch] == cell)
        return total(products(grad[batch, channel, points], weights[batch, points, entries]))

    return {"grad_features": grad_features}


# The kernel that the numpy backend runs: §3.1's transposed tiles, contributions sorted by cell, float32 throughout.


# Channels that are on the chip at a time.
CHANNELS: Final = 64


def kernel(call: OpCall) -> Status:
    """Check the call, then add up the contributions to every cell."""
    status, computes = interpolation_verdict(call, points="grad_output", cells="grad_features")
    if computes:
        for batch in range(call.tensor("grad_output").dims[0]):
            _accumulate(call, batch)
    return status


def _accumulate(call: OpCall, batch: int) -> None:
    grad, result = call.array("grad_output")[batch], call.array("grad_features")[batch]
    entries = call.array("indices")[batch].reshape(-1)
    by_cell = np.argsort(entries, kind="stable")
    starts = np.flatnonzero(np.diff(entries[by_cell], prepend=-1))
    cells, points = entries[by_cell[starts]], by_cell // 3
    weights = call.array("weights")[batch].reshape(-1)[by_cell, None].astype(np.float32)
    for first in range(0, len(grad), CHANNELS):
        channels = slice(first, first + CHANNELS)
        # §3.1 step 6: points are rows, so that a contribution is one run of memory.
        tile: Array = np.ascontiguousarray(grad[channels].T, dtype=np.float32)
        # Infinite gradients and weights give what IEEE says; a sum beyond the largest half becomes infinite.
        with np.errstate(over="ignore", invalid="ignore"):
            result[channels] = 0
            result[channels, cells] = np.add.reduceat(tile[points] * weights, starts, axis=0).T


# With torch: the three contributions of every point through index_add_, float32 throughout.


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write grad_features; half is computed in float32 and rounded once."""
    import torch

    channels, cells = call.tensor("grad_features").dims[1:]
    batches = zip(*(inputs[name] for name in ("grad_output", "indices", "weights")), strict=True)
    for (grad, indices, weights), result in zip(batches, outputs["grad_features"], strict=True):
        points = grad.float().T.contiguous()
        sums = torch.zeros((cells, channels), device=grad.device)
        for named, factor in zip(indices.T, weights.float().T, strict=True):
            sums.index_add_(0, named, points * factor[:, None])
        result.copy_(sums.T)


FLOATS = (DType.FLOAT, DType.HALF)

OPERATOR = Operator(
    name="three_interpolate_backward",
    released_name="three_interpolate_backward",
    op_type=("THREE_INTERPOLATE_BACKWARD", 2001),
    summary="Adds the gradient of every point to those of the three cells that it was interpolated from.",
    inputs=(
        TensorSpec("grad_output", "[B, C, N]", FLOATS),
        # §1.4 demands 0 … M − 1; beyond, mmcv writes into foreign memory. §1.4's limit of 2^23 − 1 is that of a series
        # that is no longer supported.
        TensorSpec("indices", "[B, N, 3]", (DType.INT32,), names="M"),
        TensorSpec("weights", "[B, N, 3]", FLOATS),
    ),
    outputs=(OutputSpec("grad_features", "[B, C, M]", dict.fromkeys(FLOATS, CRITERIA)),),
    axes={
        "points": axis("N", of="grad_output"),
        "cells": axis("M", of="grad_features"),
        "channels": axis("C", of="grad_output"),
        "batches": axis("B", of="grad_output"),
    },
    # §1.3 prints grad_features as [B, C, N]; §1.4's [B, C, M] is right, and M is known from it alone.
    checks=interpolation_checks("grad_output", "grad_features", points="grad_output", cells="grad_features"),
    subsumed=never_reached("grad_output"),
    definition=DEFINITION,
    kernel=kernel,
    suspects=interpolation_suspects(DIRECTION, DEFINITION.reference),
    left_open={"subnormal": find_subnormal},
    # §3.3: contributions meet in no fixed order.
    order_free=True,
    c_api=c_function("mluOpThreeInterpolateBackward"),
    exact=elements,
    torch_kernel=torch_kernel,
)
