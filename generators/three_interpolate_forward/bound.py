"""What arithmetic allows: an output is a sum of three products, in any order (§1.2)."""

import numpy as np

from mluops_gtest.authoring import Bound, OpCall
from mluops_gtest.authoring.rows import blended
from mluops_gtest.authoring.sums import lattice_unit

from .reference import interpolate


def bound(call: OpCall) -> dict[str, Bound]:
    """Σ|weight · feature| of every output; a term meets the rounding of its product and two additions."""
    features, weights = (call.array(name) for name in ("features", "weights"))
    magnitude = np.empty(call.tensor("output").dims, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for batch, indices in enumerate(call.array("indices")):
            interpolate(magnitude[batch], np.abs(features[batch]), indices, np.abs(weights[batch]), blended)
    return {"output": Bound(magnitude, 3, unit=lattice_unit(features, weights), products=True)}
