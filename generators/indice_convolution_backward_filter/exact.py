"""One element of filters_grad: features[pairs[k, 0, l], ci] · output_grad[pairs[k, 1, l], co] over all pairs of k."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from mluops_gtest.authoring import OpCall
from mluops_gtest.authoring.exact_numbers import ExactElement, products, total


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The products of the pairs of one offset; whatever the layout says, the axes are [Kd,] Kh, Kw, Ci, Co (§1.4)."""
    features, gradients, pairs = (call.array(name) for name in ("features", "output_grad", "indice_pairs"))
    kernel = call.tensor("filters_grad").dims[:-2]

    def filters_grad(*index: int) -> Fraction | float:
        *offset, channel_in, channel_out = index
        k = int(np.ravel_multi_index(tuple(offset), kernel))
        inputs, outputs = pairs[k, :, : call.param("indice_num")[k]]
        return total(products(features[inputs, channel_in], gradients[outputs, channel_out]))

    return {"filters_grad": filters_grad}
