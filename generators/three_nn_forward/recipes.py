"""Recipes: where the unknown and the known points lie, on a lattice or with full mantissas and a margin."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput, Stream
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .._shared.points import CENTRED, FULL, assert_lattice, farthest_sample, offsets, placed, surfaces
from . import nearest_stand_apart

Values = Literal["lattice", "far", "full", "offset", "wide"]
Sampled = Literal["lattice", "full"]
Axis = Literal["x", "y", "z"]
Numbers = tuple[int, ...]
Word = Literal["nan", "inf", "negative_inf", "mixed", "huge"]

# A half's squared unit must be normal.
_UNIT = {DType.FLOAT: -10, DType.HALF: -4}
# The largest coordinate and the unit; where the kind is one of _EXACT, squared distances are.
_GRIDS = {
    "lattice": (CENTRED, _UNIT),
    # Squared distances come near the largest number, and above all that a search may begin with.
    "far": (CENTRED, {DType.FLOAT: 50, DType.HALF: 2}),
    # No rounding to 11 bits of mantissa tells two such points apart.
    "offset": (dict.fromkeys(_UNIT, 60), dict.fromkeys(_UNIT, 0)),
    "full": (FULL, {DType.FLOAT: -24, DType.HALF: -7}),
}
_EXACT = ("lattice", "far", "offset")
# Squared, no float holds what is huge.
_WORDS = {"nan": [np.nan], "inf": [np.inf], "negative_inf": [-np.inf], "mixed": [np.nan, np.inf, -np.inf]}
_WORDS["huge"] = [2.0**100, -(2.0**100)]


def proved(params: Params, unknown: Array, known: Array, margin: int = 0) -> RecipeOutput:
    """Data on which every right kernel finds the same neighbours.

    Any evaluation of any distance is exact; such a case declares `criteria: {dist2: {diff3: 0}}`. With a margin there
    are so many unknown points a batch: the first whose nearest four stand further apart than rounding errs.
    """
    if margin:
        apart = nearest_stand_apart(unknown, known)
        if (apart.sum(axis=1) < margin).any():
            raise ValueError(f"fewer than {margin} of {apart.shape[1]} drawn points have nearest ones that stand apart")
        unknown = np.stack([points[rows][:margin] for points, rows in zip(unknown, apart, strict=True)])
    else:
        assert_lattice(unknown, known)
    dims = tuple(unknown.shape)
    return RecipeOutput({"unknown": unknown, "known": known}, params, outputs={"dist2": dims, "idx": dims})


def _margin_and_count(values: Values, unknown: int) -> tuple[int, int]:
    """The margin that `proved` needs, and how many unknown points to draw, some of which have none."""
    return (0, unknown) if values in _EXACT else (unknown, unknown + unknown // 3 + 32)


def sampled(
    draw: Draw, params: Params, dtype: DType, *, batch: int, unknown: int, known: int, values: Sampled = "lattice"
) -> RecipeOutput:
    """Points on surfaces; the known ones are their farthest-point sample, as a network's next level is."""
    (reach, unit), (margin, count) = _GRIDS[values], _margin_and_count(values, unknown)
    cloud = surfaces(draw, batch, count, reach[dtype])
    queries, points = (placed(one, unit[dtype], dtype) for one in (cloud, farthest_sample(cloud[:, :unknown], known)))
    return proved(params, queries, points, margin)


def scattered(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    batch: int,
    unknown: int,
    known: int,
    values: Values = "lattice",
    reach: int = 0,
) -> RecipeOutput:
    """Both uniform in a cube, each batch its own; a small `reach` (0: the largest that is fair) repeats points."""
    margin, count = _margin_and_count(values, unknown)
    clouds = [(draw.stream("unknown"), (batch, count, 3)), (draw.stream("known"), (batch, known, 3))]
    if values == "wide":
        # Coordinates over 20 binades: distances need more bits than a float64 has.
        drawn = [one.mantissas(shape, exponents=(-16, 3), dtype=str(dtype.storage)) for one, shape in clouds]
    else:
        largest, unit = _GRIDS[values]
        away, size = offsets(draw, batch) if values == "offset" else 0, reach or largest[dtype]
        drawn = [placed(one.integers(-size, size + 1, shape) + away, unit[dtype], dtype) for one, shape in clouds]
    return proved(params, drawn[0], drawn[1], margin)


