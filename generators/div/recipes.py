"""Recipes: quotients that criteria can judge are drawn with their divisors; numerators are the products, rounded."""

from typing import Final, Literal, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput

from .._shared.elementwise import mantissa_ends, plain_patterns, shapes_space, spread
from . import DOMAIN, FLOATS, is_defined

Shape = tuple[int, ...]
Values = Literal[
    "full", "wide", "edges", "ends", "relations", "ones", "zeros", "equal", "patterns", "nonfinite", "tiny", "overflow",
    "other_patterns",
]  # fmt: skip
_INSIDE: Final = get_args(Values)[:8]
# Of quotients: from the smallest on that criteria can judge, but for 0.
_SMALLEST: Final = {DType.FLOAT: 1e-5, DType.HALF: 1e-3}
_QUOTIENTS: Final = {DType.FLOAT: (-16, 15), DType.HALF: (-9, 5)}
_RELATIONS: Final = (1, -1, 0.5, 64, -1 / 64, 1.5)
_NONFINITE: Final = ((1, 0), (-1, 0), (0, 0), (np.inf, 2), (2, -np.inf), (np.nan, 1))


def divided(draw: Draw, params: Params, dtype: DType, *, dims: Shape = (4, 5), values: Values = "full") -> RecipeOutput:
    """Numbers of that kind; patterns divide by every half of the domain, other_patterns by every other one."""
    if values.endswith("patterns"):
        every = plain_patterns(dtype)
        y = every[DOMAIN[dtype].holds(every) == (values == "patterns")]
        x = _products(draw, dtype, y, (-8, 4))
    else:
        x, y = _drawn(draw, dtype, dims, values)
    if values in (*_INSIDE, "patterns"):
        _refuse_unfit(x.astype(np.float64), y.astype(np.float64), dtype)
    return RecipeOutput({"x": x, "y": y}, {"prefer": 1, **params}, outputs={"z": x.shape})


def _drawn(draw: Draw, dtype: DType, dims: Shape, values: Values) -> tuple[Array, Array]:
    domain, exponents, limits = DOMAIN[dtype], (-8, 4 if dtype is DType.HALF else 8), np.finfo(dtype.storage)
    if values == "relations":
        y = spread(draw, "y", dtype, dims, (-2, 2))
        return np.resize(np.array(_RELATIONS, dtype.storage), dims) * y, y
    y = spread(draw, "y", dtype, dims, domain.exponents if values == "wide" else exponents)
    if values in ("edges", "ends"):
        # A sign of its own for each, and other neighbours in each row.
        y = np.copysign(np.resize(mantissa_ends(dtype) if values == "edges" else domain.ends(dtype), dims), y)
    x = _products(draw, dtype, y, _QUOTIENTS[dtype] if values == "wide" else exponents)
    match values:
        case "edges":
            x = np.resize(mantissa_ends(dtype)[::-1][:-1], dims)
        case "ones":
            x = np.ones(dims, dtype.storage)
        case "zeros":
            x.reshape(-1)[::2], x.reshape(-1)[4::6] = 0, -0.0
        case "equal":
            x, y = (np.full(dims, one.reshape(-1)[0]) for one in (x, y))
        case "nonfinite":
            for first, (over, under) in enumerate(_NONFINITE):
                x.reshape(-1)[first::7], y.reshape(-1)[first::7] = over, under
        case "tiny":
            x, y = np.full(dims, limits.smallest_normal), np.copysign(np.abs(y) + dtype.storage.type(1), y)
        case "overflow":
            x = np.full(dims, limits.max)
            y.reshape(-1)[::2] = 0.25
    return x, y


def _products(draw: Draw, dtype: DType, y: Array, exponents: tuple[int, int]) -> Array:
    """The numerators for drawn quotients; a quotient whose product is not normal becomes one around 1."""
    z = spread(draw, "z", dtype, y.shape, exponents).astype(np.float64)
    limits = np.finfo(dtype.storage)
    with np.errstate(all="ignore"):
        product = np.abs(z * y)
        is_normal = (product > 2 * float(limits.smallest_normal)) & (product < float(limits.max) / 2)
        z = np.where(is_normal, z, 2 * np.frexp(z)[0])
        return np.where(np.isfinite(y), z * y, z).astype(dtype.storage)


def _refuse_unfit(x: Array, y: Array, dtype: DType) -> None:
    is_judged = (np.abs(x / y) >= _SMALLEST[dtype]) & (np.abs(x) >= np.finfo(dtype.storage).smallest_normal)
    if not ((is_judged & np.isfinite(x) | (x == 0)) & DOMAIN[dtype].holds(y)).all():
        raise ValueError("a quotient is too small to be compared, or a number lies outside of the domain")


RECIPES: Final = {"divided": divided}
SPACE: Final = shapes_space("divided", dict.fromkeys(FLOATS, _INSIDE), is_defined, prefer=(0, 1, 2))
