"""An implementation that shares nothing with the reference: float32, gathers per output row, scatters nothing."""

import numpy as np

from mluops_gtest.authoring import Array, Layout, OpCall, Status

from .._shared.products import gather_sums
from .kernel_checks import refusal


def kernel(call: OpCall) -> Status:
    """Answer the status of the call and, where it computes, write features_out."""
    status = refusal(call)
    if status is not None:
        return status
    rows = call.array("features").astype(np.float32, copy=False)
    weights = _stacked_weights(call.array("filters"), call.tensor("filters").layout)
    gather_sums(rows, weights, call.array("indice_pairs"), call.param("indice_num"), call.array("features_out"), to=1)
    return Status.SUCCESS


def _stacked_weights(filters: Array, layout: Layout) -> Array:
    """[K·Ci, Co] float32: under each other the matrices that input rows are multiplied with."""
    if layout is Layout.NDHWC:
        stacked = filters.reshape(filters.shape[0], -1).T
    elif layout is Layout.NCDHW:
        stacked = np.moveaxis(filters.reshape(*filters.shape[:2], -1), 2, 0).swapaxes(1, 2).reshape(-1, len(filters))
    else:
        stacked = filters.reshape(-1, filters.shape[4])
    return np.ascontiguousarray(stacked, np.float32)
