"""Recipes: places on a lattice on which no sum rounds, places anywhere, listed ones, and those of a network."""

import math
from collections.abc import Mapping
from typing import Any, Final, Literal

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .._shared.boxes import uniform

Ints = tuple[int, ...]
# anywhere: up to one pixel and a quarter outside; inside: all four pixels are there, where the map has them.
Where = Literal["anywhere", "inside"]
# lattice: few bits. full: every bit of a mantissa; wide: many exponents; positive: without signs.
Values = Literal["lattice", "full", "wide", "positive"]
Kind = Literal[
    "pixel_nan", "pixel_inf", "pixel_negative_inf", "inf_minus_inf", "weight_nan", "idle_nan", "idle_inf",
    "outside_nan", "outside_inf", "outside_negative_inf", "zero_times_inf",
]  # fmt: skip

_MAPS: Final = (4, 8, 2, 2)
_EXPONENTS: Final = {"full": (-3, -1), "positive": (-3, -1), "wide": (-12, 3)}
# The widest map of which places of every bit are compared, and the widest of lattices.
_WIDEST: Final = 256


def _shapes(maps: Ints) -> tuple[Array, Array, int]:
    """data_spatial_shapes, data_level_start_index, and the keys of all levels, which are listed as h, w."""
    shapes = np.array(maps, "<i4").reshape(-1, 2)
    pixels = shapes.prod(axis=1)
    return shapes, (np.cumsum(pixels) - pixels).astype("<i4"), int(pixels.sum())


def _values(draw: Draw, name: str, kind: Values, shape: tuple[int, ...], bits: int) -> Array:
    stream = draw.stream(name)
    if kind == "lattice":
        return stream.lattice(shape, bits)
    drawn = stream.mantissas(shape, _EXPONENTS[kind])
    return np.abs(drawn) if kind == "positive" else drawn


def _quarters(draw: Draw, shapes: Array, shape: tuple[int, ...], where: Where) -> Array:
    """float32 locations [..., L, P, 2] of places that are multiples of a quarter."""
    locations = np.empty((*shape, 2), np.float32)
    for level, sizes in enumerate(shapes.tolist()):
        for number, size in enumerate(reversed(sizes)):
            if size & (size - 1) or size > 4096:
                raise ValueError(f"a lattice needs sizes that are powers of two up to 4096, not {size}")
            low, high = (-5, 4 * size + 2) if where == "anywhere" else (0, 4 * size - 3)
            stream = draw.stream(f"place {level} {number}")
            place = stream.integers(low, high, (*shape[:3], shape[4])) / 4
            # A sample at a pixel's centre looks at that one alone.
            if where == "inside" and size > 1:
                place = np.where(place == np.floor(place), np.maximum(place - 0.25, 0.25), place)
            locations[..., level, :, number] = (place + 0.5) / size
    return locations


def lattice(
    draw: Draw,
    params: Params,
    dtype: DType,  # noqa: ARG001 - there is one
    *,
    batches: int = 2,
    queries: int = 5,
    heads: int = 3,
    channels: int = 2,
    maps: Ints = _MAPS,
    points: int = 3,
    where: Where = "anywhere",
    values: Values = "lattice",
) -> RecipeOutput:
    """Places that are multiples of a quarter of a pixel; lattice values have sums that no order rounds."""
    shapes, starts, keys = _shapes(maps)
    terms = len(shapes) * points
    fewer = max(0, math.ceil(math.log2(max(1, terms))) - 6)
    sampled = (batches, queries, heads, len(shapes), points)
    value = _values(draw, "data_value", values, (batches, keys, heads, channels), 8 - fewer)
    weight = _values(draw, "data_attn_weight", values, sampled, 6)
    return _output(params, value, shapes, starts, _quarters(draw, shapes, sampled, where), weight)


def anywhere(
    draw: Draw,
    params: Params,
    dtype: DType,  # noqa: ARG001 - there is one
    *,
    batches: int = 2,
    queries: int = 5,
    heads: int = 3,
    channels: int = 2,
    maps: Ints = (6, 4, 3, 7),
    points: int = 3,
    values: Values = "full",
) -> RecipeOutput:
    """Places of every bit, a sixth of them beyond a border."""
    shapes, starts, keys = _shapes(maps)
    if max(maps, default=0) > _WIDEST:
        raise ValueError(f"places of every bit need maps of at most {_WIDEST}")
    sampled = (batches, queries, heads, len(shapes), points)
    value = _values(draw, "data_value", values, (batches, keys, heads, channels), 8)
    weight = _values(draw, "data_attn_weight", values, sampled, 6)
    at = uniform(draw.stream("data_sampling_loc"), -0.05, 1.05, (*sampled, 2)).astype("<f4")
    return _output(params, value, shapes, starts, at, weight)


