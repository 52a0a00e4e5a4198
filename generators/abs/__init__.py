"""abs: y = |x| element by element, of complex numbers √(re² + im²), wherever strides put the elements."""

from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np

import mluops_gtest.authoring as mg
from mluops_gtest.authoring import Array, Baseline, DType, OpCall, mistakes, roundings

from .._shared import elementwise
from .._shared.bit_patterns import KINDS, BitPatterns
from .._shared.elementwise import Number, Shape, Wrong, element_mutants, formula, sign_of, without_sign

# §1.1 lists three types, §1.4 four, the header five: ruling, all of them.
RESULTS: Final = {
    **{dtype: dtype for dtype in (DType.FLOAT, DType.HALF, DType.INT32, DType.BFLOAT16)},
    DType.COMPLEX_FLOAT: DType.FLOAT,
}
# §1.5 allows 1e-7, and clearing a sign allows nothing; of complex numbers that is less than one ulp, and 4 are allowed.
CRITERIA: Final = {
    DType.FLOAT: mg.CriteriaByParam("x", {DType.FLOAT: mg.exact(), DType.COMPLEX_FLOAT: elementwise.HIGH[DType.FLOAT]}),
    **dict.fromkeys((DType.HALF, DType.INT32, DType.BFLOAT16), mg.exact()),
}
# Squares of floats and their sum stay far from the ends of float64: no undue overflow.
_REFERENCE: Final = partial(elementwise.rounded, "y", lambda x: np.sqrt(x.real * x.real + x.imag * x.imag))
_BOUND: Final = partial(elementwise.preferred_bound, _REFERENCE, "y")


def reference(call: OpCall) -> Baseline:
    """The magnitudes, of complex numbers rounded once."""
    x, dtype = np.ascontiguousarray(call.array("x")), call.tensor("x").dtype
    if dtype is DType.COMPLEX_FLOAT:
        return _REFERENCE(call)
    # The sign bit alone: −0 becomes +0, NaN stays NaN, denormals survive.
    return Baseline({"y": np.abs(x) if dtype is DType.INT32 else without_sign(x, dtype)})


def precondition(call: OpCall) -> str | None:
    """What has no answer."""
    x = call.array("x")
    if x.dtype == np.int32 and (x == -(1 << 31)).any():
        return "x has −2^31, whose magnitude no int32 holds"
    if x.dtype.kind == "c" and ((np.isinf(x.real) & np.isnan(x.imag)) | (np.isnan(x.real) & np.isinf(x.imag))).any():
        return "x has an infinity beside NaN"
    return None


def magnitude(re: Number, im: Number = Fraction(0)) -> Number:
    """The formula of §1.2 word by word."""
    if isinstance(re, Fraction) and isinstance(im, Fraction):
        return elementwise.exact_root(re * re + im * im)
    return abs(float(re)) + abs(float(im))


def _float_parts(x: Array) -> Array:
    return np.stack([x.real, x.imag], -1).astype("<f4")


WRONG: Final[Wrong] = {
    "elements are copied as they are": formula("fi", lambda x: x),
    "every sign is turned": formula("fi", lambda x: -x),
    "results are −|x|": formula("fic", lambda x: -np.abs(x)),
    "negative elements become 0": formula("fi", lambda x: np.maximum(x, 0)),
    "results are |x|²": formula("fic", lambda x: (x * x.conj()).real),
    "the sign bit of integers is cleared": formula("i", lambda x: x & 0x7FFFFFFF),
    "negative integers are complemented": formula("i", lambda x: np.where(x < 0, ~x, x)),
    "integers pass through float": formula("i", lambda x: np.abs(x).astype("<f4").clip(0, 2**31 - 128)),
    "results are |re| + |im|": formula("c", lambda x: np.abs(x.real) + np.abs(x.imag)),
    "results are the larger of |re| and |im|": formula("c", lambda x: abs(_float_parts(x)).max(-1)),
    "results are |re|": formula("c", lambda x: np.abs(x.real)),
    "a real part −Inf keeps its sign": formula("c", lambda x: np.where(x.real == -np.inf, x.real, np.abs(x))),
    "real parts come before imaginary ones": formula("c", lambda x: np.hypot(*_float_parts(x).reshape(2, *x.shape))),
    "squares of parts are made in float": formula("c", lambda x: np.sqrt(np.square(_float_parts(x)).sum(-1))),
    # What flushes subnormal numbers is told by the numbers themselves.
    **{
        words: formula("f", lambda x, spoil=spoil: np.abs(spoil(x.astype("<f4"))))
        for _, words, spoil in roundings.WRONG_COPIES
        if spoil is not roundings.flushed
    },
}


