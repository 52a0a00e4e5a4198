"""Recipes: filters whose entries all differ, or any bit patterns, with the table of the rotation rule."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .._shared.bit_patterns import KINDS, BitPatterns
from . import ORIENTATIONS, ROTATIONS, SIDES, rotation_table

Values = Literal["distinct", "full", "wide", "any_bits", "denormal", "nan", "inf", "nan_inf"]

_bit_patterns = BitPatterns("input", "sorts", KINDS).drawn


def _distinct(draw: Draw, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Finite numbers of both signs and every mantissa, 16 exponents around 1; no two entries of a filter are equal."""
    bits, exponents, bias = (10, 4, 7) if dtype is DType.HALF else (23, 4, 119)
    entries = np.arange(np.prod(shape[2:]))
    start = draw.stream("input").integers(0, 1 << 15, (shape[0], shape[1], 1))
    # An odd step meets every number once before it meets one again.
    step = 2 * draw.stream("step").integers(0, 1 << 14, (1, 1, 1)) + 1
    numbers = (start + step * entries) % (1 << 15)
    # 15 bits that differ: the sign, the exponent and the leading mantissa; below them any.
    lower = bits - 10
    tail = draw.stream("tail").integers(0, 1 << lower, (*shape[:2], len(entries)))
    sign, rest = numbers >> 14, (numbers & 0x3FFF) + (bias << 10)
    patterns = (sign << (8 * dtype.itemsize - 1)) | (rest << lower) | tail
    assert rest.max() >> 10 < bias + (1 << exponents)
    return patterns.astype(dtype.bits).view(dtype.storage).reshape(shape)


def rotated(
    draw: Draw,
    params: Params,
    dtype: DType,
    *,
    filters: int,
    planes: int,
    orientations: int = 1,
    height: int = 3,
    rotations: int = 8,
    values: Values = "distinct",
) -> RecipeOutput:
    """Filters [filters, planes, orientations, height, height] and the rule's table; no filter looks the same turned."""
    shape = (filters, planes, orientations, height, height)
    table = rotation_table(orientations, height, rotations)
    if values == "distinct":
        entries = _distinct(draw, dtype, shape)
    else:
        entries = _bit_patterns(draw, dtype, shape, values)
        refuse_symmetric(entries.view(dtype.bits), table)
    return _made(params, entries, table)


def refuse_symmetric(bits: Array, table: Array) -> None:
    """ValueError where a filter is the same in two rotations although its entries move."""
    places = table.reshape(-1, table.shape[3])
    order = np.argsort(places, axis=0)
    turned = bits.reshape(-1, len(places))[:, order]
    for k in range(1, places.shape[1]):
        is_moved = (places[:, k] != places[:, 0]).any()
        if is_moved and (turned[:, :, k] == turned[:, :, 0]).all(axis=1).any():
            raise ValueError("a filter is the same when it is turned, which hides every rotation; draw other values")


def _made(params: Params, entries: Array, table: Array) -> RecipeOutput:
    filters, planes, orientations, height, _ = entries.shape
    dims = (filters * table.shape[3], planes * orientations, height, height)
    return RecipeOutput({"input": entries, "indices": table}, params, outputs={"output": dims})


# What fuzzing draws: every legal filter.


def draw(at: Mapping[str, Any]) -> Drawn:
    """Filters of these sizes."""
    names = ("filters", "planes", "orientations", "height", "rotations", "values")
    return Drawn("rotated", {}, {name: at[name] for name in names}, at["dtype"])


SPACE = Space(
    axes={
        "dtype": Choice(("float", "half")),
        "filters": Sizes(1, 1025),
        "planes": Sizes(1, 1025),
        "orientations": Choice(ORIENTATIONS),
        "height": Choice(SIDES),
        "rotations": Choice(ROTATIONS),
        "values": Choice(get_args(Values)),
    },
    draw=draw,
    elements=lambda at: (
        at["filters"] * at["planes"] * at["orientations"] * at["height"] ** 2 * (at["rotations"] + 1)
        + at["orientations"] * at["height"] ** 2 * at["rotations"]
    ),
)

RECIPES = {"rotated": rotated}
