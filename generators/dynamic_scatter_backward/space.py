"""What fuzzing draws: poolings of many kinds, with ties, vacant voxels, spare rows and points outside."""

from collections.abc import Mapping
from typing import Any, get_args

from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .recipes import Values

_UNMATCHED = tuple(f"{share} {side}" for share in ("half", "rows", "all") for side in ("above", "below"))
_COUNTS = ("right", "zero", "random")


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
        "what": Choice(("pooled", "tied", "duplicated_maximum", "signed_zeros", *_UNMATCHED, *_COUNTS)),
    },
    draw=draw,
    elements=lambda at: 2 * at["channels"] * (at["points"] + at["voxels"]) + at["points"] + at["voxels"],
)
