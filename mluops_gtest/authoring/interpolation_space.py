"""What fuzzing draws for operators that read three weighted cells per point."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from mluops_gtest.authoring.factors import SUBNORMAL
from mluops_gtest.authoring.interpolation import Triples, Values, Weights
from mluops_gtest.core.call import Choice, Drawn, Sizes, Space

_SHAPE: Final = ("batches", "channels", "cells", "points")
_DRAWN: Final = "drawn"


def interpolation_space(special: tuple[str, ...]) -> Space:
    """The recipes nearest, drawn, cancelling, last_cells, and special of these kinds; floats are no subnormal ones."""

    def draw(at: Mapping[str, Any]) -> Drawn | None:
        shape = tuple(at[name] for name in _SHAPE)
        what = at["values"]
        if at["dtype"] == "float" and what in SUBNORMAL:
            return None
        match what:
            case _ if what in get_args(Values):
                args, what = {name: at[name] for name in ("triples", "weights", "values")}, _DRAWN
            case "last_cells":
                args = {"named": min(at["cells"], 3)}
            case "nearest" | "cancelling":
                args = {}
            case kind:
                what, args = "special", {"kind": kind}
        return Drawn(what, {}, {"shape": shape, **args}, at["dtype"])

    return Space(
        axes={
            "dtype": Choice(("float", "half")),
            "batches": Sizes(1, 5),
            "channels": Sizes(1, 257),
            "cells": Sizes(1, 1025),
            "points": Sizes(1, 2049),
            "triples": Choice(get_args(Triples)),
            "weights": Choice(get_args(Weights)),
            "values": Choice((*get_args(Values), "nearest", "cancelling", "last_cells", *special)),
        },
        draw=draw,
        elements=lambda at: at["batches"] * (at["channels"] * (at["cells"] + at["points"]) + 6 * at["points"]),
    )
