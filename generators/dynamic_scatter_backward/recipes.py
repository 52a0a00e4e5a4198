"""Recipes of dynamic_scatter_backward: a forward max pooling of drawn points, and ways to bend it."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, OpCall, Params, RecipeOutput, Stream
from mluops_gtest.authoring.reductions import Reduction, changed, without_rows
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .._shared.reduced_voxels import MAX, crowded

Placement = Literal["shuffled", "sorted"]
Values = Literal["lattice", "wide", "ulps", "subnormal", "signs", "tiny"]
Share = Literal["half", "rows", "all"]
Side = Literal["above", "below"]
Counts = Literal["right", "zero", "random"]
NonFinite = Literal["nan", "inf", "minus_inf", "gradients"]

_VALUES: Mapping[Values, Callable[[Stream, tuple[int, int]], Array]] = {
    # 24 bits: every mantissa bit of a float32 is in use.
    "lattice": lambda stream, shape: stream.lattice(shape, 24),
    "wide": lambda stream, shape: stream.mantissas(shape, (-126, 127)),
    # 1, 1 + ulp, … 1 + 3 ulp: equal for every narrower type, and ties abound.
    "ulps": lambda stream, shape: (stream.integers(0, 4, shape) + 0x3F800000).astype("<u4").view("<f4"),
    "subnormal": lambda stream, shape: stream.integers(1, 6, shape).astype("<u4").view("<f4"),
    "signs": lambda stream, shape: np.array([-2, -1, 1, 2], "<f4")[stream.integers(0, 4, shape)] / 4,
    # All bits of a subnormal float in use.
    "tiny": lambda stream, shape: stream.integers(1, 1 << 23, shape).astype("<u4").view("<f4"),
}


def _assemble(params: Params, pooling: Mapping[str, Array], **bent: Array) -> RecipeOutput:
    """The pooling with some of its tensors bent; reduce_type is max where the declaration is silent."""
    outputs = {"grad_feats": pooling["feats"].shape}
    return RecipeOutput({**pooling, **bent}, {"reduce_type": MAX, **params}, outputs=outputs)


def pooled(
    draw: Draw,
    params: Params,
    _dtype: DType,
    *,
    points: int,
    voxels: int,
    channels: int,
    vacant: int = 0,
    spare: int = 0,
    outside: int = 0,
    placement: Placement = "shuffled",
    values: Values = "lattice",
    ends_win: bool = False,
) -> RecipeOutput:
    """`voxels` rows with points and `vacant` ones without, `spare` rows with points behind voxel_num, and
    `outside` points without a voxel; with `ends_win` the first and the last point win every other channel each, and
    the only one where they are in different voxels."""
    voxel_of = _assignment(draw, points, voxels, vacant, spare, outside, placement)
    feats = _VALUES[values](draw.stream("feats"), (points, channels))
    if ends_win:
        # Lattice values lie below 1.
        feats[0, ::2] = 1 + np.abs(feats[0, ::2])
        last = slice(min(1, channels - 1), None, 2)
        feats[-1, last] = 1 + np.abs(feats[-1, last])
    return _assemble(params, _pool(draw, feats, voxel_of, voxels + vacant, spare, values))


def tied(
    draw: Draw, params: Params, _dtype: DType, *, points: int, voxels: int, channels: int, levels: int
) -> RecipeOutput:
    """Features of only `levels` different values; one level is a tie of all points in every channel."""
    voxel_of = _assignment(draw, points, voxels)
    feats = (draw.stream("feats").integers(0, levels, (points, channels)) - levels).astype("<f4") / 4
    return _assemble(params, _pool(draw, feats, voxel_of, voxels))


def duplicated_maximum(
    draw: Draw, params: Params, _dtype: DType, *, points: int, channels: int, at: tuple[int, ...]
) -> RecipeOutput:
    """One voxel whose maximum stands in every channel at exactly the points `at`."""
    feats = _lattice(draw, points, channels)
    # Lattice values lie below 1.
    feats[list(at)] = 2 + draw.stream("maximum").lattice((1, channels), 22)
    return _assemble(params, _pool(draw, feats, np.zeros(points, "<i4"), 1))


def unmatched(
    draw: Draw,
    params: Params,
    _dtype: DType,
    *,
    points: int,
    voxels: int,
    channels: int,
    share: Share,
    side: Side = "above",
) -> RecipeOutput:
    """Voxel values above or below all features: in about half of the cells (`half`), in every second voxel (`rows`) or
    `all`."""
    pooling = _lattice_pool(draw, points, voxels, channels)
    moved = {
        "half": draw.stream("raised").integers(0, 2, (voxels, channels)) == 1,
        "rows": np.broadcast_to(np.arange(voxels)[:, None] % 2 == 0, (voxels, channels)),
        "all": np.ones((voxels, channels), bool),
    }[share]
    # Features lie between −1 and 1.
    distance = np.float32(2 if side == "above" else -2)
    values = pooling["voxel_feats"]
    return _assemble(params, pooling, voxel_feats=np.where(moved, values + distance, values))


def miscounted(
    draw: Draw, params: Params, _dtype: DType, *, points: int, voxels: int, channels: int, counts: Counts
) -> RecipeOutput:
    """voxel_points_count that is `right`, all `zero`, or `random` numbers, some of them negative."""
    pooling = _lattice_pool(draw, points, voxels, channels)
    wrong = {
        "right": pooling["voxel_points_count"],
        "zero": np.zeros(voxels, "<i4"),
        "random": draw.stream("counts").integers(-3, 100, voxels).astype("<i4"),
    }
    return _assemble(params, pooling, voxel_points_count=wrong[counts])


def signed_zeros(draw: Draw, params: Params, _dtype: DType, *, points: int, voxels: int, channels: int) -> RecipeOutput:
    """Features +0, -0 or negative; a voxel's zero has a sign of its own."""
    kind = draw.stream("kind").integers(0, 4, (points, channels))
    negative = -np.abs(_lattice(draw, points, channels))
    feats = np.select([kind == 0, kind == 1], [np.float32(0.0), np.float32(-0.0)], negative)
    pooling = _pool(draw, feats, _assignment(draw, points, voxels), voxels)
    minus = draw.stream("sign").integers(0, 2, (voxels, channels)) == 1
    zero = np.where(minus, np.float32(-0.0), np.float32(0.0))
    values = pooling["voxel_feats"]
    return _assemble(params, pooling, voxel_feats=np.where(values == 0, zero, values))


