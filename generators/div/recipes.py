"""Recipes: quotients that criteria can judge are drawn with their divisors; numerators are the products, rounded."""

from typing import Final, Literal

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput

from .._shared import elementwise
from . import DOMAIN, FLOATS, SMALLEST, is_defined

Shape = tuple[int, ...]
Values = Literal[
    "full", "wide", "edges", "ends", "relations", "ones", "zeros", "equal", "patterns", "nonfinite", "tiny", "overflow",
    "other_patterns",
]  # fmt: skip
_INSIDE: Final = ("full", "wide", "edges", "ends", "relations", "ones", "zeros", "equal")
# Of quotients: from the smallest that are compared on.
_QUOTIENTS: Final = {DType.FLOAT: (-16, 15), DType.HALF: (-9, 5)}
_RELATIONS: Final = (1, -1, 0.5, 64, -1 / 64, 1.5)


def divided(draw: Draw, params: Params, dtype: DType, *, dims: Shape = (4, 5), values: Values = "full") -> RecipeOutput:
    """Numbers of that kind; patterns divide by every half of the domain, other_patterns by every other one."""
    if values.endswith("patterns"):
        every = elementwise.plain_patterns(dtype)
        every = every[DOMAIN[dtype].holds(every) == (values == "patterns")]
        x, y = _with_products(draw, dtype, every, every.shape, (-8, 4))
    else:
        x, y = _drawn(draw, dtype, dims, values)
    if values in (*_INSIDE, "patterns"):
        _refuse_unfit(x.astype(np.float64), y.astype(np.float64), dtype)
    return RecipeOutput({"x": x, "y": y}, {"prefer": 1, **params}, outputs={"z": x.shape})


def _drawn(draw: Draw, dtype: DType, dims: Shape, values: Values) -> tuple[Array, Array]:
    domain, exponents = DOMAIN[dtype], (-8, 4 if dtype is DType.HALF else 8)
    y = elementwise.spread(draw, "y", dtype, dims, domain.exponents if values == "wide" else exponents)
    if values in ("edges", "ends"):
        listed = elementwise.mantissa_ends(dtype) if values == "edges" else domain.ends(dtype)
        # A sign of its own for each, and other neighbours in each row.
        y = np.copysign(np.resize(listed, dims), y)
    if values == "relations":
        y = elementwise.spread(draw, "y", dtype, dims, (-2, 2))
        return np.resize(np.array(_RELATIONS, dtype.storage), dims) * y, y
    x, y = _with_products(draw, dtype, y, dims, _QUOTIENTS[dtype] if values == "wide" else exponents)
    match values:
        case "edges":
            x = np.resize(elementwise.mantissa_ends(dtype)[::-1][:-1], dims)
        case "ones":
            x = np.ones(dims, dtype.storage)
        case "zeros":
            x.reshape(-1)[::2], x.reshape(-1)[4::6] = 0, -0.0
        case "equal":
            x, y = (np.full(dims, one.reshape(-1)[0]) for one in (x, y))
        case "nonfinite":
            for first, (over, under) in enumerate(((1, 0), (-1, 0), (0, 0), (np.inf, 2), (2, -np.inf), (np.nan, 1))):
                x.reshape(-1)[first::7], y.reshape(-1)[first::7] = over, under
        case "tiny":
            x = np.full(dims, np.finfo(dtype.storage).smallest_normal)
            y = np.copysign(np.abs(y) + dtype.storage.type(1), y)
        case "overflow":
            x = np.full(dims, np.finfo(dtype.storage).max)
            y.reshape(-1)[::2] = 0.25
    return x, y


def _with_products(draw: Draw, dtype: DType, y: Array, dims: Shape, exponents: tuple[int, int]) -> tuple[Array, Array]:
    """The numerators for drawn quotients, and y; a quotient whose product is not normal becomes one around 1."""
    z = elementwise.spread(draw, "z", dtype, dims, exponents).astype(np.float64)
    limits = np.finfo(dtype.storage)
    with np.errstate(invalid="ignore"):
        product = np.abs(z * y)
    is_normal = (product > 2 * float(limits.smallest_normal)) & (product < float(limits.max) / 2)
    z = np.where(is_normal, z, 2 * np.frexp(z)[0])
    with np.errstate(all="ignore"):
        x = (z * y).astype(dtype.storage)
    return np.where(np.isfinite(y), x, z.astype(dtype.storage)), y


def _refuse_unfit(x: Array, y: Array, dtype: DType) -> None:
    z = np.abs(x / y)
    limits = np.finfo(dtype.storage)
    is_fit = (x == 0) | ((z >= SMALLEST[dtype]) & (np.abs(x) >= limits.smallest_normal) & np.isfinite(x))
    if not (is_fit & DOMAIN[dtype].holds(y)).all():
        raise ValueError("a quotient is too small to be compared, or a number lies outside of the domain")


RECIPES: Final = {"divided": divided}
SPACE: Final = elementwise.shapes_space("divided", FLOATS, dict.fromkeys(FLOATS, _INSIDE), is_defined, prefer=(0, 1, 2))