def network(
    draw: Draw,
    params: Params,
    dtype: DType,  # noqa: ARG001 - there is one
    *,
    batches: int,
    queries: int,
    heads: int,
    channels: int,
    maps: Ints,
    points: int,
) -> RecipeOutput:
    """Reference points on a grid, offsets of a few pixels, a twentieth far outside; weights sum to 1."""
    shapes, starts, keys = _shapes(maps)
    sampled = (batches, queries, heads, len(shapes), points)
    side = math.isqrt(max(1, queries - 1)) + 1
    number = np.arange(queries)
    grid = np.stack([(number % side + 0.5) / side, (number // side + 0.5) / side], -1)
    offsets = uniform(draw.stream("offsets"), -4.0, 4.0, (*sampled, 2)) / shapes[:, None, ::-1]
    offsets += (draw.stream("outside").integers(0, 20, sampled) == 0)[..., None] * 2.0
    at = (grid[None, :, None, None, None] + offsets).astype("<f4")
    scores = uniform(draw.stream("data_attn_weight"), 0.01, 1.0, sampled)
    weight = (scores / scores.sum(axis=(3, 4), keepdims=True)).astype("<f4")
    value = _values(draw, "data_value", "full", (batches, keys, heads, channels), 8)
    return _output(params, value, shapes, starts, at, weight)


def listed(
    draw: Draw,
    params: Params,
    dtype: DType,  # noqa: ARG001 - there is one
    *,
    maps: Ints,
    at: tuple[float, ...],
    unit: Literal["pixels", "map"] = "pixels",
    weights: tuple[float, ...] = (1.0,),
    points: int = 1,
) -> RecipeOutput:
    """The places x, y that the declaration lists, in one map, `points` for each query; weights are repeated."""
    shapes, starts, keys = _shapes(maps)
    places = np.array(at, np.float64).reshape(1, -1, 1, 1, points, 2)
    size = shapes[0, ::-1]
    locations = ((places + 0.5) / size if unit == "pixels" else places).astype("<f4")
    weight = np.resize(np.array(weights, "<f4"), locations.shape[:-1])
    value = draw.stream("data_value").lattice((1, keys, 1, 2), 8)
    return _output(params, value, shapes, starts, locations, weight)


def special(draw: Draw, params: Params, dtype: DType, *, kind: Kind) -> RecipeOutput:
    """Something that is not finite: at pixels that query 0 samples or none does, or in a weight."""
    made = lattice(draw, params, dtype, batches=1, queries=6, heads=1, maps=(4, 4, 1, 2), points=1, where="inside")
    value, at, weight = (made.inputs[name] for name in ("data_value", "data_sampling_loc", "data_attn_weight"))
    # In the first map nobody looks at the last row; query 0 looks at the first four pixels, the last four at none.
    at[..., 0, :, 1] = np.minimum(at[..., 0, :, 1], (1.75 + 0.5) / 4)
    at[:, 0, 0, 0, 0] = (0.25 + 0.5) / 4
    for query, (axis, place) in enumerate(((0, -1.25), (0, 4.25), (1, -1.25), (1, 4.25)), 2):
        at[:, query, 0, 0, 0, axis] = (place + 0.5) / 4
    what, _, number = kind.partition("_")
    odd = {"nan": np.nan, "inf": np.inf, "negative_inf": -np.inf}.get(number, np.inf)
    if what in ("pixel", "inf"):
        value[0, 0, 0, 0] = odd
        if what == "inf":
            value[0, 1, 0, 0] = -np.inf
    elif what == "zero":
        # The centre of pixel (1, 1): the one at its right has an interpolation weight of 0.
        at[:, 0, 0, 0, 0] = (1 + 0.5) / 4
        value[0, 6, 0, 0] = np.inf
    elif what == "idle":
        value[:, 12:16] = odd
    else:
        weight[:, 0 if what == "weight" else slice(2, None), 0, 0, 0] = odd
    return made


def _output(params: Params, value: Array, shapes: Array, starts: Array, at: Array, weight: Array) -> RecipeOutput:
    return RecipeOutput(
        {
            "data_value": value,
            "data_spatial_shapes": shapes,
            "data_level_start_index": starts,
            "data_sampling_loc": at,
            "data_attn_weight": weight,
        },
        {"im2col_step": 64, **params},
        outputs={"data_col": (*weight.shape[:3], value.shape[3])},
    )


# What fuzzing draws.

_COUNTS: Final = ("batches", "queries", "heads", "channels", "points")


def draw_call(at: Mapping[str, Any]) -> Drawn:
    """A call of one of the recipes."""
    if at["what"] in ("pixel_nan", "idle_inf", "outside_nan", "weight_nan"):
        return Drawn("special", {"im2col_step": 2}, {"kind": at["what"]}, "float")
    steps = {"all": 64, "one": 1, "batch": at["batches"]}
    args = {**{name: at[name] for name in _COUNTS}, "maps": at["maps"], "values": at["what"]}
    recipe = "lattice" if all(size & (size - 1) == 0 for size in at["maps"]) else "anywhere"
    if recipe == "anywhere" and at["what"] == "lattice":
        args["values"] = "full"
    return Drawn(recipe, {"im2col_step": steps[at["step"]]}, args, "float")


SPACE = Space(
    axes={
        "batches": Sizes(1, 4),
        "queries": Sizes(1, 65),
        "heads": Sizes(1, 9),
        "channels": Sizes(1, 65),
        "points": Sizes(1, 9),
        "maps": Choice(((4, 8), (1, 1), (6, 4, 3, 7), (2, 16, 4, 4, 1, 2), (5, 1, 1, 9), (2, 2, 4, 2, 8, 8, 1, 1))),
        "step": Choice(("all", "one", "batch")),
        "what": Choice(("lattice", "full", "wide", "positive", "pixel_nan", "idle_inf", "outside_nan", "weight_nan")),
    },
    draw=draw_call,
    elements=lambda at: (
        at["batches"]
        * at["heads"]
        * (
            sum(a * b for a, b in zip(at["maps"][::2], at["maps"][1::2], strict=True)) * at["channels"]
            + at["queries"] * (at["channels"] + 3 * at["points"] * len(at["maps"]) // 2)
        )
    ),
)

RECIPES = {"lattice": lattice, "anywhere": anywhere, "network": network, "listed": listed, "special": special}