def _flush(call: OpCall) -> None:
    y = call.array("y")
    y[...] = roundings.flushed(y) if y.dtype.kind == "f" else y


# A sign that is kept on −0 shows with --bitwise alone, so no mutant does it.
def _mutants(operator: mg.Operator) -> tuple[mg.Mutant, ...]:
    flushes = mistakes.spoilt("flushes_denormals", "denormals become 0", operator.kernel, _flush)
    return (*element_mutants(operator, alike=False), flushes)


def _compute(call: OpCall) -> Array:
    """x or −x; complex numbers are scaled by their larger part."""
    x = call.array("x")
    if x.dtype.kind == "c":
        parts = np.abs([x.real, x.imag])
        small, large = np.fmin(*parts), np.fmax(*parts)
        ratio = np.where((large > 0) & np.isfinite(large), small / large, np.float32(0))
        scaled = large * np.sqrt(np.float32(1) + ratio * ratio)
        return np.where(np.isnan(parts).any(axis=0), np.float32(np.nan), scaled)
    if x.dtype == np.uint16:  # bits of bfloat16, whose sign counts 2^15
        return x % np.uint16(1 << 15)
    return np.where(x < 0, -x, x) if x.dtype == np.int32 else np.copysign(x, x.dtype.type(1))


# Recipes: numbers of every type, of any bits where results keep them.

# Of complex numbers nobody says what an infinity beside NaN is, and squares of tiny parts cannot be compared.
_BITS: Final = ("full", "wide", "any_bits", "denormal", "nan", "inf", "nan_inf", "nan_only", "zeros", "equal", "edges")
_VALUES: Final = {
    **dict.fromkeys(RESULTS, _BITS),
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


def signed(draw: mg.Draw, dtype: DType, dims: Shape, values: str) -> dict[str, Array]:
    """Numbers of both signs; patterns are all numbers of 16 bits, or all NaN, whatever the dims."""
    if values.endswith("patterns"):
        every = np.arange(1 << 16, dtype=np.uint16).view(dtype.storage)
        is_nan = np.isnan(mg.widened(every, dtype))
        return {"x": _without_poison(every[is_nan == (values == "nan_patterns")], dtype)}
    return {"x": (_complex if dtype is DType.COMPLEX_FLOAT else _real)(draw, dtype, dims, values)}


def _real(draw: mg.Draw, dtype: DType, dims: Shape, values: str) -> Array:
    if values == "zeros":
        return np.resize(np.array([0, sign_of(dtype)], dtype.bits), dims).view(dtype.storage)
    if values == "edges":
        return np.resize(np.array(_INTEGERS, "<i4") if dtype is DType.INT32 else elementwise.mantissa_ends(dtype), dims)
    if dtype is DType.INT32:
        drawn = draw.stream("x").integers(1 - (1 << 31), 1 << 31, dims).astype("<i4")
        return np.full(dims, -77, "<i4") if values == "equal" else drawn
    drawn = BitPatterns("x", "sorts", KINDS).drawn(draw, dtype, dims, "full" if values == "equal" else values)
    # An element of each sign, whatever is drawn: the last one is negative.
    drawn.view(dtype.bits).reshape(-1)[-1] |= sign_of(dtype)
    return _without_poison(np.full(dims, drawn.reshape(-1)[-1]) if values == "equal" else drawn, dtype)


def _complex(draw: mg.Draw, _: DType, dims: Shape, values: str) -> Array:
    """Both parts from streams of their own; every fifth is 0 in one part, and of seven some what values say."""
    exponents = (-16, 126) if values == "wide" else (-8, 8)
    re, im = (draw.stream(name).mantissas(dims, exponents).reshape(-1) for name in ("x", "imaginary"))
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


OPERATOR = elementwise.element_operator(
    "abs", 2022, RESULTS, ("x",), "y",
    summary="The magnitude of every element.",
    criteria=CRITERIA,
    # §1.4: strides are legal on both sides, so no check looks at them.
    checks=elementwise.unary_checks(RESULTS),
    reference=reference,
    bound=lambda call: _BOUND(call) if call.tensor("x").dtype is DType.COMPLEX_FLOAT else {"y": mg.Bound(0.0)},
    precondition=precondition,
    exact=magnitude,
    refuse=partial(elementwise.refuse_unary, RESULTS),
    compute=_compute,
    in_torch=lambda x: x.abs(),
    wrong=WRONG,
    mutants=_mutants,
    recipe=signed,
    kinds=_VALUES,
    other_kinds=("patterns", "nan_patterns"),
)  # fmt: skip
