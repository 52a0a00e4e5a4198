"""One element of features_out: features_out[pairs[k, 1, l], :] += features[pairs[k, 0, l], :] · W_k (§3.1)."""

from collections.abc import Mapping
from fractions import Fraction

from mluops_gtest.authoring import OpCall
from mluops_gtest.authoring.exact_numbers import ExactElement, offset_weights, pairs_naming, products, total


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The products of all pairs whose output is the row."""
    features, pairs = call.array("features"), call.array("indice_pairs")
    weights = offset_weights(call.array("filters"), call.tensor("filters").layout)

    def features_out(row: int, channel: int) -> Fraction | float:
        named = pairs_naming(row, 1, pairs, call.param("indice_num"))
        return total([products(features[site], weights[k, :, channel]) for k, site in named])

    return {"features_out": features_out}
