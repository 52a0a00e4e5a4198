"""Recipes: where the pairs of a case come from, and the tensors around them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from mluops_gtest.authoring import Draw, DType, Layout, RecipeOutput
from mluops_gtest.authoring.connections import (
    Connections,
    Tail,
    layer_connections,
    random_connections,
    site_connections,
)
from mluops_gtest.authoring.factors import Values
from mluops_gtest.authoring.filters import laid_out
from mluops_gtest.authoring.sparse import Triple, derive_geometry

from .reference import forward_products
from .values import draw_operands, refuse_unless_sound

# In lower case, so that a case may be named after its layout.
LayoutName = Literal["ndhwc", "ncdhw", "array"]


def random_pairs(
    draw: Draw,
    params: Mapping[str, Any],
    dtype: DType,
    *,
    kernel: Triple,
    rows_in: int,
    rows_out: int,
    channels_in: int,
    channels_out: int,
    counts: tuple[int, ...] = (),
    unmet: tuple[int, ...] = (),
    tail: Tail = "minus_one",
    layout: LayoutName = "array",
    values: Values = "lattice",
) -> RecipeOutput:
    """Any rows meet, in any order: `counts` pairs per offset; one number is for all, none leaves it to chance.

    No pair names the output rows `unmet`. With sub_m the middle offset pairs every row with itself.
    """
    sub_m = params.get("sub_m", 0) == 1
    met = rows_out - len(unmet)
    connections = random_connections(draw, kernel, rows_in, met, counts=counts, tail=tail, sub_m=sub_m)
    connections = _with_unmet_rows(connections, unmet)
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
    within: bool = False,
    layout: LayoutName = "array",
    values: Values = "lattice",
) -> RecipeOutput:
    """The pairs of a convolution over `count` random active sites; `within` the sites themselves are the outputs.

    With sub_m they are so too, and the pad must put the middle of the kernel onto the site.
    """
    sub_m = params.get("sub_m", 0) == 1
    if sub_m and any(2 * p != k - 1 for p, k in zip(pad, kernel, strict=True)):
        raise ValueError(f"with pad {pad} the middle of kernel {kernel} is no identity; give `within` without sub_m")
    geometry = derive_geometry(batch, space, kernel, stride, pad, dilation, sub_m=sub_m or within)
    connections = replace(site_connections(draw, geometry, count), sub_m=sub_m)
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


def _with_unmet_rows(connections: Connections, unmet: tuple[int, ...]) -> Connections:
    """The same pairs with the output rows spread over more, so that these are named by none."""
    rows_out = connections.rows_out + len(unmet)
    met = np.setdiff1d(np.arange(rows_out, dtype="<i4"), unmet)
    if len(met) != connections.rows_out:
        raise ValueError(f"unmet must be distinct rows below {rows_out}, not {unmet}")
    pairs = connections.pairs.copy()
    named = pairs[:, 1] >= 0
    pairs[:, 1][named] = met[pairs[:, 1][named]]
    return replace(connections, pairs=pairs, rows_out=rows_out)


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
    features, weights = draw_operands(draw, values, dtype, connections, channels)
    refuse_unless_sound(forward_products(features, weights, connections.used, connections.rows_out), values, dtype)
    chosen = Layout.named(layout.upper())
    return RecipeOutput(
        inputs={
            "features": features,
            "filters": laid_out(weights, connections.kernel, chosen),
            "indice_pairs": connections.pairs,
        },
        params={
            "num_active_out": connections.rows_out,
            "inverse": 0,
            **params,
            "sub_m": int(connections.sub_m),
            "indice_num": connections.counts,
        },
        layouts={"filters": chosen},
        outputs={"features_out": (connections.rows_out, channels[1])},
    )