def listed(draw: Draw, params: Params, dtype: DType, *, unknown: Numbers, known: Numbers) -> RecipeOutput:
    """One batch of the points that the declaration lists, x, y, z after each other; the unit is drawn."""
    unit = int(draw.stream("unit").integers(-7, 1, 1)[0])
    queries, points = (placed(np.reshape(flat, (1, -1, 3)), unit, dtype) for flat in (unknown, known))
    return proved(params, queries, points)


def on_axis(draw: Draw, params: Params, dtype: DType, *, axis: Axis, unknown: int, known: int) -> RecipeOutput:
    """All points on one axis; the other coordinates are zeros of both signs, which are equal."""
    made = scattered(draw, params, dtype, batch=1, unknown=unknown, known=known)
    for name, array in made.inputs.items():
        signs = draw.stream(f"signs of {name}").integers(0, 2, array.shape) - 0.5
        others = np.arange(3) != "xyz".index(axis)
        array[..., others] = np.copysign(0.0, signs)[..., others]
    return made


def tied(draw: Draw, params: Params, dtype: DType, *, batch: int, clusters: int, levels: Numbers) -> RecipeOutput:
    """Every unknown point has known ones around it at the squared distances `levels` (up to 9), all in random order."""
    # Centres stand 9 units apart: 6² and more to the next cluster. Three times three times three of them fit a half.
    cells = [draw.stream(f"cells {number}").sample(27, clusters) for number in range(batch)]
    centres = 9 * (np.stack(np.unravel_index(cells, (3, 3, 3)), axis=-1) - 1)
    around = np.stack([[_shells(draw.stream(f"shell {b} {n}"), levels) for n in range(clusters)] for b in range(batch)])
    points = (centres[:, :, None] + around).reshape(batch, -1, 3)
    order = np.stack([draw.stream(f"order {number}").permutation(points.shape[1]) for number in range(batch)])
    points = np.take_along_axis(points, order[..., None], axis=1)
    return proved(params, placed(centres, _UNIT[dtype], dtype), placed(points, _UNIT[dtype], dtype))


def crowded(draw: Draw, params: Params, dtype: DType, *, unknown: int, known: int) -> RecipeOutput:
    """All known points of a batch at one place: every distance of a row is the same."""
    made = scattered(draw, params, dtype, batch=2, unknown=unknown, known=known)
    made.inputs["known"][...] = made.inputs["known"][:, :1]
    return made


