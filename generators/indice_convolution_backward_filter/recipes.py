"""Recipes: where the pairs of a case come from, and the tensors around them."""

from collections.abc import Mapping
from typing import Any, Final

from mluops_gtest.authoring import Draw, DType, RecipeOutput

from .._shared.connections import Connections, any_pairs, connected, pairs_of_layer, pairs_of_sites
from .values import Values, draw_operands, refuse_unless_sound


def made(
    draw: Draw,
    params: Mapping[str, Any],
    dtype: DType,
    connections: Connections,
    *,
    channels_in: int,
    channels_out: int,
    values: Values = "lattice",
) -> RecipeOutput:
    """The case around the connections."""
    channels = channels_in, channels_out
    operands = draw_operands(draw, values, dtype, connections, channels)
    refuse_unless_sound(operands, values, dtype)
    return RecipeOutput(
        inputs={
            "features": operands.features,
            "output_grad": operands.output_grad,
            "indice_pairs": connections.pairs,
        },
        params={"inverse": 0, **params, "sub_m": int(connections.sub_m), "indice_num": connections.counts},
        outputs={"filters_grad": (*connections.kernel, *channels)},
    )


RECIPES: Final = {
    "random_pairs": connected(any_pairs, made),
    "sites": connected(pairs_of_sites, made),
    "network": connected(pairs_of_layer, made),
}
