"""Recipes: numbers that have a root, and numbers of which the header does not say so."""

from typing import Final, Literal

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput, narrowed

from .._shared.bit_patterns import KINDS, BitPatterns
from .._shared.elementwise import mantissa_ends, plain_patterns, shapes_space, sign_of, spread, without_sign
from . import DOMAIN, RESULTS, outside

Shape = tuple[int, ...]
Values = Literal[
    "full", "wide", "edges", "ends", "squares", "zeros", "equal", "patterns",
    "negative", "nonfinite", "subnormal", "other_patterns",
]  # fmt: skip
_INSIDE: Final = ("full", "wide", "edges", "ends", "squares", "zeros", "equal")
# The largest number whose square the type holds.
_SQUARES: Final = {DType.FLOAT: 4095, DType.HALF: 45, DType.BFLOAT16: 15, DType.INT32: 46340}
_INTEGERS: Final = (0, 1, 2, 3, 4, 99, (1 << 24) + 1, (1 << 31) - 1, (1 << 31) - 2, 46340**2 - 1, 46340**2)


def rooted(draw: Draw, params: Params, dtype: DType, *, dims: Shape = (4, 5), values: Values = "full") -> RecipeOutput:
    """Numbers of that kind; patterns are all of 16 bits inside of the domain, other_patterns all outside."""
    if values.endswith("patterns"):
        every = plain_patterns(dtype)
        x = every[outside(every, dtype) == (values == "other_patterns")]
    elif values == "squares":
        x = narrowed(draw.stream("x").integers(1, _SQUARES[dtype] + 1, dims).astype(np.float64) ** 2, dtype)
    else:
        x = (_integers if dtype is DType.INT32 else _floats)(draw, dtype, dims, values)
    if values == "zeros":
        x.reshape(-1)[::2] = 0
    if values == "equal":
        x = np.full(dims, x.reshape(-1)[0])
    if values in _INSIDE and outside(x, dtype).any():
        raise ValueError("a number lies outside of the domain")
    return RecipeOutput({"x": x}, {"prefer": 1, **params}, outputs={"y": x.shape})


def _integers(draw: Draw, _: DType, dims: Shape, values: Values) -> Array:
    if values in ("edges", "ends"):
        return np.resize(np.array(_INTEGERS, "<i4"), dims)
    x = draw.stream("x").integers(1, 1 << (31 if values == "wide" else 16), dims).astype("<i4")
    return -x if values == "negative" else x


def _floats(draw: Draw, dtype: DType, dims: Shape, values: Values) -> Array:
    if values in ("edges", "ends"):
        return np.resize(
            without_sign(mantissa_ends(dtype), dtype) if values == "edges" else DOMAIN[dtype].ends(dtype), dims
        )
    if values == "subnormal":
        return without_sign(BitPatterns("x", "sorts", KINDS).drawn(draw, dtype, dims, "denormal"), dtype)
    x = without_sign(spread(draw, "x", dtype, dims, DOMAIN[dtype].exponents if values == "wide" else (-8, 8)), dtype)
    if values == "negative":
        x = (x.view(dtype.bits) | sign_of(dtype)).view(dtype.storage)
    replaced = {"negative": ((0, 3, -0.0),), "nonfinite": ((0, 4, np.inf), (1, 4, np.nan), (2, 4, -np.inf))}
    for first, step, number in replaced.get(values, ()):
        x.reshape(-1)[first::step] = narrowed(np.array([number]), dtype)
    return x


RECIPES: Final = {"rooted": rooted}
SPACE: Final = shapes_space("rooted", dict.fromkeys(RESULTS, _INSIDE), prefer=(0, 1))