def planted(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    unknown: int,
    known: int,
    at: Numbers,
    levels: Numbers,
    filler: Literal["scattered", "constant"] = "scattered",
) -> RecipeOutput:
    """The first unknown point meets the known ones `at` these indices at these squared distances (up to 9), all others
    stand far off; the other unknown points stand among those."""
    reach = CENTRED[dtype]
    # At least 7 units from the first unknown point: 49 and more.
    far = np.array([reach - (reach - 7) // 2, 0, 0])
    room = np.array([(reach - 7) // 2, reach, reach])
    queries = _in_box(draw.stream("unknown"), unknown, far, room)
    queries[0] = 0
    points = np.full((known, 3), reach) if filler == "constant" else _in_box(draw.stream("known"), known, far, room)
    points[list(at)] = _shells(draw.stream("shell"), levels)
    return proved(params, placed(queries[None], _UNIT[dtype], dtype), placed(points[None], _UNIT[dtype], dtype))


def nonfinite(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    batch: int,
    unknown: int,
    known: int,
    word: Word,
    where: Literal["unknown", "known", "both"],
    finite: int = -1,
) -> RecipeOutput:
    """Some coordinates are not finite, or so large that no distance is: every other unknown point, and all known ones
    but `finite` (−1: half) in random places."""
    # A lattice with huge coordinates is none, so those stand among points with a margin.
    values: Values = "full" if word == "huge" else "lattice"
    made = scattered(draw, params, dtype, batch=batch, unknown=unknown, known=known, values=values)
    if where != "known":
        _spoil(draw, made.inputs["unknown"], word, np.arange(unknown) % 2 == 1)
    if where != "unknown":
        kept = known // 2 if finite < 0 else finite
        for number, points in enumerate(made.inputs["known"]):
            spoilt = np.ones(known, bool)
            spoilt[_finite_places(draw.stream(f"finite {number}"), known)[:kept]] = False
            _spoil(draw, points[None], word, spoilt)
    # Where known points drop out, others are nearest, which must stand apart, too.
    return made if values == "lattice" else proved(params, made.inputs["unknown"], made.inputs["known"], unknown)


def _in_box(stream: Stream, count: int, middle: Array, room: Array) -> Array:
    """Integers [count, 3] at most `room` from the middle on each axis."""
    lanes = stream.lanes(3 * count).reshape(count, 3).astype(np.int64)
    units: Array = middle - room + (lanes * (2 * room + 1) >> 32)
    return units


def _shells(stream: Stream, levels: Numbers) -> Array:
    """Distinct integer vectors [len(levels), 3] of these squared lengths, in random directions."""
    grid = np.stack(np.meshgrid(*[np.arange(-3, 4)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    grid = grid[stream.permutation(len(grid))]
    squared = np.square(grid).sum(axis=1)
    return np.stack([grid[squared == level][levels[:place].count(level)] for place, level in enumerate(levels)])


def _finite_places(stream: Stream, known: int) -> Array:
    """All places in random order, but one of 1 … 63 first: a missing neighbour's index must not be taken from there."""
    order = stream.permutation(known)
    early = (order > 0) & (order < 64)
    first = order[early][:1]
    return np.concatenate([first, order[order != first]])


def _spoil(draw: Draw, points: Array, word: Word, spoilt: Array) -> None:
    """A random coordinate of each spoilt point is the word."""
    axis = draw.stream("axes").integers(0, 3, points.shape[1])
    words = np.array(_WORDS[word], points.dtype)
    chosen = draw.stream("words").integers(0, len(words), points.shape[1])
    points[:, spoilt, axis[spoilt]] = words[chosen[spoilt]]


# What fuzzing draws: points on lattices, with full mantissas and a margin, in ties, and not finite.
_CLOUDS = ("batch", "unknown", "known")
_TAKES = {
    "sampled": (*_CLOUDS, "values"),
    "on_axis": ("axis", "unknown", "known"),
    "tied": ("batch", "clusters", "levels"),
    "crowded": ("unknown", "known"),
    "planted": ("unknown", "known", "at", "levels", "filler"),
    "scattered": (*_CLOUDS, "values", "reach"),
    "nonfinite": (*_CLOUDS, "word", "where", "finite"),
}
_WHAT = (
    *get_args(Values),
    *("sampled", "on_axis", "tied", "crowded", "planted"),
    *(f"{word} {where}" for word in get_args(Word) for where in ("unknown", "known", "both")),
)


def draw(at: Mapping[str, Any]) -> Drawn | None:
    """Unknown and known points of one of the recipes."""
    word, _, where = at["what"].partition(" ")
    recipe = "nonfinite" if where else "scattered" if word in get_args(Values) else word
    places, last = len(at["levels"]), at["known"] - 1
    if (recipe == "sampled" and last >= at["unknown"]) or (recipe == "planted" and at["known"] < 2 * places):
        return None
    given = {
        **at,
        "values": word if recipe == "scattered" else at["sampled"],
        "batch": at["batches"],
        "clusters": min(at["unknown"], 27),
        # Three of them at either end, where tiles and leftovers are.
        "at": tuple(last - place if place % 2 else place for place in range(places)),
        "word": word,
        "where": where,
        "finite": min(at["finite"], at["known"]),
    }
    return Drawn(recipe, {}, {name: given[name] for name in _TAKES[recipe]}, at["dtype"])


def elements(at: Mapping[str, Any]) -> int:
    """Points and distances; where these are not exact in float64, a margin is proved for each."""
    rounds = at["what"] in ("full", "wide", "sampled") or at["what"].startswith("huge")
    pairs = at["unknown"] * at["known"] * 8 if rounds else at["unknown"] * at["known"] // 16
    return int(at["batches"] * (9 * at["unknown"] + 3 * at["known"] + pairs))


SPACE = Space(
    axes={
        "dtype": Choice(("float", "half")),
        "batches": Sizes(1, 5),
        "unknown": Sizes(1, 1025),
        "known": Sizes(1, 1025),
        "reach": Choice((0, 1, 2, 5)),
        "levels": Choice(((1, 1, 1, 2), (1, 2, 3), (2, 2, 1, 1), (4, 4, 4, 4, 4), (0, 1, 9))),
        "finite": Choice((-1, 0, 1, 2, 3)),
        "axis": Choice(("x", "y", "z")),
        "filler": Choice(("scattered", "constant")),
        "sampled": Choice(("lattice", "full")),
        "what": Choice(_WHAT),
    },
    draw=draw,
    elements=elements,
)


RECIPES = {
    recipe.__name__: recipe for recipe in (sampled, scattered, listed, on_axis, tied, crowded, planted, nonfinite)
}
