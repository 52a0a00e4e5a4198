"""Recipes: where the pairs of a case come from, and the tensors around them."""

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Layout, RecipeOutput

from .._shared.connections import Connections, any_pairs, connected, laid_out, pairs_of_layer, pairs_of_sites
from .._shared.convolution_space import convolution_space, fewer_pairs, filter_letters
from .._shared.products import Values, draw_factor, refuse_unless_conditioned
from . import CRITERIA, gradient_products

# In lower case, so that a case may be named after its layout.
LayoutName = Literal["nhwc", "nchw", "hwcn", "ndhwc", "ncdhw", "array"]


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


# The recipe of values that are not finite: where they stand, and which rows they must not reach.


# …_idle: where nothing may show, in the weights of an offset without pairs and in a row that no pair names.
Kind = Literal[
    "weight_inf",
    "weight_nan",
    "weight_idle",
    "grad_inf",
    "grad_nan",
    "grad_idle",
    "inf_minus_inf",
    "zero_times_inf",
    "zero_times_nan",
    "overflow",
]
# By bytes of the type: the square overflows and no other product can take that back; one of them alone stays far from
# the largest number, so that no order of additions overflows in between.
_LARGE: Final = {2: 2.0**10, 4: 2.0**100}


class _Places(NamedTuple):
    """An offset that some rows meet and others do not, an output row that it reads, and what nobody reads."""

    offset: int
    row: int
    idle_offset: int
    idle_row: int


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
    if channels_out < 2:
        raise ValueError("channels_out must be at least 2, so that two products meet in one sum")
    case = made(draw, params, dtype, connections, channels_in=channels_in, channels_out=channels_out)
    grad = case.inputs["output_grad"]
    # ARRAY is [K…, Ci, Co] already, so this is a view.
    weights = case.inputs["filters"].reshape(-1, channels_in, channels_out)
    _plant(kind, grad, weights, _places(connections))
    return case


def _plant(kind: Kind, grad: Array, weights: Array, at: _Places) -> None:
    match kind:
        case "weight_inf":
            weights[at.offset, 0, 0] = np.inf
        case "weight_nan":
            weights[at.offset, 0, 0] = np.nan
        case "weight_idle":
            weights[at.idle_offset] = np.inf
        case "grad_inf":
            grad[at.row, 0] = -np.inf
        case "grad_nan":
            grad[at.row, 0] = np.nan
        case "grad_idle":
            grad[at.idle_row] = np.nan
        case "inf_minus_inf":
            grad[at.row, :2], weights[at.offset, 0, :2] = (np.inf, -np.inf), 1
        case "zero_times_inf":
            grad[at.row, 0], weights[at.offset, 0, 0] = 0, np.inf
        case "zero_times_nan":
            # At every offset: the two rows may meet at another one, too.
            grad[at.row, 0], weights[:, 0, 0] = np.nan, 0
        case "overflow":
            grad[at.row, 0] = weights[at.offset, 0, 0] = _LARGE[grad.dtype.itemsize]


def _places(connections: Connections) -> _Places:
    pairs, counts = connections.pairs, connections.counts
    used = [k for k, count in enumerate(counts) if 0 < count < connections.rows_in]
    idle = [k for k, count in enumerate(counts) if count == 0]
    named = np.concatenate([pairs[k, 1, :count] for k, count in enumerate(counts)])
    unnamed = np.setdiff1d(np.arange(connections.rows_out), named)
    if not used or not idle or not unnamed.size:
        raise ValueError("some offset must have pairs for a part of the rows, one none, and a row must be in no pair")
    return _Places(used[0], int(pairs[used[0], 1, 0]), idle[0], int(unnamed[0]))


nonfinite: Final = connected(any_pairs, _planted)


# What fuzzing draws.


SPACE = convolution_space(
    values=get_args(Values),
    layouts=get_args(LayoutName),
    kernels=((3, 3), (1, 1), (2, 1)),
    letters=filter_letters,
)


# How a call becomes smaller: as every sparse convolution does.


REDUCTIONS = fewer_pairs("input_grad", "output_grad", "filters")


RECIPES: Final = {
    "random_pairs": connected(any_pairs, made),
    "sites": connected(pairs_of_sites, made),
    "network": connected(pairs_of_layer, made),
    "nonfinite": nonfinite,
}
