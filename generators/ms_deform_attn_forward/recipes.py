"""Recipes: places on a lattice on which no sum rounds, places anywhere, listed ones, and those of a network."""

import math
from collections.abc import Mapping
from typing import Any, Final, Literal

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, Recipe, RecipeOutput
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .._shared.boxes import uniform
from . import INPUTS, find_starts

Ints = tuple[int, ...]
# Places that are multiples of a quarter of a pixel: anywhere up to one pixel and a quarter outside; inside, where all
# four pixels are there, if the map has them. every_bit: a sixth of them beyond a border. network: reference points on a
# grid and offsets of a few pixels, a twentieth far outside; weights sum to 1.
Where = Literal["anywhere", "inside", "every_bit", "network"]
# lattice: few bits, so that no sum rounds on such places. full: every bit of a mantissa; wide: many exponents.
Values = Literal["lattice", "full", "wide"]
Kind = Literal[
    "pixel_nan", "pixel_inf", "inf_minus_inf", "weight_nan", "idle_nan", "idle_inf", "outside_nan", "outside_inf",
    "zero_times_inf",
]  # fmt: skip

_EXPONENTS: Final = {"full": (-3, -1), "wide": (-12, 3)}


def _shapes(maps: Ints) -> Array:
    return np.array(maps, "<i4").reshape(-1, 2)


def _quarters(draw: Draw, shapes: Array, sampled: Ints, where: Where) -> Array:
    locations = np.empty((*sampled, 2), np.float32)
    for level, sizes in enumerate(shapes.tolist()):
        for number, size in enumerate(reversed(sizes)):
            if size & (size - 1) or size > 4096:
                raise ValueError(f"a lattice needs sizes that are powers of two up to 4096, not {size}")
            low, high = (-5, 4 * size + 2) if where == "anywhere" else (0, 4 * size - 3)
            place = draw.stream(f"place {level} {number}").integers(low, high, (*sampled[:3], sampled[4])) / 4
            # A sample at a pixel's centre looks at that one alone.
            if where == "inside" and size > 1:
                place = np.where(place == np.floor(place), np.maximum(place - 0.25, 0.25), place)
            locations[..., level, :, number] = (place + 0.5) / size
    return locations


