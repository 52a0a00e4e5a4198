"""sqrt: y = √x element by element. It has no document: what is ruled is read from mlu_op.h and the released code."""

from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np

import mluops_gtest.authoring as mg
from mluops_gtest.authoring import Array, DType, OpCall, Status, TensorArg, checks, narrowed, roundings, widened

from .._shared import elementwise
from .._shared.bit_patterns import KINDS, BitPatterns
from .._shared.elementwise import CODE, Domain, Number, Shape, Wrong, formula, imprecise, sign_of, without_sign
from .._shared.refusals import Refusals

# The header names half and float, the code also bfloat16, and int32 with float results: ruling, all of them.
RESULTS: Final = {
    **{dtype: dtype for dtype in (DType.FLOAT, DType.HALF, DType.BFLOAT16)},
    DType.INT32: DType.FLOAT,
}
# The header; for half it excludes (1e-2, 1e-1), which nothing explains: ruling, the whole interval. And +0, exactly.
DOMAIN: Final = {
    DType.FLOAT: Domain(1e-10, 1e10, (-33, 32)),
    DType.HALF: Domain(1e-3, 60000, (-9, 14)),
    DType.BFLOAT16: Domain(1e-6, 1e10, (-19, 32)),
    DType.INT32: Domain(1, 2**31 - 1, (0, 30)),
}
# In float64, rounded once more: of so few bits that this is the exact root, rounded once.
REFERENCE: Final = partial(elementwise.rounded, "y", np.sqrt)


def outside(x: Array, dtype: DType) -> Array:
    """bool: the header does not say what the root of that number is; −0 counts as negative."""
    with np.errstate(invalid="ignore"):
        wide = widened(x, dtype).astype(np.float64)
    return np.where(wide == 0, np.signbit(wide), ~DOMAIN[dtype].holds(wide) | (wide < 0))


def find_outside(call: OpCall, baseline: mg.Baseline) -> str | None:  # noqa: ARG001 - all are called alike
    """That a number is outside of the domain; the cases expect of it what IEEE says."""
    is_outside = outside(call.array("x"), call.tensor("x").dtype).any()
    return "x has a number outside of the header's domain" if is_outside else None


def root(x: Number) -> Number:
    """√x."""
    if isinstance(x, Fraction) and x >= 0:
        return elementwise.exact_root(x)
    return float("inf") if x == float("inf") else float("nan")


