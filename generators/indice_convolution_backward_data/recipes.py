"""Recipes: where the pairs of a case come from, and the tensors around them."""

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

from mluops_gtest.authoring import Draw, DType, Layout, RecipeOutput

from .._shared.connections import Connections, any_pairs, connected, laid_out, pairs_of_layer, pairs_of_sites
from .._shared.convolution import CRITERIA, draw_operands, plant
from .._shared.convolution_space import convolution_space, fewer_pairs
from .._shared.products import Products, Values, refuse_unless_conditioned

# In lower case, so that a case may be named after its layout.
LayoutName = Literal["nhwc", "nchw", "hwcn", "ndhwc", "ncdhw", "array"]


def assemble(
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
    channels = channels_in, channels_out
    output_grad, weights = draw_operands(draw, "output_grad", values, dtype, connections, channels, to=0)
    products = Products(output_grad, weights.swapaxes(1, 2), connections.used, connections.rows_in)
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


Kind = Literal[
    "weight_inf", "weight_nan", "weight_idle", "grad_inf", "grad_nan", "grad_idle", "inf_minus_inf", "zero_times_inf",
    "zero_times_nan", "overflow",
]  # fmt: skip


def _planted(
    draw: Draw,
    params: Mapping[str, Any],
    dtype: DType,
    connections: Connections,
    *,
    channels_in: int,
    channels_out: int,
    kind: Kind,
) -> RecipeOutput:
    """Random pairs; few values are not finite, so that most rows stay so and are still compared."""
    case = assemble(draw, params, dtype, connections, channels_in=channels_in, channels_out=channels_out)
    # ARRAY is [K…, Ci, Co] already, so this is a view.
    matrices = case.inputs["filters"].reshape(-1, channels_in, channels_out).swapaxes(1, 2)
    plant(kind, case.inputs["output_grad"], matrices, connections, to=0)
    return case


SPACE = convolution_space(values=get_args(Values), layouts=get_args(LayoutName), kernels=((3, 3), (1, 1), (2, 1)))
REDUCTIONS = fewer_pairs("input_grad", "output_grad", "filters")
RECIPES: Final = {
    "random_pairs": connected(any_pairs, assemble),
    "sites": connected(pairs_of_sites, assemble),
    "network": connected(pairs_of_layer, assemble),
    "nonfinite": connected(any_pairs, _planted),
}
