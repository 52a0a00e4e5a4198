"""Recipes: where the pairs of a case come from, and the tensors around them."""

from collections.abc import Mapping
from typing import Any

from mluops_gtest.authoring import Draw, DType, RecipeOutput
from mluops_gtest.authoring.connections import (
    Connections,
    Tail,
    layer_connections,
    random_connections,
    site_connections,
)
from mluops_gtest.authoring.sparse import Triple, derive_geometry

from .values import Values, draw_operands, refuse_unless_sound


def random_pairs(
    draw: Draw,
    params: Mapping[str, Any],
    dtype: DType,
    *,
    kernel: tuple[int, ...],
    rows_in: int,
    rows_out: int,
    channels_in: int,
    channels_out: int,
    counts: tuple[int, ...] = (),
    tail: Tail = "minus_one",
    values: Values = "lattice",
) -> RecipeOutput:
    """Any rows meet, in any order: `counts` pairs per offset; one number is for all, none leaves it to chance.

    With sub_m the middle offset pairs every row with itself.
    """
    sub_m = params.get("sub_m", 0) == 1
    connections = random_connections(draw, kernel, rows_in, rows_out, counts=counts, tail=tail, sub_m=sub_m)
    return _made(draw, params, dtype, connections, (channels_in, channels_out), values)


def sites(
    draw: Draw,
    params: Mapping[str, Any],
    dtype: DType,
    *,
    space: Triple,
    kernel: Triple,
    count: int,
    channels_in: int,
    channels_out: int,
    batch: int = 1,
    stride: Triple = (1, 1, 1),
    pad: Triple = (0, 0, 0),
    dilation: Triple = (1, 1, 1),
    values: Values = "lattice",
) -> RecipeOutput:
    """The pairs of a convolution over `count` random active sites; with sub_m the outputs are the sites themselves."""
    geometry = derive_geometry(batch, space, kernel, stride, pad, dilation, sub_m=params.get("sub_m", 0) == 1)
    connections = site_connections(draw, geometry, count)
    return _made(draw, params, dtype, connections, (channels_in, channels_out), values)


def network(
    draw: Draw,
    params: Mapping[str, Any],
    dtype: DType,
    *,
    layer: str,
    channels_in: int,
    channels_out: int,
    keep: int = 0,
) -> RecipeOutput:
    """A layer of the detection network; `keep` makes its twin: that many neighbouring sites of a small cloud."""
    connections = layer_connections(draw, layer, keep)
    return _made(draw, params, dtype, connections, (channels_in, channels_out), "lattice")


def _made(
    draw: Draw,
    params: Mapping[str, Any],
    dtype: DType,
    connections: Connections,
    channels: tuple[int, int],
    values: Values,
) -> RecipeOutput:
    """The case around the connections."""
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
