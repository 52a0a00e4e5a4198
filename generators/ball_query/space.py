"""What fuzzing draws: clouds on lattices or clear of both spheres, for radii that meet many points, few or none."""

from collections.abc import Mapping
from typing import Any

from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

_NONFINITE = ("nan", "inf", "negative_inf")
# In units of the lattice; min_radius above max_radius is an empty shell, and 0 finds the centre alone.
_RADII = ((0.0, 2.5), (1.5, 3.5), (0.0, 1.0), (0.0, 0.0), (2.0, 2.0), (3.0, 1.0), (0.0, 100.0), (1.0, 1.5), (0.5, 9.0))


def draw(at: Mapping[str, Any]) -> Drawn | None:
    """Spheres of these radii around the centres of one of the recipes."""
    what, exponent = at["what"], at["exponent"]
    scale = 1.0 if what == "precise" else 2.0**exponent
    params = {"min_radius": at["radii"][0] * scale, "max_radius": at["radii"][1] * scale, "nsample": at["nsample"]}
    clouds = {"batches": at["batches"], "centres": at["centres"], "points": at["points"]}
    match what:
        case "scattered":
            args = {**clouds, "spread": at["spread"], "exponent": exponent}
        case "offset":
            args = {**clouds, "spread": at["spread"], "offset": True}
            params |= {"min_radius": at["radii"][0], "max_radius": at["radii"][1]}
        case "planted":
            # All places of the shell are listed.
            if at["radii"][1] > 9 or at["radii"][1] == 0:
                return None
            last = at["points"] - 1
            places = dict.fromkeys((0, last // 2, last))
            rows = tuple((place + at["centres"] - 1) % at["centres"] for place in places)
            args = {"centres": at["centres"], "points": at["points"], "hits": tuple(places), "rows": rows}
            params |= {"min_radius": 0.0, "max_radius": at["radii"][1]}
        case "shells":
            squares = (0, 1, 2, 4, 5, 6, 9)[: at["spread"] + 1]
            each = max(1, at["points"] // (len(squares) * at["centres"]))
            args = {"squares": squares, "each": each, "batches": at["batches"], "centres": at["centres"]}
            args["exponent"] = exponent
        case "precise":
            # Of half rows few keep clear of all points.
            if at["centres"] * at["points"] > (512 if at["dtype"] == "half" else 8192):
                return None
            args = clouds
            params |= {"min_radius": at["radii"][0] / 16, "max_radius": at["radii"][1] / 16}
            if at["dtype"] == "half":
                params |= {"min_radius": at["radii"][0], "max_radius": at["radii"][1]}
        case _:
            value, _, where = what.rpartition(" ")
            args = {"value": value, "where": where}
            what = "nonfinite"
            params |= {"min_radius": at["radii"][0], "max_radius": at["radii"][1]}
    return Drawn("scattered" if what == "offset" else what, params, args, at["dtype"])


SPACE = Space(
    axes={
        "dtype": Choice(("float", "half")),
        "batches": Sizes(1, 5),
        "centres": Sizes(1, 513),
        "points": Sizes(1, 2049),
        "nsample": Sizes(0, 129),
        "radii": Choice(_RADII),
        "spread": Choice((1, 2, 3, 6)),
        "exponent": Choice((0, -2, 3)),
        "what": Choice(
            (
                *("scattered", "offset", "planted", "shells", "precise"),
                *(f"{value} {where}" for value in _NONFINITE for where in ("centre", "point", "both")),
            )
        ),
    },
    draw=draw,
    elements=lambda at: (
        at["batches"] * (at["centres"] * (3 + at["nsample"]) + 3 * at["points"] + at["centres"] * at["points"] // 16)
    ),
    limits=(536895361,),
)
