"""What fuzzing draws: windows everywhere on and around an image, values of any bits."""

from collections.abc import Mapping
from typing import Any

from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .recipes import SIDES
from .values import KINDS

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
        "height": Sizes(1, 65),
        "width": Sizes(1, 129),
        "masks": Sizes(1, 1025),
        "kernel_h": Sizes(1, 9),
        "kernel_w": Sizes(1, 9),
        "pad_h": Sizes(0, 9),
        "pad_w": Sizes(0, 9),
        "values": Choice(tuple(KINDS)),
        "what": Choice(
            ("mask_grid", "scattered", "sweep", *(f"{side} {how}" for side in SIDES for how in ("across", "clear")))
        ),
    },
    draw=draw,
    elements=elements,
)
