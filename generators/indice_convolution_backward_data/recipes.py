"""Recipes: where the pairs of a case come from, and the tensors around them."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from mluops_gtest.authoring import Criterion, Draw, DType, Layout, RecipeOutput, diff1_and_diff2

from .._shared.connections import Connections, any_pairs, connected, laid_out, pairs_of_layer, pairs_of_sites
from .._shared.products import Values, draw_factor, refuse_unless_conditioned
from .reference import gradient_products

# In lower case, so that a case may be named after its layout.
LayoutName = Literal["nhwc", "nchw", "hwcn", "ndhwc", "ncdhw", "array"]

# §1.5.1
CRITERIA: Final[dict[DType, tuple[Criterion, ...]]] = {
    DType.FLOAT: diff1_and_diff2(1e-5),
    DType.HALF: diff1_and_diff2(3e-3),
}


def made(
    draw: Draw,
    params: Mapping[str, Any],
    dtype: DType,
    connections: Connections,
    *,
    channels_in: int,
    channels_out: int,
    layout: LayoutName = "array",
    values: Values = "lattice",
) -> RecipeOutput:
    """The case around the connections: weights are drawn as [K, Ci, Co], so every layout gets the same ones."""
    offsets = len(connections.counts)
    # Both factors are summed along Co; within one offset an input row occurs at most once.
    terms = offsets * channels_out
    grad_shape = (connections.rows_out, channels_out)
    output_grad = draw_factor(draw.stream("output_grad"), values, dtype, grad_shape, terms=terms)
    weights = draw_factor(
        draw.stream("filters"), values, dtype, (offsets, channels_in, channels_out), terms=terms, sign=-1
    )
    products = gradient_products(output_grad, weights, connections.used, connections.rows_in)
    refuse_unless_conditioned(products, CRITERIA[dtype], lattice=values == "lattice")
    chosen = Layout.named(layout.upper())
    return RecipeOutput(
        inputs={
            "output_grad": output_grad,
            "filters": laid_out(weights, connections.kernel, chosen),
            "indice_pairs": connections.pairs,
        },
        params={"inverse": 0, **params, "sub_m": int(connections.sub_m), "indice_num": connections.counts},
        layouts={"filters": chosen},
        outputs={"input_grad": (connections.rows_in, channels_in)},
    )


RECIPES: Final = {
    "random_pairs": connected(any_pairs, made),
    "sites": connected(pairs_of_sites, made),
    "network": connected(pairs_of_layer, made),
}
