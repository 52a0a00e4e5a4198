"""What fuzzing draws: sites anywhere in small and long spaces, kernels with every stride, pad and dilation."""

import math
from collections.abc import Mapping
from typing import Any

from mluops_gtest.authoring.space import Choice, Drawn, InStep, Sizes, Space

_KERNELS = ((3, 3, 3), (1, 1, 1), (2, 2, 2), (1, 1, 3), (3, 1, 1), (1, 2, 3), (5, 1, 1), (4, 3, 2))
_STEPS = ((1, 1, 1), (2, 2, 2), (1, 2, 1), (3, 1, 2))
_PADS = ((0, 0, 0), (1, 1, 1), (0, 1, 2), (2, 2, 2))
_AXES = ("depth", "height", "width")
# Of coordinates that neither a byte nor 16 bits hold.
_LONG = 256
_MAX_CELLS = 1 << 17
# Entries of the parameters are 32 bits wide.
_MOST = 2**31 - 1


def draw(at: Mapping[str, Any]) -> Drawn | None:
    """Sites of one of the recipes in a space of these axes."""
    space = _space(at)
    params: dict[str, Any] = {
        "batch": at["batch"],
        "input_space": space,
        "filter_space": at["kernel"],
        "pad": at["pad"],
    }
    if at["sub_m"]:
        params["sub_m"] = 1
    else:
        # No axis has both (§1.4).
        dilation = tuple(d if s == 1 else 1 for d, s in zip(at["dilation"], at["stride"], strict=True))
        params |= {"stride": at["stride"], "dilation": dilation}
    args: dict[str, Any] = {}
    match at["what"]:
        case "scattered":
            if at["sites"] > at["batch"] * math.prod(space):
                return None
            args = {"sites": at["sites"], "ascending": at["ascending"]}
        case "everywhere":
            if math.prod(space) > _MAX_CELLS:
                return None
            args = {"shuffled": not at["ascending"]}
    return Drawn(at["what"], params, args)


def _space(at: Mapping[str, Any]) -> tuple[int, ...]:
    """The axes as drawn; beside a long one the others are short, since references look at every cell."""
    if at["width"] > _LONG:
        return (1, min(at["height"], 2), at["width"])
    return tuple(at[name] for name in _AXES)


def elements(at: Mapping[str, Any]) -> int:
    """Sites and pairs; where every cell is one, those of the whole space."""
    cells = int(at["batch"] * math.prod(_space(at)))
    sites = cells if at["what"] == "everywhere" else min(cells, at["sites"])
    return int(sites * (8 + 3 * math.prod(at["kernel"])))


SPACE = Space(
    axes={
        "batch": Sizes(1, 4),
        "depth": Sizes(1, 33),
        "height": Sizes(1, 65),
        "width": Sizes(1, 65_537),
        "sites": Sizes(1, 1025),
        "kernel": Choice(_KERNELS),
        "stride": Choice(_STEPS),
        "dilation": Choice(_STEPS),
        "pad": Choice(_PADS),
        "sub_m": Choice((0, 1)),
        "ascending": Choice((False, True)),
        "what": Choice(("scattered", "everywhere", "at_bounds")),
    },
    draw=draw,
    elements=elements,
    limits=(4097, 1_000_001),
    in_step={"K": lambda _call, size: InStep(params={"filter_space": (min(size, _MOST), 1, 1)})},
)
