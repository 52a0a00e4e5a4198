"""Mistakes that kernels make about the three terms of a point."""

from collections.abc import Callable

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.suspects import Suspect, as_read, with_inputs

from .._shared.products import Terms, lost_terms
from .._shared.wrong_interpolation import WRONG_TRIPLES, Entries
from .reference import reference


def _terms(call: OpCall) -> Terms:
    features, indices, weights = (call.array(name) for name in ("features", "indices", "weights"))
    batches, points, _ = indices.shape
    rows = features.swapaxes(1, 2)[np.arange(batches)[:, None, None], indices].astype(np.float64)
    products = rows * weights[..., None]
    return Terms(products.reshape(-1, features.shape[1]), np.repeat(np.arange(batches * points), 3), batches * points)


def _shaped(sums: Array, call: OpCall) -> Array:
    batches, channels, points = call.tensor("output").dims
    return sums.reshape(batches, points, channels).swapaxes(1, 2)


def _same_weights(weight: float) -> Suspect:
    return as_read(reference, lambda call: with_inputs(call, weights=np.full_like(call.array("weights"), weight)))


# Named above, or by the place that they leave.
_TOLD_OTHERWISE = {
    "weights_ignored", "mean_of_three", "third_left_out", "repeated_once", "byte_indices", "tile_base_lost",
    "cell_tail", "point_tail",
}  # fmt: skip


def _misread(change: Callable[[Entries], Entries]) -> Suspect:
    """The three cells and weights of every point as a wrong kernel reads them."""

    def read(call: OpCall) -> OpCall:
        entries = change(Entries(call.array("indices"), call.array("weights"), call.tensor("features").dims[2]))
        indices, weights = (np.ascontiguousarray(array) for array in entries[:2])
        return with_inputs(call, indices=indices.astype(call.array("indices").dtype), weights=weights)

    return as_read(reference, read)


SUSPECTS = {
    **lost_terms("output", "cell", "point", _terms, _shaped),
    "every weight is 1/3": _same_weights(1 / 3),
    "every weight is 1": _same_weights(1),
    **{f"it {message}": _misread(change) for name, message, change in WRONG_TRIPLES if name not in _TOLD_OTHERWISE},
}
