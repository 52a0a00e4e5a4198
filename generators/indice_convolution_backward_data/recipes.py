"""Recipes: where the pairs of a case come from, and the tensors around them."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from mluops_gtest.authoring import Criterion, Draw, DType, Layout, RecipeOutput, diff1_and_diff2
from mluops_gtest.authoring.connections import (
    Connections,
    Tail,
    layer_connections,
    random_connections,
    site_connections,
)
from mluops_gtest.authoring.factors import Values, draw_factor
from mluops_gtest.authoring.filters import laid_out
from mluops_gtest.authoring.products import refuse_unless_conditioned
from mluops_gtest.authoring.sparse import Triple, derive_geometry

from .reference import gradient_products

# In lower case, so that a case may be named after its layout.
LayoutName = Literal["nhwc", "nchw", "hwcn", "ndhwc", "ncdhw", "array"]

# §1.5.1
CRITERIA: Final[dict[DType, tuple[Criterion, ...]]] = {
    DType.FLOAT: diff1_and_diff2(1e-5),
    DType.HALF: diff1_and_diff2(3e-3),
}


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
    layout: LayoutName = "array",
    values: Values = "lattice",
) -> RecipeOutput:
    """Any rows meet, in any order: `counts` pairs per offset; one number is for all, none leaves it to chance.

    With sub_m the middle offset pairs every row with itself.
    """
    sub_m = params.get("sub_m", 0) == 1
    connections = random_connections(draw, kernel, rows_in, rows_out, counts=counts, tail=tail, sub_m=sub_m)
    return _made(draw, params, dtype, connections, (channels_in, channels_out), layout, values)


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
    layout: LayoutName = "array",
    values: Values = "lattice",
) -> RecipeOutput:
    """The pairs of a convolution over `count` random active sites; with sub_m the outputs are the sites themselves."""
    geometry = derive_geometry(batch, space, kernel, stride, pad, dilation, sub_m=params.get("sub_m", 0) == 1)
    connections = site_connections(draw, geometry, count)
    return _made(draw, params, dtype, connections, (channels_in, channels_out), layout, values)


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
    """A layer of the detection network (§3.7); `keep` makes its twin: that many neighbouring sites of a small cloud."""
    connections = layer_connections(draw, layer, keep)
    return _made(draw, params, dtype, connections, (channels_in, channels_out), "array", "lattice")


def _made(
    draw: Draw,
    params: Mapping[str, Any],
    dtype: DType,
    connections: Connections,
    channels: tuple[int, int],
    layout: LayoutName,
    values: Values,
) -> RecipeOutput:
    """The case around the connections: weights are drawn as [K, Ci, Co], so every layout gets the same ones."""
    channels_in, channels_out = channels
    offsets = len(connections.counts)
    # Both factors are summed along Co; within one offset an input row occurs at most once.
    terms = offsets * channels_out
    grad_shape = (connections.rows_out, channels_out)
    output_grad = draw_factor(draw.stream("output_grad"), values, dtype, grad_shape, terms=terms)
    weights = draw_factor(draw.stream("filters"), values, dtype, (offsets, *channels), terms=terms, sign=-1)
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