def _around_grid(draw: Draw, shapes: Array, sampled: Ints) -> Array:
    side = math.isqrt(max(1, sampled[1] - 1)) + 1
    number = np.arange(sampled[1])
    grid = np.stack([(number % side + 0.5) / side, (number // side + 0.5) / side], -1)
    offsets = uniform(draw.stream("offsets"), -4.0, 4.0, (*sampled, 2)) / shapes[:, None, ::-1]
    offsets += (draw.stream("outside").integers(0, 20, sampled) == 0)[..., None] * 2.0
    return (grid[None, :, None, None, None] + offsets).astype("<f4")


def _assemble(
    draw: Draw, params: Params, shapes: Array, channels: int, at: Array, values: Values, weight: Array | None = None
) -> RecipeOutput:
    """The inputs of a call with these locations, and with weights of the kind of its values if none are there."""
    (batches, queries, heads, levels, points, _), keys = at.shape, int(shapes.prod(axis=1).sum())
    fewer = max(0, math.ceil(math.log2(max(1, levels * points))) - 6)

    def numbers(name: str, shape: Ints, bits: int) -> Array:
        stream = draw.stream(name)
        return stream.lattice(shape, bits) if values == "lattice" else stream.mantissas(shape, _EXPONENTS[values])

    value = numbers("data_value", (batches, keys, heads, channels), 8 - fewer)
    weight = numbers("data_attn_weight", at.shape[:-1], 6) if weight is None else weight
    inputs = dict(zip(INPUTS, (value, shapes, find_starts(shapes), at, weight), strict=True))
    return RecipeOutput(
        inputs, {"im2col_step": 64, **params}, outputs={"data_col": (batches, queries, heads, channels)}
    )


def _sampled(maps: Ints, where: Where, values: Values) -> Recipe:
    """The recipe of samples with these defaults."""

    def recipe(
        draw: Draw,
        params: Params,
        _: DType,
        *,
        batches: int = 2,
        queries: int = 5,
        heads: int = 3,
        channels: int = 2,
        maps: Ints = maps,
        points: int = 3,
        where: Where = where,
        values: Values = values,
    ) -> RecipeOutput:
        shapes, weight = _shapes(maps), None
        sampled = (batches, queries, heads, len(shapes), points)
        if where == "every_bit":
            if max(maps, default=0) > 256:
                raise ValueError("places of every bit need maps of at most 256, beyond which 5e-5 is too little")
            at = uniform(draw.stream("data_sampling_loc"), -0.05, 1.05, (*sampled, 2)).astype("<f4")
        elif where == "network":
            at = _around_grid(draw, shapes, sampled)
            scores = uniform(draw.stream("data_attn_weight"), 0.01, 1.0, sampled)
            weight = (scores / scores.sum(axis=(3, 4), keepdims=True)).astype("<f4")
        else:
            at = _quarters(draw, shapes, sampled, where)
        return _assemble(draw, params, shapes, channels, at, values, weight)

    return recipe


lattice: Final = _sampled((4, 8, 2, 2), "anywhere", "lattice")


def listed(
    draw: Draw,
    params: Params,
    _: DType,
    *,
    maps: Ints,
    at: tuple[float, ...],
    unit: Literal["pixels", "map"] = "pixels",
    weights: tuple[float, ...] = (1.0,),
    points: int = 1,
) -> RecipeOutput:
    """The places x, y that the declaration lists, in one map, `points` for each query; weights are repeated."""
    shapes = _shapes(maps)
    places = np.array(at, np.float64).reshape(1, -1, 1, 1, points, 2)
    locations = ((places + 0.5) / shapes[0, ::-1] if unit == "pixels" else places).astype("<f4")
    weight = np.resize(np.array(weights, "<f4"), locations.shape[:-1])
    return _assemble(draw, params, shapes, 2, locations, "lattice", weight)


def special(draw: Draw, params: Params, dtype: DType, *, kind: Kind) -> RecipeOutput:
    """Something that is not finite: at pixels that query 0 samples or none does, or in a weight."""
    made = lattice(draw, params, dtype, batches=1, queries=6, heads=1, maps=(4, 4, 1, 2), points=1, where="inside")
    value, _, _, at, weight = made.inputs.values()
    # In the first map nobody looks at the last row; query 0 looks at the first four pixels, the last four at none.
    at[..., 0, :, 1] = np.minimum(at[..., 0, :, 1], (1.75 + 0.5) / 4)
    at[:, 0, 0, 0, 0] = (0.25 + 0.5) / 4
    for query, (axis, place) in enumerate(((0, -1.25), (0, 4.25), (1, -1.25), (1, 4.25)), 2):
        at[:, query, 0, 0, 0, axis] = (place + 0.5) / 4
    what, *_, number = kind.split("_")
    if what == "zero":
        # The centre of pixel (1, 1): the one at its right has an interpolation weight of 0.
        at[:, 0, 0, 0, 0] = (1 + 0.5) / 4
    places: dict[str, tuple[Array, Any]] = {
        "pixel": (value, np.s_[0, 0, 0, 0]),
        "inf": (value, np.s_[0, :2, 0, 0]),
        "zero": (value, np.s_[0, 6, 0, 0]),
        "idle": (value, np.s_[:, 12:16]),
        "weight": (weight, np.s_[:, 0, 0, 0]),
        "outside": (weight, np.s_[:, 2:, 0, 0]),
    }
    array, where = places[what]
    array[where] = (np.inf, -np.inf) if what == "inf" else float(number)
    return made


# What fuzzing draws.

_SPECIAL: Final = ("pixel_nan", "idle_inf", "outside_nan", "weight_nan")


def draw_call(at: Mapping[str, Any]) -> Drawn:
    """A call of one of the recipes."""
    params, what = {"im2col_step": at["step"]}, at["what"]
    if what in _SPECIAL:
        return Drawn("special", params, {"kind": what}, "float")
    sizes = {name: at[name] for name in ("batches", "queries", "heads", "channels", "points", "maps")}
    if all(size & (size - 1) == 0 for size in at["maps"]):
        return Drawn("lattice", params, {**sizes, "values": what}, "float")
    return Drawn("anywhere", params, {**sizes, "values": "full" if what == "lattice" else what}, "float")


def count_elements(at: Mapping[str, Any]) -> int:
    """The floats of a call."""
    keys, samples = _shapes(at["maps"]).prod(axis=1).sum(), at["points"] * len(at["maps"]) // 2
    return int(at["batches"] * at["heads"] * (keys * at["channels"] + at["queries"] * (at["channels"] + 3 * samples)))


_LENGTHS: Final = {"batches": 4, "queries": 65, "heads": 9, "channels": 65, "points": 9}
SPACE = Space(
    axes={
        **{name: Sizes(1, most) for name, most in _LENGTHS.items()},
        "maps": Choice(((4, 8), (1, 1), (6, 4, 3, 7), (2, 16, 4, 4, 1, 2), (5, 1, 1, 9), (2, 2, 4, 2, 8, 8, 1, 1))),
        "step": Choice((1, 64)),
        "what": Choice(("lattice", "full", "wide", *_SPECIAL)),
    },
    draw=draw_call,
    elements=count_elements,
)

RECIPES = {
    "lattice": lattice,
    "anywhere": _sampled((6, 4, 3, 7), "every_bit", "full"),
    "network": _sampled((6, 4, 3, 7), "network", "full"),
    "listed": listed,
    "special": special,
}
