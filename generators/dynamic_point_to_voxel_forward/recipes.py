"""Recipes: where the points lie; `values` names what they carry, `reduce` what is made of it.

M is what the points need, one row for each voxel and one for the invalid points if there are any, and `spare` more."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space
from mluops_gtest.authoring.sums import assert_conditioned, exact_sums

from .._shared.clouds import Survey, random_sites
from .._shared.clouds import sweep as voxels_with_returns
from .._shared.connections import connected
from .._shared.reduced_voxels import MAX, MEAN, crowded
from . import CRITERIA, Voxels, voxels_of

# What the points carry, conditioned so that float32 means in any order stay well within the criterion.


Reduce = Literal["mean", "max"]
Kind = Literal[
    "lattice", "exact", "ends", "positive", "negative", "deep", "tied", "zeros", "wide", "wider", "leading",
    "cancelling", "tiny",
]  # fmt: skip

Shape = tuple[int, int]

# Beyond this a sum overflows whose mean does not, and whether it does depends on where an implementation divides.
_LARGEST_SUM = 1e37
# Terms that the conditioning test looks at, the most crowded voxels first.
_TESTED = 1 << 18


def _lattice(draw: Draw, shape: Shape) -> Array:
    """±k · 2^-24, below 1, every mantissa bit of a float32 in use: sums are exact in float64."""
    return draw.stream("feats").lattice(shape, 24)


def _ends(draw: Draw, voxels: Voxels, shape: Shape) -> Array:
    feats = _lattice(draw, shape)
    for which, channels in ((voxels.starts, slice(0, None, 2)), (voxels.starts + voxels.sizes - 1, slice(1, None, 2))):
        feats[voxels.points[which], channels] = 1 + np.abs(feats[voxels.points[which], channels])
    return feats


def _zeros(draw: Draw, _: Voxels, shape: Shape) -> Array:
    kind = draw.stream("kind").integers(0, 4, shape)
    return np.select([kind == 0, kind == 1], [np.float32(0.0), np.float32(-0.0)], -np.abs(_lattice(draw, shape)))


def _leading(draw: Draw, voxels: Voxels, shape: Shape) -> Array:
    feats = np.abs(_lattice(draw, shape))
    feats[voxels.points[voxels.starts]] *= np.float32(2048)
    return feats


def _cancelling(draw: Draw, voxels: Voxels, shape: Shape) -> Array:
    feats = _lattice(draw, shape)
    rest = np.abs(draw.stream("rest").lattice(shape, 19))
    places = np.arange(len(voxels.points)) - np.repeat(voxels.starts, voxels.sizes)
    second = np.flatnonzero(places % 2)
    first, second = voxels.points[second - 1], voxels.points[second]
    feats[second] = -feats[first] * (np.float32(1) - rest[second] / np.float32(32))
    return feats


_VALUES: dict[Kind, Callable[[Draw, Voxels, Shape], Array]] = {
    "lattice": lambda draw, _, shape: _lattice(draw, shape),
    # So few bits that float32 sums of any voxel are exact in any order: whoever loses one addition is seen.
    "exact": lambda draw, voxels, shape: draw.stream("feats").lattice(
        shape, 24 - math.ceil(math.log2(max(int(voxels.sizes.max()), 2)))
    ),
    # The first and the last point of each voxel are its maximum in every other channel each.
    "ends": _ends,
    # Without signs: the sum grows with every term.
    "positive": lambda draw, _, shape: np.abs(_lattice(draw, shape)),
    # Below 0 throughout: a maximum that starts at 0 or at the smallest float never ends below it.
    "negative": lambda draw, _, shape: -np.abs(_lattice(draw, shape)),
    # Below −1.7e38: a maximum that starts at −1.17549e38 never ends there.
    "deep": lambda draw, _, shape: -np.abs(draw.stream("feats").mantissas(shape, (127, 127))),
    # −3/4 … 3/4 in quarters: most maxima stand at several points.
    "tied": lambda draw, _, shape: (draw.stream("feats").integers(-3, 4, shape) / 4).astype("<f4"),
    # +0, −0 and, half of the time, below 0.
    "zeros": _zeros,
    # Exponents over 41 binades, more than one float64 accumulator holds exactly and far more than a half has.
    "wide": lambda draw, _, shape: draw.stream("feats").mantissas(shape, (-20, 20)),
    # Exponents over 161 binades, nearly all that stay below the largest sum.
    "wider": lambda draw, _, shape: draw.stream("feats").mantissas(shape, (-80, 80)),
    # Positive, and the first point of each voxel outweighs another by 2^11: half precision would lose the others.
    "leading": _leading,
    # Points in pairs of one voxel that cancel but for five bits.
    "cancelling": _cancelling,
    # ±k · 2^-147 with k of 12 bits: sums of a thousand and their quarters are subnormal numbers, all exact.
    "tiny": lambda draw, _, shape: draw.stream("feats").lattice(shape, 12, scale=147),
}


def features(draw: Draw, voxels: Voxels, channels: int, values: Kind, reduce: Reduce) -> Array:
    """float32 [N, C]; whoever counts an invalid point gets another mean and another maximum."""
    shape = (len(voxels.of_point), channels)
    feats = _VALUES[values](draw, voxels, shape)
    outside = np.flatnonzero(voxels.of_point < 0)
    feats[outside] = 8 + draw.stream("outside").lattice((len(outside), channels), 20)
    if reduce == "mean":
        _assert_any_order(feats, voxels)
    return feats


def _assert_any_order(feats: Array, voxels: Voxels) -> None:
    """float32 means of the most crowded voxels pass the criterion with room, in any order of additions, and also
    where every feature is divided before it is added."""
    if not np.abs(feats, dtype=np.float64).sum() < _LARGEST_SUM:
        raise ValueError(f"features of a mean must stay below {_LARGEST_SUM} together")
    if voxels.count == 0:
        return
    crowded_first = np.argsort(-voxels.sizes, kind="stable")
    longest, channels = int(voxels.sizes.max()), feats.shape[1]
    chosen = crowded_first[: max(1, _TESTED // (longest * channels))]
    terms = np.zeros((longest, len(chosen), channels), np.float64)
    for place, voxel in enumerate(chosen):
        size, start = voxels.sizes[voxel], voxels.starts[voxel]
        terms[:size, place] = feats[voxels.points[start : start + size]].astype(np.float64) / size
    columns = terms.reshape(longest, -1)
    assert_conditioned(columns, exact_sums(columns), CRITERIA)


Order = Literal["shuffled", "sorted", "reversed"]
NonFinite = Literal["nan", "inf", "minus_inf", "all_minus_inf", "inf_minus_inf", "all_nan", "outside"]

_EXTENTS = (10, 40, 40)
# (z, y, x) of mvxnet: 0.1 m and twice 0.05 m. The document gives no grid; the cases at network scale share a street.
_GRID = (40, 1600, 1408)
_STREET = 20230406


def sweep(draw: Draw, _params: Params, *, points: int, voxels: int, azimuths: int, invalid: int = 0) -> Array:
    """A turn of a lidar in a street, shuffled as mvxnet's training does; `invalid` points leave the grid."""
    street = draw.shared(_STREET)
    side = _GRID[1]
    keys = voxels_with_returns(Survey(batch=1, side=side, sweeps=1, azimuths=azimuths), street)
    sites = np.stack([keys // (side * side), keys // side % side, keys % side], axis=1)
    sites = sites[(sites < _GRID).all(axis=1)]
    # Near voxels hold the points that are more than the voxels.
    centre = np.square(sites[:, 1:] - side // 2).sum(axis=1)
    sites = sites[np.argsort(centre, kind="stable")]
    sites = sites[np.sort(street.stream("returns").sample(len(sites), voxels))]
    inside = _spread(street, sites, points - invalid)
    # What mmcv's voxeliser leaves of a point outside: it stops at the first axis that the point leaves.
    outside = np.array([(-1, 0, 0), (-1, -1, 0), (-1, -1, -1)])
    outside = outside[street.stream("outside").integers(0, 3, invalid)]
    return _arranged(street, np.concatenate([inside, outside]), "shuffled")


def placed(
    draw: Draw,
    _params: Params,
    *,
    points: int,
    voxels: int,
    invalid: int = 0,
    extents: tuple[int, int, int] = _EXTENTS,
    order: Order = "shuffled",
) -> Array:
    """`voxels` drawn voxels of that grid, a few of them crowded; `invalid` points with any coordinates below 0."""
    sites = random_sites(draw.stream("voxels"), 1, extents, voxels)[:, 1:]
    inside = _spread(draw, sites, points - invalid)
    return _arranged(draw, np.concatenate([inside, _below_zero(draw, invalid, extents)]), order)


def counted(draw: Draw, _params: Params, *, counts: tuple[int, ...]) -> Array:
    """Voxels with exactly these numbers of points, in any order."""
    sites = random_sites(draw.stream("voxels"), 1, _EXTENTS, len(counts))[:, 1:]
    return _arranged(draw, np.repeat(sites, counts, axis=0), "shuffled")


def listed(_draw: Draw, _params: Params, *, c0: tuple[int, ...], c1: tuple[int, ...], c2: tuple[int, ...]) -> Array:
    """The points that the declaration lists, column by column, in that order."""
    return np.stack([c0, c1, c2], axis=1)


def crossed(draw: Draw, _params: Params, *, levels: tuple[int, ...], copies: int) -> Array:
    """Every triple of these coordinates, the last of them `copies` times more, in random order."""
    triples = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), axis=-1).reshape(-1, 3)
    return _arranged(draw, np.concatenate([triples, np.repeat(triples[-1:], copies, axis=0)]), "shuffled")


def _spread(draw: Draw, sites: Array, points: int) -> Array:
    """Each site once, the rest of the points crowded into the first of them."""
    extra = points - len(sites)
    if extra < 0 or (extra and not len(sites)):
        raise ValueError(f"{points} valid points cannot fill {len(sites)} voxels; change points, voxels or invalid")
    chosen = crowded(draw, len(sites), extra)
    counts = np.bincount(chosen, minlength=len(sites)) + 1
    if extra and len(sites) > 1 and counts.min() == counts.max():
        raise ValueError("every voxel has as many points as every other")
    return np.concatenate([sites, sites[chosen]])


def _below_zero(draw: Draw, count: int, extents: Sequence[int]) -> Array:
    """Rows in which one, two or all three coordinates are below 0, the others within the grid."""
    which = draw.stream("which").integers(1, 8, count)[:, None] >> np.arange(3) & 1
    negative = -draw.stream("below").integers(1, 6, (count, 3))
    within = np.stack([draw.stream(f"within {axis}").integers(0, n, count) for axis, n in enumerate(extents)], axis=1)
    return np.where(which, negative, within)


def _arranged(draw: Draw, coors: Array, order: Order) -> Array:
    ascending = np.lexsort(coors[:, ::-1].T)
    orders = {"sorted": ascending, "reversed": ascending[::-1]}
    arranged: Array = coors[draw.stream("order").permutation(len(coors)) if order == "shuffled" else orders[order]]
    return arranged


def carried(
    draw: Draw,
    params: Params,
    _dtype: DType,
    coors: Array,
    *,
    channels: int,
    reduce: Reduce,
    spare: int = 0,
    values: Kind = "lattice",
) -> RecipeOutput:
    """Points at these coordinates with their features."""
    if not np.array_equal(coors, coors.astype("<i4")):
        raise ValueError("a coordinate leaves int32")
    coors = np.ascontiguousarray(coors, "<i4")
    voxels = voxels_of(coors)
    points, rows = len(coors), voxels.rows_needed + spare
    if rows > points:
        raise ValueError(f"{rows} rows for {points} points; §1.4 asks for N ≥ M, so lower spare or raise points")
    return RecipeOutput(
        {"feats": features(draw, voxels, channels, values, reduce), "coors": coors},
        {"reduce_type": MEAN if reduce == "mean" else MAX, **params},
        outputs={
            "voxel_feats": (rows, channels),
            "voxel_coors": (rows, 3),
            "point2voxel_map": (points,),
            "voxel_points_count": (rows,),
            "voxel_num": (1,),
        },
    )


def nonfinite(
    draw: Draw, params: Params, dtype: DType, *, kind: NonFinite, channels: int, reduce: Reduce
) -> RecipeOutput:
    """Every other channel of one voxel with three points is not finite, or all of the invalid points (`outside`)."""
    coors = placed(draw, params, points=24, voxels=7, invalid=4)
    made = carried(draw, params, dtype, coors, channels=channels, reduce=reduce)
    feats, voxels = made.inputs["feats"], voxels_of(made.inputs["coors"])
    large = np.flatnonzero(voxels.sizes >= 3)
    if not len(large):
        raise ValueError("no voxel has three points")
    start = voxels.starts[large[0]]
    first, second, *_ = members = voxels.points[start : start + voxels.sizes[large[0]]]
    if kind == "outside":
        outside = np.flatnonzero(voxels.of_point < 0)
        feats[outside] = np.array([np.nan, np.inf, -np.inf], "<f4")[np.arange(len(outside)) % 3, None]
        return made
    places, values = {
        "nan": (second, np.nan),
        "inf": (second, np.inf),
        "minus_inf": (first, -np.inf),
        "all_minus_inf": (members, -np.inf),
        "inf_minus_inf": ([first, second], [[np.inf], [-np.inf]]),
        "all_nan": (members, np.nan),
    }[kind]
    feats[places, ::2] = values
    return made


# What fuzzing draws: voxels with few points and many, points outside, every kind of values.


_DRAWN_EXTENTS = ((10, 40, 40), (1, 1, 2049), (2049, 1, 1), (1, 65, 33), (3, 3, 3))
# What a maximum makes of them is left open.
_NAN = ("nan", "all_nan")
_LEVELS = ((-1, 0, 1), (0, 1, 2147483647), (-2147483648, 0, 2147483647), (0, 65535, 65536))


def draw(at: Mapping[str, Any]) -> Drawn | None:
    """Points of one of the recipes."""
    what = at["what"]
    shared = {"channels": at["channels"], "reduce": at["reduce"]}
    match what:
        case "placed":
            names = ("points", "voxels", "invalid", "spare", "extents", "order", "values")
            args: dict[str, Any] = {**shared, **{name: at[name] for name in names}}
            if at["points"] < at["voxels"] + at["invalid"]:
                return None
        case "counted":
            counts = (at["points"], *range(1, min(at["voxels"], 20)))
            args = {**shared, "counts": counts, "values": at["values"]}
        case "crossed":
            args = {**shared, "levels": at["levels"], "copies": min(at["points"], 65)}
        case kind:
            if kind in _NAN and at["reduce"] == "max":
                return None
            args, what = {**shared, "kind": kind}, "nonfinite"
    return Drawn(what, {}, args)


SPACE = Space(
    axes={
        "points": Sizes(1, 2049),
        "voxels": Sizes(1, 1025),
        "channels": Sizes(1, 257),
        "reduce": Choice(get_args(Reduce)),
        "invalid": Choice((0, 1, 7)),
        "spare": Choice((0, 1, 3)),
        "extents": Choice(_DRAWN_EXTENTS),
        "order": Choice(get_args(Order)),
        "levels": Choice(_LEVELS),
        # A device may take subnormal features for 0.
        "values": Choice(tuple(kind for kind in get_args(Kind) if kind != "tiny")),
        "what": Choice(("placed", "counted", "crossed", *get_args(NonFinite))),
    },
    draw=draw,
    elements=lambda at: at["channels"] * (at["points"] + at["voxels"]) + 4 * (at["points"] + at["voxels"]),
)


RECIPES = {where.__name__: connected(where, carried) for where in (sweep, placed, counted, listed, crossed)}
RECIPES["nonfinite"] = nonfinite
