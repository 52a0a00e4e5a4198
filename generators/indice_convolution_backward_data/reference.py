"""The oracle: the formula of §1.2.2 with sums that are exact in float64, rounded once."""

from mluops_gtest.authoring import Array, Baseline, Bound, OpCall

from .._shared.connections import pairs_in_use, weights_by_offset
from .._shared.products import Products, bound_of, summed


def reference(call: OpCall) -> Baseline:
    """input_grad, the same bits on every machine."""
    return Baseline({"input_grad": summed(products_of(call))})


def bound(call: OpCall) -> dict[str, Bound]:
    """What arithmetic allows: sums of products in any order."""
    return {"input_grad": bound_of(products_of(call))}


def products_of(call: OpCall) -> Products:
    """What the formula adds up in a valid call."""
    # sub_m does not occur here: it changes only the checks, never the arithmetic.
    weights = weights_by_offset(call.array("filters"), call.tensor("filters").layout)
    # Only the first indice_num[k] entries are read: whatever stands behind them is legal.
    used = pairs_in_use(call.array("indice_pairs"), call.param("indice_num"))
    return gradient_products(call.array("output_grad"), weights, used, call.tensor("indice_pairs").dims[2])


def gradient_products(output_grad: Array, weights: Array, used: tuple[Array, ...], rows_in: int) -> Products:
    """Each input row of a pair receives its output row of output_grad times W_kᵀ."""
    # §3.1 step 1 calls the transposed filter [K, Co, Ci]; its own HWCN and §3.8.5 say that W_k is [Ci, Co].
    return Products(output_grad, weights.swapaxes(1, 2), used, rows_in)
