"""Recipes: where the pairs of a case come from, and the tensors around them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Layout, RecipeOutput
from mluops_gtest.authoring.clouds import network_layer, random_sites, small_layer
from mluops_gtest.authoring.sparse import Geometry, Triple, derive_output_space, find_pairs, refuse_lonely

from .filters import laid_out
from .reference import Operands
from .values import Values, draw_operands, refuse_unless_sound

# What stands behind the first indice_num[k] pairs: −1, as get_indice_pairs leaves it, or rows that would be legal.
Tail = Literal["minus_one", "stale"]
# In lower case, so that a case may be named after its layout.
LayoutName = Literal["nhwc", "nchw", "hwcn", "ndhwc", "ncdhw", "array"]


@dataclass(frozen=True, slots=True)
class _Connections:
    """Which rows meet: indice_pairs [K, 2, L], the pairs in use per offset, the output rows, the kernel's axes."""

    pairs: Array
    counts: tuple[int, ...]
    rows_out: int
    kernel: tuple[int, ...]


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
    offsets, most = math.prod(kernel), min(rows_in, rows_out)
    if not counts:
        counts = tuple(draw.stream("counts").integers(0, most + 1, offsets).tolist())
    elif len(counts) == 1:
        counts *= offsets
    if len(counts) != offsets or not 0 <= min(counts) <= max(counts) <= most:
        raise ValueError(f"counts must be one number or {offsets}, each in 0 … {most}, not {counts}")
    pairs = np.empty((offsets, 2, rows_in), "<i4")
    for k in range(offsets):
        pairs[k, 0] = draw.stream(f"inputs/{k}").permutation(rows_in)
        pairs[k, 1] = np.resize(draw.stream(f"outputs/{k}").permutation(rows_out), rows_in)
    if params.get("sub_m", 0) == 1:
        middle = offsets // 2
        counts = (*counts[:middle], rows_in, *counts[middle + 1 :])
        pairs[middle] = np.arange(rows_in)
    if tail == "minus_one":
        for k, count in enumerate(counts):
            pairs[k, :, count:] = -1
    connections = _Connections(pairs, counts, rows_out, kernel)
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
    sub_m = params.get("sub_m", 0) == 1
    output_space = space if sub_m else derive_output_space(space, kernel, stride, pad, dilation)
    geometry = Geometry(batch, space, kernel, stride, pad, dilation, output_space, sub_m)
    connections = _connections(random_sites(draw.stream("sites"), batch, space, count), geometry)
    refuse_lonely(connections.counts)
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
    indices, geometry = small_layer(layer, draw) if keep else network_layer(layer, draw)
    if keep:
        distance = np.abs(indices - indices[len(indices) // 2]).sum(axis=1)
        indices = indices[np.sort(np.argsort(distance, kind="stable")[:keep])]
    params = {**params, "sub_m": int(geometry.sub_m)}
    return _made(draw, params, dtype, _connections(indices, geometry), (channels_in, channels_out), "array", "lattice")


def _connections(indices: Array, geometry: Geometry) -> _Connections:
    found = find_pairs(indices, geometry)
    counts = tuple(found.indice_num.tolist())
    return _Connections(found.indice_pairs, counts, len(found.out_indices), geometry.kernel)


def _made(
    draw: Draw,
    params: Mapping[str, Any],
    dtype: DType,
    connections: _Connections,
    channels: tuple[int, int],
    layout: LayoutName,
    values: Values,
) -> RecipeOutput:
    """The case around the connections: weights are drawn as [K, Ci, Co], so every layout gets the same ones."""
    channels_in, channels_out = channels
    weights_shape = math.prod(connections.kernel), channels_in, channels_out
    output_grad, weights = draw_operands(draw, values, dtype, (connections.rows_out, channels_out), weights_shape)
    rows = connections.pairs.shape[2]
    used = tuple(pairs[:, :count] for pairs, count in zip(connections.pairs, connections.counts, strict=True))
    refuse_unless_sound(Operands(output_grad, weights, used, rows), values, dtype)
    chosen = Layout.named(layout.upper())
    return RecipeOutput(
        inputs={
            "output_grad": output_grad,
            "filters": laid_out(weights, connections.kernel, chosen),
            "indice_pairs": connections.pairs,
        },
        params={"inverse": 0, "sub_m": 0, **params, "indice_num": connections.counts},
        layouts={"filters": chosen},
        outputs={"input_grad": (rows, channels_in)},
    )
