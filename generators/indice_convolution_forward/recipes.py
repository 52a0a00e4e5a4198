"""Recipes: where the pairs of a case come from, and the tensors around them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Layout, RecipeOutput

from .._shared.connections import Connections, Tail, any_pairs, connected, laid_out, pairs_of_layer, site_connections
from .._shared.convolution import CRITERIA, draw_operands, plant
from .._shared.convolution_space import convolution_space, fewer_pairs
from .._shared.products import Products, Values, by_matrix_products, refuse_unless_conditioned
from .._shared.sparse import Triple, derive_geometry

# A kernel that rounds to half after every offset, as the released one, may use up half of the threshold: with 27
# offsets of 64 channels it uses a third.
_HALF_STEPS_ROOM: Final = 2
# Output rows that are looked at: small cases wholly, network cases by their first rows.
_HALF_STEPS_ROWS: Final = 1024


def _refuse_unless_sound(products: Products, values: Values, dtype: DType) -> None:
    """Any order of float32 additions, and for half rounding after every offset, must stay far within the criterion."""
    refuse_unless_conditioned(products, CRITERIA[dtype], lattice=values == "lattice")
    if dtype is DType.HALF:
        _refuse_unless_half_steps_pass(products)


def _refuse_unless_half_steps_pass(products: Products) -> None:
    """Raise ValueError where sums that become half after every offset come near the threshold."""
    count = min(products.count, _HALF_STEPS_ROWS)
    first = replace(products, count=count, meetings=tuple(pairs[:, pairs[0] < count] for pairs in products.meetings))
    # Rounded once, as the baseline is.
    wanted = by_matrix_products(first).astype(np.float64)
    error = np.abs(summed_in_half_steps(first) - wanted)
    shares = (error.sum() / (np.abs(wanted).sum() + 1e-9), np.sqrt((error**2).sum() / ((wanted**2).sum() + 1e-9)))
    allowed = CRITERIA[DType.HALF][0].threshold / _HALF_STEPS_ROOM
    if not max(shares) <= allowed:
        raise ValueError(
            f"rounding to half after every offset costs {max(shares):.3g}, allowed is {allowed:.3g}: the released "
            "kernel could fail; give fewer offsets per sum, or terms that cancel less"
        )


def summed_in_half_steps(products: Products) -> Array:
    """The sums as the released kernel makes them from half: float32 within an offset, half after each."""
    sums = np.zeros(products.shape, np.float16)
    for matrix, (targets, sources) in zip(products.matrices, products.meetings, strict=True):
        part = products.rows[sources].astype(np.float32) @ matrix.astype(np.float32)
        sums[targets] += part.astype(np.float16)
    return sums.astype(np.float64)


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
    features, weights = draw_operands(draw, "features", values, dtype, connections, channels, to=1)
    meetings = tuple(pairs[::-1] for pairs in connections.used)
    _refuse_unless_sound(Products(features, weights, meetings, connections.rows_out), values, dtype)
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


Kind = Literal[
    "weight_inf", "weight_nan", "weight_idle", "feature_inf", "feature_nan", "feature_idle", "inf_minus_inf",
    "zero_times_inf", "zero_times_nan",
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
    weights = case.inputs["filters"].reshape(-1, channels_in, channels_out)
    plant(kind, case.inputs["features"], weights, connections, to=1)
    return case


SPACE = convolution_space(values=get_args(Values), layouts=get_args(LayoutName), unmet=True)
REDUCTIONS = fewer_pairs("features", "features_out", "filters")
RECIPES: Final = {
    "random_pairs": connected(some_unmet, assemble),
    "sites": connected(_sites, assemble),
    "network": connected(pairs_of_layer, assemble),
    "nonfinite": connected(some_unmet, _planted),
}
