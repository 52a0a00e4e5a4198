"""Recipes: numbers of every type, of any bits where results keep them."""

from typing import Final, Literal, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, RecipeOutput

from .._shared import elementwise
from .._shared.bit_patterns import KINDS, BitPatterns
from . import RESULTS

Shape = tuple[int, ...]
Values = Literal[
    "full", "wide", "any_bits", "denormal", "nan", "inf", "nan_inf", "nan_only", "zeros", "equal", "edges", "patterns",
    "nan_patterns",
]  # fmt: skip

# Of complex numbers nobody says what an infinity beside NaN is, and squares of tiny parts cannot be compared.
_COMPLEX_EXPONENTS: Final = {"full": (-8, 8), "wide": (-16, 126), "nan": (-8, 8), "inf": (-8, 8)}
_OF_TYPE: Final = {
    **dict.fromkeys((DType.FLOAT, DType.HALF, DType.BFLOAT16), get_args(Values)[:11]),
    DType.INT32: ("full", "zeros", "equal", "edges"),
    DType.COMPLEX_FLOAT: (*_COMPLEX_EXPONENTS, "zeros", "equal", "edges"),
}


def signed(draw: Draw, params: Params, dtype: DType, *, dims: Shape = (4, 5), values: Values = "full") -> RecipeOutput:
    """Numbers of both signs; patterns are all numbers of 16 bits, or all NaN, whatever the dims."""
    if values.endswith("patterns"):
        every = elementwise.all_patterns(dtype)
        is_nan = elementwise.is_nan(every, dtype)
        x = _without_poison(every[is_nan if values == "nan_patterns" else ~is_nan], dtype)
    elif values not in _OF_TYPE[dtype]:
        raise ValueError(f"{dtype.value} has no values {values!r}")
    else:
        x = _drawn(draw, dtype, dims, values)
    return RecipeOutput({"x": x}, params, outputs={"y": x.shape})


def _drawn(draw: Draw, dtype: DType, dims: Shape, values: str) -> Array:
    if dtype is DType.COMPLEX_FLOAT:
        return _complex(draw, dims, values)
    if values == "zeros":
        return np.resize(np.array([0, 1 << 8 * dtype.itemsize - 1], dtype.bits), dims).view(dtype.storage)
    if dtype is DType.INT32:
        drawn = draw.stream("x").integers(1 - (1 << 31), 1 << 31, dims).astype("<i4")
        ends = np.array(
            [-1, 1, 1 - (1 << 31), (1 << 31) - 1, -(1 << 24) - 1, (1 << 24) + 1, -(1 << 16), -256, 0], "<i4"
        )
        return {"equal": np.full(dims, -77, "<i4"), "edges": np.resize(ends, dims)}.get(values, drawn)
    if values == "edges":
        return np.resize(elementwise.mantissa_ends(dtype), dims)
    drawn = BitPatterns("x", "sorts", KINDS).drawn(draw, dtype, dims, "full" if values == "equal" else values)
    # An element of each sign, whatever is drawn: the last one is negative.
    drawn.view(dtype.bits).reshape(-1)[-1] |= dtype.bits.type(1 << 8 * dtype.itemsize - 1)
    return _without_poison(np.full(dims, drawn.reshape(-1)[-1]) if values == "equal" else drawn, dtype)


def _complex(draw: Draw, dims: Shape, values: str) -> Array:
    """Both parts from streams of their own; every fifth is 0 in one part, and every seventh what values say."""
    exponents = _COMPLEX_EXPONENTS.get(values, (-8, 8))
    parts = [elementwise.spread(draw, name, DType.FLOAT, dims, exponents).reshape(-1) for name in ("x", "imaginary")]
    parts[0][3::5], parts[1][4::5] = 0, -0.0
    if values in ("nan", "inf"):
        for first, part, number in ((0, 1, -np.inf), (2, 0, -np.inf), (4, 1, np.inf), (5, 0, np.inf)):
            parts[part][first::7] = np.nan if values == "nan" else number
    if values == "zeros":
        parts = [np.resize(np.array(part, "<f4"), len(parts[0])) for part in ([0.0, -0.0], [-0.0, -0.0, 0.0])]
    if values == "edges":
        # 3-4-5, the ends of the exponents that squares survive in float64 alone, equal parts, parts far apart.
        re, im = [-3, 1e19, 1.5e38, -1, 1e-5, 3e4, 1], [4, -1e19, -2e38, 1, 2e-5, -1e-4, 0]
        parts = [np.resize(np.array(part, "<f4"), len(parts[0])) for part in (re, im)]
    x = np.stack(parts, axis=-1).view("<c8").reshape(dims)
    return np.full(dims, x.reshape(-1)[0]) if values == "equal" else x


def _without_poison(values: Array, dtype: DType) -> Array:
    """Nowhere the negative of what marks unwritten memory: its magnitude does."""
    poison = int.from_bytes(dtype.poison, "little")
    bits = values.view(dtype.bits).copy()
    bits[(bits & ((1 << 8 * dtype.itemsize - 1) - 1)) == poison] ^= 1
    return bits.view(dtype.storage)


RECIPES: Final = {"signed": signed}
SPACE: Final = elementwise.shapes_space("signed", tuple(RESULTS), _OF_TYPE)
