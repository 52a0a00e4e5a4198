"""An implementation that shares nothing with the reference: float32, gathers per input row, scatters nothing."""

import numpy as np

from mluops_gtest.authoring import Array, Layout, OpCall, Status

from .._shared.products import gather_sums
from .kernel_checks import refusal


def kernel(call: OpCall) -> Status:
    """Answer the status of the call and, where it computes, write input_grad."""
    status = refusal(call)
    if status is not None:
        return status
    rows = call.array("output_grad").astype(np.float32, copy=False)
    weights = _stacked_weights(call.array("filters"), call.tensor("filters").layout)
    gather_sums(rows, weights, call.array("indice_pairs"), call.param("indice_num"), call.array("input_grad"), to=0)
    return Status.SUCCESS


def _stacked_weights(filters: Array, layout: Layout) -> Array:
    """[K·Co, Ci] float32: under each other the matrices that output rows are multiplied with."""
    dims = filters.shape
    match layout:
        case Layout.NHWC | Layout.NDHWC:
            by_offset = filters.reshape(dims[0], -1, dims[-1]).swapaxes(0, 1)
        case Layout.NCHW | Layout.NCDHW:
            by_offset = np.moveaxis(filters.reshape(dims[0], dims[1], -1), 2, 0)
        case _:
            by_offset = filters.reshape(-1, dims[-2], dims[-1]).swapaxes(1, 2)
    return by_offset.reshape(-1, by_offset.shape[2]).astype(np.float32)
