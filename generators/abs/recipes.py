"""Recipes: numbers of every type, of any bits where results keep them."""

from typing import Final, Literal, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput, widened

from .._shared.bit_patterns import KINDS, BitPatterns
from .._shared.elementwise import mantissa_ends, shapes_space, sign_of, spread, without_sign
from . import RESULTS

Shape = tuple[int, ...]
Values = Literal[
    "full", "wide", "any_bits", "denormal", "nan", "inf", "nan_inf", "nan_only", "zeros", "equal", "edges", "patterns",
    "nan_patterns",
]  # fmt: skip

# Of complex numbers nobody says what an infinity beside NaN is, and squares of tiny parts cannot be compared.
_OF_TYPE: Final = {
    **dict.fromkeys((DType.FLOAT, DType.HALF, DType.BFLOAT16), get_args(Values)[:11]),
    DType.INT32: ("full", "zeros", "equal", "edges"),
    DType.COMPLEX_FLOAT: ("full", "wide", "nan", "inf", "zeros", "equal", "edges"),
}
_INTEGERS: Final = (-1, 1, 1 - (1 << 31), (1 << 31) - 1, -(1 << 24) - 1, (1 << 24) + 1, -(1 << 16), -256, 0)
# Real and imaginary parts. Edges: 3-4-5, the ends of the exponents that squares survive in float64 alone, equal parts,
# parts far apart.
_PARTS: Final = {
    "zeros": ((0.0, -0.0), (-0.0, -0.0, 0.0)),
    "edges": ((-3, 1e19, 1.5e38, -1, 1e-5, 3e4, 1), (4, -1e19, -2e38, 1, 2e-5, -1e-4, 0)),
}


def signed(draw: Draw, params: Params, dtype: DType, *, dims: Shape = (4, 5), values: Values = "full") -> RecipeOutput:
    """Numbers of both signs; patterns are all numbers of 16 bits, or all NaN, whatever the dims."""
    if values.endswith("patterns"):
        every = np.arange(1 << 16, dtype=np.uint16).view(dtype.storage)
        x = _without_poison(every[np.isnan(widened(every, dtype)) == (values == "nan_patterns")], dtype)
    elif values not in _OF_TYPE[dtype]:
        raise ValueError(f"{dtype.value} has no values {values!r}")
    else:
        x = (_complex if dtype is DType.COMPLEX_FLOAT else _real)(draw, dtype, dims, values)
    return RecipeOutput({"x": x}, params, outputs={"y": x.shape})


def _real(draw: Draw, dtype: DType, dims: Shape, values: str) -> Array:
    if values == "zeros":
        return np.resize(np.array([0, sign_of(dtype)], dtype.bits), dims).view(dtype.storage)
    if values == "edges":
        return np.resize(np.array(_INTEGERS, "<i4") if dtype is DType.INT32 else mantissa_ends(dtype), dims)
    if dtype is DType.INT32:
        drawn = draw.stream("x").integers(1 - (1 << 31), 1 << 31, dims).astype("<i4")
        return np.full(dims, -77, "<i4") if values == "equal" else drawn
    drawn = BitPatterns("x", "sorts", KINDS).drawn(draw, dtype, dims, "full" if values == "equal" else values)
    # An element of each sign, whatever is drawn: the last one is negative.
    drawn.view(dtype.bits).reshape(-1)[-1] |= sign_of(dtype)
    return _without_poison(np.full(dims, drawn.reshape(-1)[-1]) if values == "equal" else drawn, dtype)


def _complex(draw: Draw, _: DType, dims: Shape, values: str) -> Array:
    """Both parts from streams of their own; every fifth is 0 in one part, and of seven some what values say."""
    exponents = (-16, 126) if values == "wide" else (-8, 8)
    re, im = (spread(draw, name, DType.FLOAT, dims, exponents).reshape(-1) for name in ("x", "imaginary"))
    re[3::5], im[4::5] = 0, -0.0
    if values in ("nan", "inf"):
        for first, part, number in ((0, im, -np.inf), (2, re, -np.inf), (4, im, np.inf), (5, re, np.inf)):
            part[first::7] = np.nan if values == "nan" else number
    if values in _PARTS:
        re, im = (np.resize(np.array(part, "<f4"), len(re)) for part in _PARTS[values])
    x = np.stack([re, im], axis=-1).view("<c8").reshape(dims)
    return np.full(dims, x.reshape(-1)[0]) if values == "equal" else x


def _without_poison(values: Array, dtype: DType) -> Array:
    """Nowhere the negative of what marks unwritten memory: its magnitude does."""
    poison = np.frombuffer(dtype.poison, dtype.bits)[0]
    bits: Array = values.view(dtype.bits) ^ (without_sign(values, dtype).view(dtype.bits) == poison)
    return bits.astype(dtype.bits).view(dtype.storage)


RECIPES: Final = {"signed": signed}
SPACE: Final = shapes_space("signed", {dtype: _OF_TYPE[dtype] for dtype in RESULTS})