def nonfinite(
    draw: Draw, params: Params, _dtype: DType, *, points: int, voxels: int, channels: int, kind: NonFinite
) -> RecipeOutput:
    """About a quarter of the features are `nan`, `inf` or `minus_inf`, or of the `gradients` NaN and ±Inf."""
    feats = _lattice(draw, points, channels)
    if kind != "gradients":
        special = {"nan": np.nan, "inf": np.inf, "minus_inf": -np.inf}[kind]
        feats[draw.stream("special").integers(0, 4, feats.shape) == 0] = special
    pooling = _pool(draw, feats, _assignment(draw, points, voxels), voxels)
    if kind == "gradients":
        gradients = pooling["grad_voxel_feats"]
        # Quiet NaNs with and without payload and both infinities; never the poison pattern.
        patterns = np.array([0x7FC00000, 0xFFC12345, 0x7F800000, 0xFF800000], "<u4").view("<f4")
        chosen = draw.stream("special").integers(0, 4, gradients.shape) == 0
        gradients[chosen] = patterns[draw.stream("pattern").integers(0, 4, int(chosen.sum()))]
    return _assemble(params, pooling)


def _lattice_pool(draw: Draw, points: int, voxels: int, channels: int) -> dict[str, Array]:
    return _pool(draw, _lattice(draw, points, channels), _assignment(draw, points, voxels), voxels)


def _lattice(draw: Draw, points: int, channels: int) -> Array:
    return _VALUES["lattice"](draw.stream("feats"), (points, channels))


def _assignment(
    draw: Draw,
    points: int,
    voxels: int,
    vacant: int = 0,
    spare: int = 0,
    outside: int = 0,
    order: Placement = "shuffled",
) -> Array:
    """The voxel of every point: each of `voxels` + `spare` rows at least once, the rest crowded into a few."""
    inside = points - outside
    occupied = voxels + spare
    if inside < occupied or (inside and not occupied):
        raise ValueError(f"{inside} points inside cannot fill {occupied} rows; raise points or lower outside")
    real = np.sort(draw.stream("vacant").sample(voxels + vacant, voxels))
    rows = np.concatenate([real, np.arange(voxels + vacant, voxels + vacant + spare)])
    extra = crowded(draw, occupied, inside - occupied)
    voxel_of = np.concatenate([rows, rows[extra], np.full(outside, -1)]).astype("<i4")
    if order == "sorted":
        return np.sort(voxel_of)
    shuffled: Array = voxel_of[draw.stream("order").permutation(points)]
    return shuffled


