"""Filters of sparse convolutions in every layout, which rows meet at each kernel offset, and recipes around both.

Any rows meet at all, or those of random or swept sites.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_type_hints

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Layout, OpCall, RecipeOutput, SizedAxis, TensorDesc

from .clouds import nearest_sites, network_layer, random_sites, small_layer
from .sparse import Geometry, Triple, derive_geometry, find_pairs, refuse_lonely

# N counts output channels, C input channels, D, H and W are the kernel's own axes.
_KERNEL_AXES: Final = "DHW"
# ARRAY gives no names to its axes: they are [Kd,]Kh,Kw,Ci,Co.
_ARRAY_AXES: Final = "DHWCN"


class Extents(NamedTuple):
    """Kernel offsets K, input channels Ci and output channels Co of a filter."""

    offsets: int
    channels_in: int
    channels_out: int


def axis_letters(layout: Layout, rank: int) -> str:
    """One letter per axis of a filter of that rank; their number differs from `rank` where the two do not fit."""
    return _ARRAY_AXES[-rank:] if layout is Layout.ARRAY else layout.value


def extents(filters: TensorDesc) -> Extents:
    """K, Ci and Co of a filter whose layout fits its rank."""
    lengths = dict(zip(axis_letters(filters.layout, len(filters.dims)), filters.dims, strict=True))
    return Extents(math.prod(lengths.get(axis, 1) for axis in _KERNEL_AXES), lengths["C"], lengths["N"])


def weights_by_offset(filters: Array, layout: Layout) -> Array:
    """The weights as [K, Ci, Co], whatever the layout."""
    letters = axis_letters(layout, filters.ndim)
    canonical = filters.transpose([letters.index(axis) for axis in _ARRAY_AXES[-filters.ndim :]])
    return canonical.reshape(-1, *canonical.shape[-2:])


def without_offset(filters: Array, layout: Layout, index: int) -> Array:
    """The filter with weights of 0 at that kernel offset."""
    others = filters.copy()
    # The kernel's axes stand side by side in every layout, so that these weights are a view.
    weights_by_offset(others, layout)[index] = 0
    return others


def offsets_size() -> SizedAxis:
    """For `sizes`: the kernel offsets. A kernel that loses one sees weights of 0 there."""

    def without(call: OpCall, index: int) -> dict[str, Array]:
        filters = call.tensor("filters")
        return {"filters": without_offset(call.array("filters"), filters.layout, index)}

    return SizedAxis("indice_pairs", 0, without=without)


def laid_out(weights: Array, kernel: tuple[int, ...], layout: Layout) -> Array:
    """The filter tensor of weights [K, Ci, Co] in that layout; `kernel` is (Kh, Kw) or (Kd, Kh, Kw)."""
    canonical = weights.reshape(*kernel, *weights.shape[1:])
    letters = axis_letters(layout, canonical.ndim)
    if len(letters) != canonical.ndim:
        raise ValueError(f"layout {layout.value} has {len(letters)} axes, kernel {kernel} makes {canonical.ndim}")
    return canonical.transpose([_ARRAY_AXES[-canonical.ndim :].index(axis) for axis in letters]).copy()


# What stands behind the pairs in use: −1, as the search for pairs leaves it, or rows that would be legal.
Tail = Literal["minus_one", "stale"]
# Entries of a table up to which one look at all offsets is faster than one at each.
_AT_ONCE: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Connections:
    """Which rows meet: pairs [K, 2, L] int32, how many are in use per offset, the output rows, the kernel's axes."""

    pairs: Array
    counts: tuple[int, ...]
    rows_out: int
    kernel: tuple[int, ...]
    sub_m: bool = False

    @property
    def rows_in(self) -> int:
        """Number of input rows L."""
        return int(self.pairs.shape[2])

    @property
    def used(self) -> tuple[Array, ...]:
        """Per offset the pairs in use, [2, n]: input rows above output rows."""
        return pairs_in_use(self.pairs, self.counts)


def pairs_in_use(pairs: Array, counts: Sequence[int]) -> tuple[Array, ...]:
    """Per offset its first counts[k] pairs, [2, n]: input rows above output rows; what stands behind is not read."""
    return tuple(pairs[k, :, :count] for k, count in enumerate(counts))


def site_connections(draw: Draw, geometry: Geometry, count: int) -> Connections:
    """The pairs of a convolution over `count` random active sites, some of which are neighbours."""
    sites = random_sites(draw.stream("sites"), geometry.batch, geometry.input_space, count)
    connections = _convolved(sites, geometry)
    refuse_lonely(connections.counts)
    return connections


def _convolved(sites: Array, geometry: Geometry) -> Connections:
    found = find_pairs(sites, geometry)
    counts = tuple(found.indice_num.tolist())
    return Connections(found.indice_pairs, counts, len(found.out_indices), geometry.kernel, geometry.sub_m)


def pairs_size(rows: str, side: int) -> SizedAxis:
    """For `sizes`: the pairs of the first offset. A kernel that loses one sees 0 in the row of `rows` that it names."""

    def without(call: OpCall, index: int) -> dict[str, Array]:
        """Where there is one offset, that is the pair alone."""
        array = call.array(rows).copy()
        array[call.array("indice_pairs")[0, side, index]] = 0
        return {rows: array}

    return SizedAxis("indice_pairs", count=lambda call: int(call.param("indice_num")[0]), without=without)


