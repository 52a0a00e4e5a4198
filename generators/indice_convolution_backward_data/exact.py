"""One element of input_grad: input_grad[pairs[k, 0, l], :] += output_grad[pairs[k, 1, l], :] · W_kᵀ (§1.2.2)."""

from collections.abc import Mapping
from fractions import Fraction

from mluops_gtest.authoring import OpCall
from mluops_gtest.authoring.exact_numbers import ExactElement, offset_weights, pairs_naming, products, total


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The products of all pairs whose input is the row."""
    gradients, pairs = call.array("output_grad"), call.array("indice_pairs")
    weights = offset_weights(call.array("filters"), call.tensor("filters").layout)

    def input_grad(row: int, channel: int) -> Fraction | float:
        named = pairs_naming(row, 0, pairs, call.param("indice_num"))
        return total([products(gradients[site], weights[k, channel]) for k, site in named])

    return {"input_grad": input_grad}
