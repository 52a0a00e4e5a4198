"""three_interpolate_forward: each point's feature is the weighted sum of the features of three cells."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import DType, OpCall, Operator, OutputSpec, Status, TensorSpec, axis, diff1_and_diff2
from mluops_gtest.authoring.c_api import c_function
from mluops_gtest.authoring.exact_numbers import ExactElement, products, total
from mluops_gtest.authoring.left_open import find_subnormal
from mluops_gtest.authoring.sum_of_terms import SumOfTerms, define_sums

from .._shared.interpolation import Direction, interpolation_checks, interpolation_verdict, never_reached
from .._shared.wrong_interpolation import interpolation_suspects

# §1.5.1
CRITERIA: Final = diff1_and_diff2(3e-3)
DIRECTION: Final = Direction("features", "output", CRITERIA)


# The oracle (§1.2): the weights are used as they are, whatever their sign and sum, and each counts, also where a triple
# names one cell again.


def terms(call: OpCall) -> SumOfTerms:
    """Three products per output."""
    return DIRECTION.terms(DIRECTION.cells_of(call), *call.arrays("features", "indices", "weights"))


DEFINITION = define_sums("output", terms, term="cell", place="point")


# One element of output as §1.2 defines it: three products.


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """Σ over t of weights[b, n, t] · features[b, c, indices[b, n, t]]."""
    features, indices, weights = (call.array(name) for name in ("features", "indices", "weights"))

    def output(batch: int, channel: int, point: int) -> Fraction | float:
        named = features[batch, channel, indices[batch, point]]
        return total(products(weights[batch, point], named))

    return {"output": output}


# The kernel that the numpy backend runs: §3.1's split into tiles of points and channels, float32 throughout.


# Points and channels that are on the chip at a time.
POINTS: Final = 4096
CHANNELS: Final = 64


def kernel(call: OpCall) -> Status:
    """Check the call, then interpolate tile by tile."""
    status, computes = interpolation_verdict(call, points="output", cells="features")
    if computes:
        for batch in range(call.tensor("output").dims[0]):
            _interpolate(call, batch)
    return status


def _interpolate(call: OpCall, batch: int) -> None:
    features, output = call.array("features")[batch], call.array("output")[batch]
    indices, weights = call.array("indices")[batch], call.array("weights")[batch].astype(np.float32, copy=False)
    for point in range(0, len(indices), POINTS):
        points = slice(point, point + POINTS)
        for channel in range(0, len(features), CHANNELS):
            channels = slice(channel, channel + CHANNELS)
            tile = features[channels].astype(np.float32, copy=False)
            # Infinite features and weights give what IEEE says; a sum beyond the largest half becomes infinite.
            with np.errstate(over="ignore", invalid="ignore"):
                # §3.1 steps 6 to 9: choose a column per point, scale it, add it; three times.
                total = tile[:, indices[points, 0]] * weights[points, 0]
                for neighbour in (1, 2):
                    total += tile[:, indices[points, neighbour]] * weights[points, neighbour]
                output[channels, points] = total


# With torch: three weighted rows per point are a bag of embeddings; float32 throughout.


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:  # noqa: ARG001 - all operators are called alike
    """Write output; half is computed in float32 and rounded once."""
    from torch.nn.functional import embedding_bag

    batches = zip(*(inputs[name] for name in ("features", "indices", "weights")), outputs["output"], strict=True)
    for features, indices, weights, output in batches:
        cells = features.float().T.contiguous()
        output.copy_(embedding_bag(indices, cells, per_sample_weights=weights.float(), mode="sum").T)


FLOATS = (DType.FLOAT, DType.HALF)

OPERATOR = Operator(
    name="three_interpolate_forward",
    released_name="three_interpolate_forward",
    op_type=("THREE_INTERPOLATE_FORWARD", 2002),
    summary="Interpolates the features of every point from three cells, with a weight each.",
    inputs=(
        TensorSpec("features", "[B, C, M]", FLOATS),
        # §1.4 demands 0 … M − 1. Beyond, the header has the output become 0, the kernel drops the term, and mmcv reads
        # foreign memory. §1.4's limit of 2^23 − 1 is that of a series which is no longer supported.
        TensorSpec("indices", "[B, N, 3]", (DType.INT32,), names="M"),
        TensorSpec("weights", "[B, N, 3]", FLOATS),
    ),
    outputs=(OutputSpec("output", "[B, C, N]", dict.fromkeys(FLOATS, CRITERIA)),),
    axes={
        "points": axis("N", of="output"),
        "cells": axis("M", of="features"),
        "channels": axis("C", of="features"),
        "batches": axis("B", of="features"),
    },
    checks=interpolation_checks("features", "output", points="output", cells="features"),
    subsumed=never_reached("output"),
    definition=DEFINITION,
    kernel=kernel,
    suspects=interpolation_suspects(DIRECTION, DEFINITION.reference),
    left_open={"subnormal": find_subnormal},
    # The document leaves the order of the three additions open.
    order_free=True,
    c_api=c_function("mluOpThreeInterpolateForward"),
    exact=elements,
    torch_kernel=torch_kernel,
)
