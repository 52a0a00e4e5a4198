"""sqrt: y = √x element by element. It has no document: what is ruled is read from mlu_op.h and the released code."""

from fractions import Fraction
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Baseline, DType, OpCall, Status, checks, narrowed, widened
from mluops_gtest.authoring.roundings import through_half

from .._shared import elementwise
from .._shared.elementwise import Domain
from .._shared.wrong_elementwise import Wrong, formula, imprecise, numbers

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


def reference(call: OpCall) -> Baseline:
    """The roots in float64, rounded once more: of so few bits that this is the exact root, rounded once."""
    with np.errstate(invalid="ignore"):
        return elementwise.rounded(call, "y", np.sqrt(numbers(call, "x")))


def outside(x: Array, dtype: DType) -> Array:
    """bool: the header does not say what the root of that number is; −0 counts as negative."""
    with np.errstate(invalid="ignore"):
        wide = widened(x, dtype).astype(np.float64)
    return np.where(wide == 0, np.signbit(wide), ~DOMAIN[dtype].holds(wide) | (wide < 0))


def find_outside(call: OpCall, baseline: Baseline) -> str | None:  # noqa: ARG001 - all are called alike
    """That a number is outside of the domain; the cases expect of it what IEEE says."""
    is_outside = outside(call.array("x"), call.tensor("x").dtype).any()
    return "x has a number outside of the header's domain" if is_outside else None


def root(x: Fraction | float) -> Fraction | float:
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


WRONG: Final[tuple[Wrong, ...]] = (
    ("inverse", "results are 1/√x", formula("fi", lambda x: 1 / np.sqrt(x))),
    ("squared", "results are x²", formula("fi", lambda x: 1.0 * x * x)),
    ("copied", "results are x", formula("fi", lambda x: x)),
    ("small_unrooted", "no root is taken below 1", formula("f", lambda x: np.sqrt(x, out=x, where=x >= 1))),
    ("large_unrooted", "no root is taken above 1", formula("f", lambda x: np.sqrt(x, out=x, where=x <= 1))),
    ("odd_exponents_lost", "√2 of odd exponents is lost", formula("fi", _halved_exponents)),
    ("zero_is_nan", "x · 1/√x is NaN for 0", formula("fi", lambda x: np.sqrt(x) * (x / x))),
    ("negative", "the negative root is taken", formula("fi", lambda x: -np.sqrt(x))),
    ("bits_as_floats", "bits of integers are read as floats",
     formula("i", lambda x: np.sqrt(x.astype("<i4").view("<f4")))),
    ("integers_in_half", "integers pass through half", formula("i", lambda x: np.sqrt(through_half(1.0 * x)))),
    ("bfloat16_as_half", "bits of bfloat16 are read as half", _read_as_half),
    *imprecise(reference, "y"),
    ("by_logarithms", "results are exp(½ · log x) in float",
     formula("fi", lambda x: np.exp(np.log(x.astype("<f4")) * np.float32(0.5)))),
)  # fmt: skip


def kernel(call: OpCall) -> Status:
    """Check the call, halve the exponents, and improve a linear estimate of the roots of what is left."""
    if call.param("prefer") not in (0, 1):
        return Status.BAD_PARAM
    refused = elementwise.unary_refusal(call, RESULTS)
    if refused is not None:
        return refused
    if not elementwise.is_dense_alike([call.tensor("x"), call.tensor("y")]):
        return Status.NOT_SUPPORTED
    with np.errstate(all="ignore"):
        x = widened(call.array("x"), call.tensor("x").dtype).astype(np.float32)
        mantissas, exponents = np.frexp(x)
        odd = exponents & 1
        mantissas = np.ldexp(mantissas, -odd)
        roots = np.float32(0.4) + np.float32(0.6) * mantissas
        for _ in range(4):
            roots = np.float32(0.5) * (roots + mantissas / roots)
        results = np.where((x > 0) & (x < np.inf), np.ldexp(roots, (exponents + odd) // 2), np.where(x < 0, np.nan, x))
        call.array("y")[...] = narrowed(results.astype(np.float32), call.tensor("y").dtype)
    return Status.SUCCESS


OPERATOR = elementwise.element_operator(
    "sqrt", 2021, RESULTS, ("x",), "y",
    prefer=elementwise.preference("sqrt", 4003, (0, 1)),
    summary="The square root of every element.",
    checks=(
        checks.params("prefer", doc=elementwise.CODE),
        *elementwise.unary_checks(RESULTS),
        checks.strided_alike(doc=elementwise.CODE),
    ),
    reference=reference,
    left_open={"undefined": find_outside},
    exact=root,
    kernel=kernel,
    in_torch=lambda x: x.float().sqrt(),
    wrong=WRONG,
    accepted_faults={"y: one ulp": "right implementations err by up to four"},
)  # fmt: skip
