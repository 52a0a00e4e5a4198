"""Recipes: where the pairs of a case come from, and the tensors around them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Layout, RecipeOutput

from .._shared.connections import Connections, Tail, any_pairs, connected, laid_out, pairs_of_layer, site_connections
from .._shared.convolution_space import convolution_space, fewer_pairs, filter_letters
from .._shared.products import Products, Values, by_matrix_products, draw_factor, refuse_unless_conditioned
from .._shared.sparse import Triple, derive_geometry
from . import CRITERIA, forward_products

# The numbers that fill features and weights, and the proof that right kernels can meet the criterion.


# A kernel that rounds to half after every offset, as the released one, may use up half of the threshold: with 27
# offsets of 64 channels it uses a third.
_HALF_STEPS_ROOM: Final = 2
# Output rows that are looked at: small cases wholly, network cases by their first rows.
_HALF_STEPS_ROWS: Final = 1024


def draw_operands(
    draw: Draw, values: Values, dtype: DType, connections: Connections, channels: tuple[int, int]
) -> tuple[Array, Array]:
    """features [L, Ci] and weights [K, Ci, Co] of that kind; both are summed along Ci."""
    channels_in, _ = channels
    offsets = len(connections.counts)
    # Within one offset an output row occurs at most once, so that many products at most meet in one sum.
    terms = offsets * channels_in
    rows = (connections.rows_in, channels_in)
    return (
        draw_factor(draw.stream("features"), values, dtype, rows, terms=terms),
        draw_factor(draw.stream("filters"), values, dtype, (offsets, *channels), terms=terms, axis=1, sign=-1),
    )


def refuse_unless_sound(products: Products, values: Values, dtype: DType) -> None:
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


# The recipe of values that are not finite: where they stand, and which rows they must not reach.


# …_idle: where nothing may show, in the weights of an offset without pairs and in a row that no pair names.
Kind = Literal[
    "weight_inf",
    "weight_nan",
    "weight_idle",
    "feature_inf",
    "feature_nan",
    "feature_idle",
    "inf_minus_inf",
    "zero_times_inf",
    "zero_times_nan",
]


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
    case = made(draw, params, dtype, connections, channels_in=channels_in, channels_out=channels_out)
    counts, rows_out = connections.counts, connections.rows_out
    features, pairs = case.inputs["features"], connections.pairs
    # ARRAY is [K…, Ci, Co] already, so this is a view.
    weights = case.inputs["filters"].reshape(-1, channels_in, channels_out)
    offset = next((k for k, count in enumerate(counts) if 0 < count < rows_out), None)
    idle_offset = next((k for k, count in enumerate(counts) if count == 0), None)
    named = np.concatenate([pairs[k, 0, :count] for k, count in enumerate(counts)])
    idle_rows = np.setdiff1d(np.arange(connections.rows_in), named)
    if offset is None or idle_offset is None or not idle_rows.size or channels_in < 2:
        raise ValueError("some offset must have few pairs and one none, an input row no pair, a sum two products")
    row = pairs[offset, 0, 0]
    match kind:
        case "weight_inf":
            weights[offset, 0, 0] = np.inf
        case "weight_nan":
            weights[offset, 0, 0] = np.nan
        case "weight_idle":
            weights[idle_offset] = np.inf
        case "feature_inf":
            features[row, 0] = -np.inf
        case "feature_nan":
            features[row, 0] = np.nan
        case "feature_idle":
            features[idle_rows[0]] = np.nan
        case "inf_minus_inf":
            features[row, :2], weights[offset, :2, 0] = (np.inf, -np.inf), 1
        case "zero_times_inf":
            features[row, 0], weights[offset, 0, 0] = 0, np.inf
        case "zero_times_nan":
            # At every offset: the two rows may meet at another one, too.
            features[row, 0], weights[:, 0, 0] = np.nan, 0
    return case


nonfinite: Final = connected(some_unmet, _planted)


# What fuzzing draws.


SPACE = convolution_space(
    values=get_args(Values),
    layouts=get_args(LayoutName),
    unmet=True,
    letters=filter_letters,
)


# How a call becomes smaller: as every sparse convolution does.


REDUCTIONS = fewer_pairs("features", "features_out", "filters")


RECIPES: Final = {
    "random_pairs": connected(some_unmet, made),
    "sites": connected(_sites, made),
    "network": connected(pairs_of_layer, made),
    "nonfinite": nonfinite,
}
