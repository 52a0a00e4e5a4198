"""Recipes: where the pairs of a case come from, and the tensors around them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal

import numpy as np

from mluops_gtest.authoring import Draw, DType, Layout, RecipeOutput

from .._shared.connections import Connections, Tail, any_pairs, connected, laid_out, pairs_of_layer, site_connections
from .._shared.products import Values
from .._shared.sparse import Triple, derive_geometry
from .reference import forward_products
from .values import draw_operands, refuse_unless_sound

# In lower case, so that a case may be named after its layout.
LayoutName = Literal["ndhwc", "ncdhw", "array"]


def some_unmet(
    draw: Draw,
    params: Mapping[str, Any],
    *,
    kernel: Triple,
    rows_in: int,
    rows_out: int,
    counts: tuple[int, ...] = (),
    unmet: tuple[int, ...] = (),
    tail: Tail = "minus_one",
) -> Connections:
    """Any rows meet, but no pair names the output rows `unmet`."""
    met = rows_out - len(unmet)
    found = any_pairs(draw, params, kernel=kernel, rows_in=rows_in, rows_out=met, counts=counts, tail=tail)
    return _with_unmet_rows(found, unmet)


def _sites(
    draw: Draw,
    params: Mapping[str, Any],
    *,
    space: Triple,
    kernel: Triple,
    count: int,
    batch: int = 1,
    stride: Triple = (1, 1, 1),
    pad: Triple = (0, 0, 0),
    dilation: Triple = (1, 1, 1),
    within: bool = False,
) -> Connections:
    """The pairs of a convolution over `count` random active sites; `within` the sites themselves are the outputs.

    With sub_m they are so too, and the pad must put the middle of the kernel onto the site.
    """
    sub_m = params.get("sub_m", 0) == 1
    if sub_m and any(2 * p != k - 1 for p, k in zip(pad, kernel, strict=True)):
        raise ValueError(f"with pad {pad} the middle of kernel {kernel} is no identity; give `within` without sub_m")
    geometry = derive_geometry(batch, space, kernel, stride, pad, dilation, sub_m=sub_m or within)
    return replace(site_connections(draw, geometry, count), sub_m=sub_m)


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
    features, weights = draw_operands(draw, values, dtype, connections, (channels_in, channels_out))
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
        outputs={"features_out": (connections.rows_out, channels_out)},
    )


RECIPES: Final = {
    "random_pairs": connected(some_unmet, made),
    "sites": connected(_sites, made),
    "network": connected(pairs_of_layer, made),
}
