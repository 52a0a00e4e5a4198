"""The oracle: the formula of §1.2 with sums that are exact in float64, rounded once."""

from mluops_gtest.authoring import Array, Baseline, Bound, OpCall

from .._shared.connections import pairs_in_use, weights_by_offset
from .._shared.products import Products, bound_of, summed


def reference(call: OpCall) -> Baseline:
    """features_out, the same bits on every machine; a row that no pair names is +0."""
    return Baseline({"features_out": summed(products_of(call))})


def bound(call: OpCall) -> dict[str, Bound]:
    """What arithmetic allows: sums of products in any order."""
    return {"features_out": bound_of(products_of(call))}


def products_of(call: OpCall) -> Products:
    """What the formula adds up in a valid call."""
    # sub_m does not occur here: §1.3 calls it a mode, but the pairs already are those of a submanifold convolution.
    # §1.2 takes filter element (k / Kw, k % Kw), its 2-D form; of §1.1's three axes k = (kd·Kh + kh)·Kw + kw.
    weights = weights_by_offset(call.array("filters"), call.tensor("filters").layout)
    # §3.1: indice_num[k] entries are computed with; whatever stands behind them is legal.
    used = pairs_in_use(call.array("indice_pairs"), call.param("indice_num"))
    # §1.4: num_act_out is the right number of output rows; a check compares it with features_out.
    return forward_products(call.array("features"), weights, used, call.param("num_active_out"))


def forward_products(features: Array, weights: Array, used: tuple[Array, ...], rows_out: int) -> Products:
    """Each output row of a pair receives its input row of features times W_k [Ci, Co]."""
    # §1.2's formula exchanges the rows of a pair; §3.1 gathers by row 0 and scatters by row 1, as get_indice_pairs
    # writes them and as a dense convolution confirms.
    return Products(features, weights, tuple(pairs[::-1] for pairs in used), rows_out)