def broken_pairs(
    pairs: Array, counts: Sequence[int], *, offsets: int, rows_in: int, rows_out: int, sub_m: bool = False
) -> str | None:
    """What a table of pairs lacks of what every sparse convolution takes for granted, in words.

    One count per kernel offset; rows that exist, each once per offset; with sub_m as many output rows as input rows
    and a centre that is the identity.
    """
    if len(counts) != offsets:
        return f"indice_num has {len(counts)} entries for {offsets} kernel offsets"
    for side, limit in enumerate((rows_in, rows_out)):
        if pairs[:, side].size <= _AT_ONCE and _all_sound(pairs[:, side], counts, limit):
            continue
        # Where each row was named last. Stale entries of earlier offsets do no harm: only rows named now are asked for.
        places = np.empty(limit, np.int32)
        for offset, count in enumerate(counts):
            broken = _unsound(pairs[offset, side, :count], places)
            if broken is not None:
                return f"indice_pairs[{offset}, {side}] names {broken}"
    if sub_m and rows_in != rows_out:
        return f"with sub_m the {rows_in} input rows must be the output rows too, but there are {rows_out} of those"
    middle = offsets // 2
    inputs, outputs = pairs[middle, :, : counts[middle]]
    # In any order; that no row occurs twice is known by now.
    if sub_m and not (len(inputs) == rows_in and np.array_equal(inputs, outputs)):
        return f"with sub_m the centre, indice_pairs[{middle}], must join each of the {rows_in} rows to itself"
    return None


def _all_sound(pairs: Array, counts: Sequence[int], rows: int) -> bool:
    """The rows that the offsets name on one side exist, each once per offset."""
    count = np.clip(counts, 0, pairs.shape[1])
    named = pairs[np.arange(pairs.shape[1]) < count[:, None]].astype(np.int64)
    if named.size and (named.min() < 0 or named.max() >= rows):
        return False
    keys = np.sort(np.repeat(np.arange(len(count)), count) * rows + named)
    return not (keys[1:] == keys[:-1]).any()


def _unsound(named: Array, places: Array) -> str | None:
    """What is wrong with the rows that one offset names on one side, in words."""
    if not named.size:
        return None
    if named.min() < 0 or named.max() >= len(places):
        return f"a row outside of 0 … {len(places) - 1}"
    order = np.arange(len(named), dtype=np.int32)
    places[named] = order
    again = np.flatnonzero(places[named] != order)
    return f"row {named[again[0]]} more than once" if again.size else None


def connected(connect: Callable[..., Any], around: Callable[..., RecipeOutput]) -> Callable[..., RecipeOutput]:
    """The recipe with the keywords of both: connect(draw, params, …) and then around(draw, params, dtype, found, …)."""
    keywords = {
        name: parameter
        for function in (around, connect)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    own = inspect.signature(connect).parameters.keys()

    def recipe(draw: Draw, params: Mapping[str, Any], dtype: DType, **given: Any) -> RecipeOutput:
        found = connect(draw, params, **{name: value for name, value in given.items() if name in own})
        return around(draw, params, dtype, found, **{name: value for name, value in given.items() if name not in own})

    # What declared cases are checked against, and where the operator's file has it.
    leading = [p for p in inspect.signature(recipe).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    hints = get_type_hints(around) | get_type_hints(connect)
    recipe.__signature__ = inspect.Signature([*leading, *keywords.values()])  # type: ignore[attr-defined]
    recipe.__annotations__ = {name: hints[name] for name in keywords} | {"return": RecipeOutput}
    recipe.__wrapped__ = around  # type: ignore[attr-defined]
    return recipe


def any_pairs(
    draw: Draw,
    params: Mapping[str, Any],
    *,
    kernel: tuple[int, ...],
    rows_in: int,
    rows_out: int,
    counts: tuple[int, ...] = (),
    tail: Tail = "minus_one",
) -> Connections:
    """Any rows meet, in any order: `counts` pairs per offset; one number is for all, none leaves it to chance.

    With sub_m the middle offset pairs every row with itself.
    """
    offsets, most, sub_m = math.prod(kernel), min(rows_in, rows_out), params.get("sub_m", 0) == 1
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
    if sub_m:
        middle = offsets // 2
        counts = (*counts[:middle], rows_in, *counts[middle + 1 :])
        pairs[middle] = np.arange(rows_in)
    if tail == "minus_one":
        for k, count in enumerate(counts):
            pairs[k, :, count:] = -1
    return Connections(pairs, counts, rows_out, kernel, sub_m)


def pairs_of_sites(
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
) -> Connections:
    """The pairs of a convolution over `count` random active sites; with sub_m the outputs are the sites themselves."""
    geometry = derive_geometry(batch, space, kernel, stride, pad, dilation, sub_m=params.get("sub_m", 0) == 1)
    return site_connections(draw, geometry, count)


def pairs_of_layer(draw: Draw, params: Mapping[str, Any], *, layer: str, keep: int = 0) -> Connections:
    """A layer of the detection network; `keep` makes its twin: that many neighbouring sites of a small cloud."""
    del params
    sites, geometry = small_layer(layer, draw) if keep else network_layer(layer, draw)
    return _convolved(nearest_sites(sites, keep) if keep else sites, geometry)