def _halved_exponents(x: Array) -> Array:
    mantissas, exponents = np.frexp(x)
    roots: Array = np.ldexp(np.sqrt(mantissas), exponents // 2)
    return roots


def _read_as_half(call: OpCall) -> Array | None:
    x = np.ascontiguousarray(call.array("x"))
    return np.sqrt(x.view("<f2").astype("<f4")) if call.tensor("x").dtype is DType.BFLOAT16 else None


WRONG: Final[Wrong] = {
    "results are 1/√x": formula("fi", lambda x: 1 / np.sqrt(x)),
    "results are x²": formula("fi", lambda x: 1.0 * x * x),
    "results are x": formula("fi", lambda x: x),
    "no root is taken below 1": formula("f", lambda x: np.sqrt(x, out=x, where=x >= 1)),
    "no root is taken above 1": formula("f", lambda x: np.sqrt(x, out=x, where=x <= 1)),
    "√2 of odd exponents is lost": formula("fi", _halved_exponents),
    "x · 1/√x is NaN for 0": formula("fi", lambda x: np.sqrt(x) * (x / x)),
    "the negative root is taken": formula("fi", lambda x: -np.sqrt(x)),
    "bits of integers are read as floats": formula("i", lambda x: np.sqrt(x.astype("<i4").view("<f4"))),
    "integers pass through half": formula("i", lambda x: np.sqrt(roundings.through_half(1.0 * x))),
    "bits of bfloat16 are read as half": _read_as_half,
    **imprecise(np.sqrt),
    "results are exp(½ · log x) in float": formula("fi", lambda x: np.exp(np.log(x.astype("<f4")) * np.float32(0.5))),
}


def _refuse(call: OpCall, args: list[TensorArg], is_old: bool) -> Refusals:
    yield call.param("prefer") not in (0, 1), Status.BAD_PARAM
    yield from elementwise.refuse_unary(RESULTS, call, args, is_old)
    yield elementwise.unlike_strides(args)


def _compute(call: OpCall) -> Array:
    """Exponents are halved, and a linear estimate of the roots of what is left is improved."""
    x = widened(call.array("x"), call.tensor("x").dtype).astype(np.float32)
    mantissas, exponents = np.frexp(x)
    odd = exponents & 1
    mantissas = np.ldexp(mantissas, -odd)
    roots = np.float32(0.4) + np.float32(0.6) * mantissas
    for _ in range(4):
        roots = np.float32(0.5) * (roots + mantissas / roots)
    results = np.where((x > 0) & (x < np.inf), np.ldexp(roots, (exponents + odd) // 2), np.where(x < 0, np.nan, x))
    return narrowed(results.astype(np.float32), call.tensor("y").dtype)


# Recipes: numbers inside of the domain and outside.

_INSIDE: Final = ("full", "wide", "edges", "ends", "squares", "zeros", "equal")
# The largest number whose square the type holds.
_SQUARES: Final = {DType.FLOAT: 4095, DType.HALF: 45, DType.BFLOAT16: 15, DType.INT32: 46340}
_INTEGERS: Final = (0, 1, 2, 3, 4, 99, (1 << 24) + 1, (1 << 31) - 1, (1 << 31) - 2, 46340**2 - 1, 46340**2)


def rooted(draw: mg.Draw, dtype: DType, dims: Shape, values: str) -> dict[str, Array]:
    """Numbers of that kind; patterns are all of 16 bits inside of the domain, other_patterns all outside."""
    if values.endswith("patterns"):
        every = elementwise.plain_patterns(dtype)
        return {"x": every[outside(every, dtype) == (values == "other_patterns")]}
    if values == "squares":
        x = narrowed(draw.stream("x").integers(1, _SQUARES[dtype] + 1, dims).astype(np.float64) ** 2, dtype)
    else:
        x = (_integers if dtype is DType.INT32 else _floats)(draw, dtype, dims, values)
    if values == "zeros":
        x.reshape(-1)[::2] = 0
    if values == "equal":
        x = np.full(dims, x.reshape(-1)[0])
    if values in _INSIDE and outside(x, dtype).any():
        raise ValueError("a number lies outside of the domain")
    return {"x": x}


def _integers(draw: mg.Draw, _: DType, dims: Shape, values: str) -> Array:
    if values in ("edges", "ends"):
        return np.resize(np.array(_INTEGERS, "<i4"), dims)
    x = draw.stream("x").integers(1, 1 << (31 if values == "wide" else 16), dims).astype("<i4")
    return -x if values == "negative" else x


def _floats(draw: mg.Draw, dtype: DType, dims: Shape, values: str) -> Array:
    if values in ("edges", "ends"):
        ends = elementwise.mantissa_ends(dtype) if values == "edges" else DOMAIN[dtype].ends(dtype)
        return np.resize(without_sign(ends, dtype), dims)
    if values == "subnormal":
        return without_sign(BitPatterns("x", "sorts", KINDS).drawn(draw, dtype, dims, "denormal"), dtype)
    exponents = DOMAIN[dtype].exponents if values == "wide" else (-8, 8)
    x = without_sign(draw.stream("x").mantissas(dims, exponents, dtype.storage.str), dtype)
    if values == "negative":
        x = (x.view(dtype.bits) | sign_of(dtype)).view(dtype.storage)
    replaced = {"negative": ((0, 3, -0.0),), "nonfinite": ((0, 4, np.inf), (1, 4, np.nan), (2, 4, -np.inf))}
    for first, step, number in replaced.get(values, ()):
        x.reshape(-1)[first::step] = narrowed(np.array([number]), dtype)
    return x


OPERATOR = elementwise.element_operator(
    "sqrt", 2021, RESULTS, ("x",), "y",
    prefer=4003,
    preferences=(0, 1),
    summary="The square root of every element.",
    checks=(checks.params("prefer", doc=CODE), *elementwise.unary_checks(RESULTS), checks.strided_alike(doc=CODE)),
    reference=REFERENCE,
    left_open={"undefined": find_outside},
    exact=root,
    refuse=_refuse,
    compute=_compute,
    in_torch=lambda x: x.float().sqrt(),
    wrong=WRONG,
    recipe=rooted,
    kinds=dict.fromkeys(RESULTS, _INSIDE),
    other_kinds=("patterns", "negative", "nonfinite", "subnormal", "other_patterns"),
    accepted_faults={"y: one ulp": "right implementations err by up to four"},
)  # fmt: skip