def _pool(
    draw: Draw, feats: Array, voxel_of: Array, voxel_num: int, spare: int = 0, values: Values = "lattice"
) -> dict[str, Array]:
    """The forward max pooling; rows without points hold drawn values, points outside copy the last row."""
    shape = (voxel_num + spare, feats.shape[1])
    voxel_feats = _VALUES[values](draw.stream("voxel_feats"), shape)
    by_voxel = np.argsort(voxel_of, kind="stable")[np.count_nonzero(voxel_of < 0) :]
    counts = np.bincount(voxel_of[by_voxel], minlength=shape[0])
    occupied = np.flatnonzero(counts)
    if occupied.size:
        starts = np.cumsum(counts)[occupied] - counts[occupied]
        voxel_feats[occupied] = np.maximum.reduceat(feats[by_voxel], starts, axis=0)
    if shape[0]:
        # An implementation that lets -1 wrap around finds a match there.
        feats[voxel_of < 0] = voxel_feats[-1]
    gradients = draw.stream("grad_voxel_feats")
    return {
        # Few different gradients would hide which voxel they came from.
        "grad_voxel_feats": _VALUES[values if values in ("wide", "tiny") else "lattice"](gradients, shape),
        "feats": feats,
        "voxel_feats": voxel_feats,
        "point2voxel_map": voxel_of,
        "voxel_points_count": counts.astype("<i4"),
        "voxel_num": np.array([voxel_num], "<i4"),
    }


# What fuzzing draws: poolings of many kinds, with ties, vacant voxels, spare rows and points outside.


_UNMATCHED = tuple(f"{share} {side}" for share in get_args(Share) for side in get_args(Side))


def draw(at: Mapping[str, Any]) -> Drawn | None:
    """A pooling by one of the recipes."""
    what = at["what"]
    sizes = {name: at[name] for name in ("points", "voxels", "channels")}
    match what:
        case "pooled":
            kinds = ("vacant", "spare", "outside", "placement", "values", "ends_win")
            args: dict[str, Any] = {**sizes, **{name: at[name] for name in kinds}}
            if at["points"] < at["voxels"] + at["vacant"] + at["spare"]:
                return None
        case "tied":
            args = {**sizes, "levels": at["levels"]}
        case "duplicated_maximum":
            last = at["points"] - 1
            args = {"points": at["points"], "channels": at["channels"]}
            args["at"] = tuple(dict.fromkeys((last // 2, last)))
        case "signed_zeros":
            args = sizes
        case _ if what in _UNMATCHED:
            share, _, side = what.partition(" ")
            args, what = {**sizes, "share": share, "side": side}, "unmatched"
        case counts:
            args, what = {**sizes, "counts": counts}, "miscounted"
    return None if at["points"] < at["voxels"] else Drawn(what, {}, args)


SPACE = Space(
    axes={
        "points": Sizes(1, 2049),
        "voxels": Sizes(1, 1025),
        "channels": Sizes(1, 257),
        "vacant": Choice((0, 1, 5)),
        "spare": Choice((0, 1, 3)),
        "outside": Choice((0, 1, 7)),
        "placement": Choice(("shuffled", "sorted")),
        "values": Choice(get_args(Values)),
        "ends_win": Choice((False, True)),
        "levels": Choice((1, 2, 5)),
        "what": Choice(("pooled", "tied", "duplicated_maximum", "signed_zeros", *_UNMATCHED, *get_args(Counts))),
    },
    draw=draw,
    elements=lambda at: 2 * at["channels"] * (at["points"] + at["voxels"]) + at["points"] + at["voxels"],
)


# How a call becomes smaller: fewer points, voxels and channels, with the counts that belong to them.


_BY_POINT = ("feats", "point2voxel_map")
_BY_VOXEL = ("grad_voxel_feats", "voxel_feats", "voxel_points_count")


def _without_points(call: OpCall, start: int, stop: int) -> RecipeOutput:
    """Their voxels count so many fewer; one that kept its count had a wrong one before."""
    inputs = {name: without_rows(call.array(name), start, stop) for name in _BY_POINT}
    counts = call.array("voxel_points_count").copy()
    gone = call.array("point2voxel_map")[start:stop]
    np.subtract.at(counts, gone[gone >= 0], 1)
    points = call.tensor("feats").dims[0] - (stop - start)
    dims = (points, *call.tensor("grad_feats").dims[1:])
    return changed(call, {**inputs, "voxel_points_count": counts}, outputs={"grad_feats": dims})


def _without_voxels(call: OpCall, start: int, stop: int) -> RecipeOutput:
    """The points of a lost voxel are in none."""
    inputs = {name: without_rows(call.array(name), start, stop) for name in _BY_VOXEL}
    number = call.array("voxel_num")
    left = number - np.clip(number - start, 0, stop - start).astype(number.dtype)
    return changed(call, {**inputs, "voxel_num": left, "point2voxel_map": _renamed(call, start, stop)})


def _renamed(call: OpCall, start: int, stop: int) -> Array:
    names = call.array("point2voxel_map")
    return np.select([names >= stop, names >= start], [names - (stop - start), -1], names)


REDUCTIONS = {
    "points": Reduction(lambda call: call.tensor("feats").dims[0], _without_points),
    "voxels": Reduction(lambda call: call.tensor("voxel_feats").dims[0], _without_voxels),
}


RECIPES: Mapping[str, Callable[..., RecipeOutput]] = {
    recipe.__name__: recipe
    for recipe in (pooled, tied, duplicated_maximum, unmatched, miscounted, signed_zeros, nonfinite)
}
