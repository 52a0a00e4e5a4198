"""What fuzzing draws: distinct pixels in any order, values of any bits."""

from collections.abc import Mapping
from typing import Any

from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .values import KINDS


def draw(at: Mapping[str, Any]) -> Drawn | None:
    """Masks as a detector lists them, or anywhere."""
    if at["masks"] > at["height"] * at["width"]:
        return None
    args = {"image": (at["channels"], at["height"], at["width"]), "masks": at["masks"], "values": at["values"]}
    if at["what"] == "detected":
        return Drawn("detected", {}, args, at["dtype"])
    return Drawn("pixels", {}, {**args, "order": at["what"]}, at["dtype"])


SPACE = Space(
    axes={
        "dtype": Choice(("float", "half")),
        "channels": Sizes(1, 1025),
        "height": Sizes(1, 4097),
        "width": Sizes(1, 65537),
        "masks": Sizes(1, 4097),
        "values": Choice(tuple(KINDS)),
        "what": Choice(("detected", "rows", "columns", "descending", "shuffled")),
    },
    draw=draw,
    elements=lambda at: at["channels"] * (at["height"] * at["width"] + at["masks"]) + 2 * at["masks"],
)
