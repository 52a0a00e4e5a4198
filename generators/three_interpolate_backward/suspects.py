"""Mistakes that kernels make where contributions meet in a cell (§3.3: in no fixed order)."""

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.lost_terms import Terms, lost_terms
from mluops_gtest.authoring.suspects import as_read, with_inputs

from .reference import reference


def _contributions(call: OpCall) -> Terms:
    grad, indices, weights = (call.array(name) for name in ("grad_output", "indices", "weights"))
    batches, _, cells = call.tensor("grad_features").dims
    products = grad.swapaxes(1, 2)[:, :, None].astype(np.float64) * weights[..., None]
    places = np.arange(batches)[:, None, None] * cells + indices
    return Terms(products.reshape(-1, grad.shape[1]), places.reshape(-1), batches * cells)


def _shaped(sums: Array, call: OpCall) -> Array:
    batches, channels, cells = call.tensor("grad_features").dims
    return sums.reshape(batches, cells, channels).swapaxes(1, 2)


SUSPECTS = {
    **lost_terms("grad_features", "contribution", "cell", _contributions, _shaped),
    "every weight is 1": as_read(
        reference, lambda call: with_inputs(call, weights=np.ones_like(call.array("weights")))
    ),
}
