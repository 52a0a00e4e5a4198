"""An implementation that shares nothing with the reference: float32, the sums cut into tiles of pairs."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import OpCall, Status

from .kernel_checks import refusal

# Pairs per tile: enough that the threads of BLAS seldom wait for each other, and few enough that a float32 sum of
# hundreds of thousands of products loses little, because tiles are summed apart.
_TILE: Final = 4096


def kernel(call: OpCall) -> Status:
    """Answer the status of the call and, where it computes, write filters_grad."""
    status = refusal(call)
    if status is not None:
        return status
    features, grad = (call.array(name).astype(np.float32, copy=False) for name in ("features", "output_grad"))
    result = call.array("filters_grad")
    # [Co, Ci] per offset: the gathered gradients come first in the product.
    sums = np.zeros((len(call.param("indice_num")), grad.shape[1], features.shape[1]), np.float32)
    # Infinite inputs may make NaN, and rounding a sum beyond the largest half gives an infinity, as the device does.
    with np.errstate(over="ignore", invalid="ignore"):
        for k, count in enumerate(call.param("indice_num")):
            inputs, outputs = call.array("indice_pairs")[k]
            for first in range(0, count, _TILE):
                tile = slice(first, min(first + _TILE, count))
                sums[k] += grad[outputs[tile]].T @ features[inputs[tile]]
        result[...] = sums.swapaxes(1, 2).reshape(result.shape)
    return Status.SUCCESS
