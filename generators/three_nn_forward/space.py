"""What fuzzing draws: points on lattices, with full mantissas and a margin, in ties, and not finite."""

from collections.abc import Mapping
from typing import Any, get_args

from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .recipes import Values, Word

_PLAIN = ("sampled", "on_axis", "tied", "crowded", "planted")


def draw(at: Mapping[str, Any]) -> Drawn | None:
    """Unknown and known points of one of the recipes."""
    what, batch = at["what"], at["batch"]
    counts = {"unknown": at["unknown"], "known": at["known"]}
    match what:
        case "sampled":
            args = {"batch": batch, **counts, "values": at["sampled"]}
            if at["known"] > at["unknown"]:
                return None
        case "on_axis":
            args = {"axis": at["axis"], **counts}
        case "tied":
            args = {"batch": batch, "clusters": min(at["unknown"], 27), "levels": at["levels"]}
        case "crowded":
            args = counts
        case "planted":
            args = {**counts, "levels": at["levels"], "filler": at["filler"]}
            places = len(at["levels"])
            if at["known"] < 2 * places:
                return None
            # Three of them at either end, where tiles and leftovers are.
            last = at["known"] - 1
            args["at"] = tuple(last - place if place % 2 else place for place in range(places))
        case _ if what in get_args(Values):
            args, what = {"batch": batch, **counts, "values": what, "reach": at["reach"]}, "scattered"
        case _:
            word, _, where = what.rpartition(" ")
            args = {"batch": batch, **counts, "word": word, "where": where, "finite": min(at["finite"], at["known"])}
            what = "nonfinite"
    return Drawn(what, {}, args, at["dtype"])


def elements(at: Mapping[str, Any]) -> int:
    """Points and distances; where these are not exact in float64, a margin is proved for each."""
    rounds = at["what"] in ("full", "wide", "sampled") or at["what"].startswith("huge")
    pairs = at["unknown"] * at["known"] * 8 if rounds else at["unknown"] * at["known"] // 16
    return int(at["batch"] * (9 * at["unknown"] + 3 * at["known"] + pairs))


SPACE = Space(
    axes={
        "dtype": Choice(("float", "half")),
        "batch": Sizes(1, 5),
        "unknown": Sizes(1, 1025),
        "known": Sizes(1, 1025),
        "reach": Choice((0, 1, 2, 5)),
        "levels": Choice(((1, 1, 1, 2), (1, 2, 3), (2, 2, 1, 1), (4, 4, 4, 4, 4), (0, 1, 9))),
        "finite": Choice((-1, 0, 1, 2, 3)),
        "axis": Choice(("x", "y", "z")),
        "filler": Choice(("scattered", "constant")),
        "sampled": Choice(("lattice", "full")),
        "what": Choice(
            (
                *get_args(Values),
                *_PLAIN,
                *(f"{word} {where}" for word in get_args(Word) for where in ("unknown", "known", "both")),
            )
        ),
    },
    draw=draw,
    elements=elements,
)
