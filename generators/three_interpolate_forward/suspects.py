"""Mistakes that kernels make about the three terms of a point."""

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.lost_terms import Terms, lost_terms
from mluops_gtest.authoring.suspects import Suspect, as_read, with_inputs

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


SUSPECTS = {
    **lost_terms("output", "cell", "point", _terms, _shaped),
    "every weight is 1/3": _same_weights(1 / 3),
    "every weight is 1": _same_weights(1),
}
