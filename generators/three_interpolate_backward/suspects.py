"""Mistakes that kernels make where contributions meet in a cell (§3.3: in no fixed order)."""

from collections.abc import Callable

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.suspects import Suspect, as_read, with_inputs

from .._shared.products import Terms, lost_terms
from .._shared.wrong_interpolation import WRONG_TRIPLES, Entries
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


# Named above, or by the place that they leave.
_TOLD_OTHERWISE = {
    "weights_ignored", "repeated_once", "byte_indices", "tile_base_lost", "cell_tail", "point_tail",
}  # fmt: skip


def _misread(change: Callable[[Entries], Entries]) -> Suspect:
    """The three cells and weights of every point as a wrong kernel reads them."""

    def read(call: OpCall) -> OpCall:
        entries = change(Entries(call.array("indices"), call.array("weights"), call.tensor("grad_features").dims[2]))
        indices, weights = (np.ascontiguousarray(array) for array in entries[:2])
        return with_inputs(call, indices=indices.astype(call.array("indices").dtype), weights=weights)

    return as_read(reference, read)


SUSPECTS = {
    **lost_terms("grad_features", "contribution", "cell", _contributions, _shaped),
    "every weight is 1": as_read(
        reference, lambda call: with_inputs(call, weights=np.ones_like(call.array("weights")))
    ),
    **{f"it {message}": _misread(change) for name, message, change in WRONG_TRIPLES if name not in _TOLD_OTHERWISE},
}
