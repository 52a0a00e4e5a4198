"""One element of output as §1.2 defines it: three products."""

from collections.abc import Mapping
from fractions import Fraction

from mluops_gtest.authoring import OpCall
from mluops_gtest.authoring.exact_numbers import ExactElement, products, total


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """Σ over t of weights[b, n, t] · features[b, c, indices[b, n, t]]."""
    features, indices, weights = (call.array(name) for name in ("features", "indices", "weights"))

    def output(batch: int, channel: int, point: int) -> Fraction | float:
        named = features[batch, channel, indices[batch, point]]
        return total(products(weights[batch, point], named))

    return {"output": output}
