"""What fuzzing draws: windows everywhere on and around an image, values of any bits."""

from collections.abc import Mapping
from typing import Any

from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .recipes import SIDES
from .values import KINDS

# Mask positions grow with the pad: beyond 2^15, 2^16 and 2^24 they leave what narrow integers and floats hold.
_PADS = (0, 1, 2, 4, 9, 300, 40_000, 70_001, 16_777_301)
_WINDOW = ("kernel_h", "kernel_w", "pad_h", "pad_w")


def draw(at: Mapping[str, Any]) -> Drawn | None:
    """Windows where one of the recipes puts them."""
    what, image = at["what"], (at["channels"], at["height"], at["width"])
    args: dict[str, Any] = {"image": image, "values": at["values"]}
    side, _, clear = what.partition(" ")
    if side in SIDES:
        args |= {"side": side, "clear": clear == "clear", "masks": at["masks"]}
        what = "windows_at"
    elif what != "sweep":
        if what == "mask_grid" and at["masks"] > at["height"] * at["width"]:
            return None
        args["masks"] = at["masks"]
    return Drawn(what, {name: at[name] for name in _WINDOW}, args, at["dtype"])


def elements(at: Mapping[str, Any]) -> int:
    """Image and columns; a sweep has a mask for every place."""
    masks = at["masks"]
    if at["what"] == "sweep":
        masks = (at["height"] + at["kernel_h"] + 3) * (at["width"] + at["kernel_w"] + 3)
    window = at["kernel_h"] * at["kernel_w"]
    return int(at["channels"] * (at["height"] * at["width"] + window * masks) + 2 * masks)


SPACE = Space(
    axes={
        "dtype": Choice(("float", "half")),
        "channels": Sizes(1, 129),
        "height": Sizes(1, 4097),
        "width": Sizes(1, 65537),
        "masks": Sizes(1, 1025),
        "kernel_h": Sizes(1, 9),
        "kernel_w": Sizes(1, 9),
        "pad_h": Choice(_PADS),
        "pad_w": Choice(_PADS),
        "values": Choice(tuple(KINDS)),
        "what": Choice(
            ("mask_grid", "scattered", "sweep", *(f"{side} {how}" for side in SIDES for how in ("across", "clear")))
        ),
    },
    draw=draw,
    elements=elements,
)
