"""One element of grad_features as §1.2 defines it: every entry that names the cell adds its product."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from mluops_gtest.authoring import OpCall
from mluops_gtest.authoring.exact_numbers import ExactElement, products, total


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """Σ over all (n, t) with indices[b, n, t] = m of grad_output[b, c, n] · weights[b, n, t]."""
    grad, indices, weights = (call.array(name) for name in ("grad_output", "indices", "weights"))

    def grad_features(batch: int, channel: int, cell: int) -> Fraction | float:
        points, entries = np.nonzero(indices[batch] == cell)
        return total(products(grad[batch, channel, points], weights[batch, points, entries]))

    return {"grad_features": grad_features}
