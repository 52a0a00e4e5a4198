"""What fuzzing draws: points in, around and far outside of the grid, alone and crowded."""

from collections.abc import Mapping
from typing import Any, get_args

from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .recipes import Kind, NonFinite

_PARAMS = ("batch_size", "num_points", "num_channels", "num_voxel_x", "num_voxel_y", "num_voxel_z")
# The recipe has as many points as cells or corners.
_OWN_POINTS = ("one_per_cell", "bounds", "int32 extremes")


def draw(at: Mapping[str, Any]) -> Drawn | None:
    """Points of one of the recipes."""
    what = at["what"]
    params = {name: at[name] for name in _PARAMS}
    if what in _OWN_POINTS:
        del params["num_points"]
    match what:
        case "scattered":
            args: dict[str, Any] = {"margin": at["margin"], "values": at["values"]}
        case "crowded":
            x, y = (at["corner"] * (at[f"num_voxel_{axis}"] - 1) for axis in "xy")
            args = {"x": x, "y": y, "values": at["values"]}
        case "one_per_cell":
            args = {"values": at["values"]}
        case "bounds" | "int32 extremes":
            args, what = {"int32_extremes": what != "bounds", "values": at["values"]}, "bounds"
        case kind:
            args, what = {"kind": kind}, "nonfinite"
    return Drawn(what, params, args)


def elements(at: Mapping[str, Any]) -> int:
    """Points with their channels, cells with theirs."""
    cells = at["num_voxel_x"] * at["num_voxel_y"]
    points = cells if at["what"] == "one_per_cell" else at["num_points"]
    return int(at["batch_size"] * (points * (6 + at["num_channels"]) + cells * at["num_channels"]))


SPACE = Space(
    axes={
        "batch_size": Sizes(1, 5),
        "num_points": Sizes(1, 2049),
        "num_channels": Sizes(1, 257),
        "num_voxel_x": Sizes(1, 129),
        "num_voxel_y": Sizes(1, 65),
        "num_voxel_z": Sizes(1, 9),
        # Beyond 2^24 floats do not hold every coordinate.
        "margin": Choice((0, 1, 3, 100, 1 << 25)),
        "corner": Choice((0, 1)),
        # A device may take subnormal features for 0.
        "values": Choice(tuple(kind for kind in get_args(Kind) if kind not in ("tiny", "nearly_normal"))),
        "what": Choice(("scattered", "crowded", *_OWN_POINTS, *get_args(NonFinite))),
    },
    draw=draw,
    elements=elements,
)
