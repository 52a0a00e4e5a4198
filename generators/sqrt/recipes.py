"""Recipes: numbers that have a root, and numbers of which the header does not say so."""

from typing import Final, Literal

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput, narrowed

from .._shared import elementwise
from .._shared.bit_patterns import KINDS, BitPatterns
from . import DOMAIN, RESULTS, outside

Shape = tuple[int, ...]
Values = Literal[
    "full", "wide", "edges", "ends", "squares", "zeros", "equal", "patterns",
    "negative", "nonfinite", "subnormal", "other_patterns",
]  # fmt: skip
_INSIDE: Final = ("full", "wide", "edges", "ends", "squares", "zeros", "equal")
_FLOATS: Final = (DType.FLOAT, DType.HALF, DType.BFLOAT16)
# The largest number whose square the type holds.
_SQUARES: Final = {DType.FLOAT: 4095, DType.HALF: 45, DType.BFLOAT16: 15, DType.INT32: 46340}
_INTEGERS: Final = (0, 1, 2, 3, 4, 99, (1 << 24) + 1, (1 << 31) - 1, (1 << 31) - 2, 46340**2 - 1, 46340**2)


def rooted(draw: Draw, params: Params, dtype: DType, *, dims: Shape = (4, 5), values: Values = "full") -> RecipeOutput:
    """Numbers of that kind; patterns are all of 16 bits inside of the domain, other_patterns all outside."""
    x = _drawn(draw, dtype, dims, values)
    if values in _INSIDE and outside(x, dtype).any():
        raise ValueError("a number lies outside of the domain")
    return RecipeOutput({"x": x}, {"prefer": 1, **params}, outputs={"y": x.shape})


def _drawn(draw: Draw, dtype: DType, dims: Shape, values: Values) -> Array:
    if values.endswith("patterns"):
        every = elementwise.plain_patterns(dtype)
        return every[outside(every, dtype) == (values == "other_patterns")]
    stream = draw.stream("x")
    if values == "squares":
        return narrowed(stream.integers(1, _SQUARES[dtype] + 1, dims).astype(np.float64) ** 2, dtype)
    if dtype is DType.INT32:
        x = stream.integers(1, 1 << (31 if values == "wide" else 16), dims).astype("<i4")
        listed = np.resize(np.array(_INTEGERS, "<i4"), dims)
        x = {"edges": listed, "ends": listed, "negative": -x}.get(values, x)
    elif values == "subnormal":
        return elementwise.without_sign(BitPatterns("x", "sorts", KINDS).drawn(draw, dtype, dims, "denormal"), dtype)
    else:
        exponents = DOMAIN[dtype].exponents if values == "wide" else (-8, 8)
        x = elementwise.without_sign(elementwise.spread(draw, "x", dtype, dims, exponents), dtype)
        if values == "edges":
            x = np.resize(elementwise.without_sign(elementwise.mantissa_ends(dtype), dtype), dims)
        if values == "ends":
            x = np.resize(DOMAIN[dtype].ends(dtype), dims)
        if values == "negative":
            x = elementwise.with_sign(x, dtype)
            x.reshape(-1)[::3] = narrowed(np.array([-0.0]), dtype)
        if values == "nonfinite":
            flat = x.reshape(-1)
            for first, number in enumerate((np.inf, np.nan, -np.inf)):
                flat[first::4] = narrowed(np.array([number]), dtype)
    if values == "zeros":
        x.reshape(-1)[::2] = 0
    return np.full(dims, x.reshape(-1)[0]) if values == "equal" else x


RECIPES: Final = {"rooted": rooted}
SPACE: Final = elementwise.shapes_space("rooted", tuple(RESULTS), dict.fromkeys(RESULTS, _INSIDE), prefer=(0, 1))
