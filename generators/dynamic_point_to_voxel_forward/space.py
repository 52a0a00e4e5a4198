"""What fuzzing draws: voxels with few points and many, points outside, every kind of values."""

from collections.abc import Mapping
from typing import Any, get_args

from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .recipes import NonFinite, Order
from .values import Kind, Reduce

_EXTENTS = ((10, 40, 40), (1, 1, 2049), (2049, 1, 1), (1, 65, 33), (3, 3, 3))
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
        "extents": Choice(_EXTENTS),
        "order": Choice(get_args(Order)),
        "levels": Choice(_LEVELS),
        # A device may take subnormal features for 0.
        "values": Choice(tuple(kind for kind in get_args(Kind) if kind != "tiny")),
        "what": Choice(("placed", "counted", "crossed", *get_args(NonFinite))),
    },
    draw=draw,
    elements=lambda at: at["channels"] * (at["points"] + at["voxels"]) + 4 * (at["points"] + at["voxels"]),
)
