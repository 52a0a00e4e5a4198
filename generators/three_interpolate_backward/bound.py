"""What arithmetic allows: a cell is a sum of the products that meet there, in any order (§1.2)."""

import numpy as np

from mluops_gtest.authoring import Bound, OpCall
from mluops_gtest.authoring.sums import lattice_unit

from .reference import scatter


def bound(call: OpCall) -> dict[str, Bound]:
    """Σ|gradient · weight| of every cell; a term meets the rounding of its product and as many additions as terms."""
    grad, indices, weights = (call.array(name) for name in ("grad_output", "indices", "weights"))
    dims = call.tensor("grad_features").dims
    magnitude, roundings = np.empty(dims, np.float32), np.empty((dims[0], 1, dims[2]), np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        for batch in range(dims[0]):
            scatter(magnitude[batch], np.abs(grad[batch]), indices[batch], np.abs(weights[batch]))
            roundings[batch, 0] = np.bincount(indices[batch].reshape(-1), minlength=dims[2])
    return {"grad_features": Bound(magnitude, roundings, unit=lattice_unit(grad, weights), products=True)}
