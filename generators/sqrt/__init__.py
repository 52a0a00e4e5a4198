"""sqrt: y = √x element by element. It has no document: what is ruled is read from mlu_op.h and the released code."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import (
    Array,
    Baseline,
    Bound,
    DType,
    OpCall,
    Operator,
    OutputSpec,
    Status,
    TensorSpec,
    checks,
    narrowed,
    widened,
)
from mluops_gtest.authoring.c_api import HANDLE, c_function, tensor
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction
from mluops_gtest.authoring.roundings import through_half

from .._shared import elementwise
from .._shared.wrong_elementwise import Formula, Wrong, element_suspects, formula, imprecise

# The header names half and float, the code also bfloat16, and int32 with float results: ruling, all of them.
RESULTS: Final = {
    **{dtype: dtype for dtype in (DType.FLOAT, DType.HALF, DType.BFLOAT16)},
    DType.INT32: DType.FLOAT,
}
# The header; for half it excludes (1e-2, 1e-1), which nothing explains: ruling, the whole interval. And +0, exactly.
DOMAIN: Final = {
    DType.FLOAT: elementwise.Domain(1e-10, 1e10, (-33, 32)),
    DType.HALF: elementwise.Domain(1e-3, 60000, (-9, 14)),
    DType.BFLOAT16: elementwise.Domain(1e-6, 1e10, (-19, 32)),
    DType.INT32: elementwise.Domain(1, 2**31 - 1, (0, 30)),
}

CHECKS: Final = (
    checks.params("prefer", doc=elementwise.CODE),
    *elementwise.unary_checks(RESULTS),
    checks.strided_alike(doc=elementwise.CODE),
)


def reference(call: OpCall) -> Baseline:
    """The roots in float64, rounded once more: of so few bits that this is the exact root, rounded once."""
    with np.errstate(invalid="ignore"):
        roots = np.sqrt(widened(call.array("x"), call.tensor("x").dtype).astype(np.float64))
    # Which NaN an operation gives differs between processors.
    return Baseline({"y": narrowed(np.where(np.isnan(roots), np.nan, roots), call.tensor("y").dtype)})


def bound(call: OpCall) -> Mapping[str, Bound]:
    """What the preference asks."""
    y = widened(reference(call).outputs["y"], call.tensor("y").dtype).astype(np.float64)
    return {"y": elementwise.preferred_bound(call, y, "y")}


def outside(x: Array, dtype: DType) -> Array:
    """bool: the header does not say what the root of that number is; −0 counts as negative."""
    with np.errstate(invalid="ignore"):
        wide = widened(x, dtype).astype(np.float64)
    return ~(DOMAIN[dtype].holds(wide) & (wide > 0)) & ~((wide == 0) & ~np.signbit(wide))


def find_outside(call: OpCall, baseline: Baseline) -> str | None:  # noqa: ARG001 - all are called alike
    """That a number is outside of the domain; the cases expect of it what IEEE says."""
    is_outside = outside(call.array("x"), call.tensor("x").dtype).any()
    return "x has a number outside of the header's domain" if is_outside else None


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """√x."""
    x = widened(call.array("x"), call.tensor("x").dtype)

    def element(*index: int) -> Fraction | float:
        value = Fraction(int(x[index])) if x.dtype.kind == "i" else fraction(x[index])
        if not isinstance(value, Fraction):
            return float("inf") if value > 0 else float("nan")
        return elementwise.exact_root(value) if value >= 0 else float("nan")

    return {"y": element}


# Mistakes in what is computed.


def _imprecise(bits: int, *preferences: int) -> Formula:
    """Roots with that many bits of mantissa where one of these is preferred; of floats."""
    return imprecise(lambda call: reference(call).outputs["y"], "y", bits, preferences)


def _read_as_floats(call: OpCall) -> Array | None:
    x = np.ascontiguousarray(call.array("x"))
    return np.sqrt(x.view("<f4")) if x.dtype.kind == "i" else None


def _exchanged(call: OpCall) -> Array | None:
    """bfloat16 has the bits of half."""
    x = np.ascontiguousarray(call.array("x"))
    return np.sqrt(x.view("<f2").astype("<f4")) if call.tensor("x").dtype is DType.BFLOAT16 else None


def _halved_exponents(x: Array) -> Array:
    mantissas, exponents = np.frexp(x)
    return np.ldexp(np.sqrt(mantissas), exponents // 2)


def _by_logarithms(x: Array) -> Array:
    return np.exp(np.log(x.astype("<f4")) * np.float32(0.5))


WRONG: Final[tuple[Wrong, ...]] = (
    ("inverse", "results are 1/√x", formula("fi", lambda x: 1 / np.sqrt(x))),
    ("squared", "results are x²", formula("fi", lambda x: 1.0 * x * x)),
    ("copied", "results are x", formula("fi", lambda x: x)),
    ("halved", "results are x/2", formula("fi", lambda x: x / 2)),
    ("cube_root", "results are ∛x", formula("fi", np.cbrt)),
    ("small_unrooted", "no root is taken below 1", formula("f", lambda x: np.where(x < 1, x, np.sqrt(x)))),
    ("large_unrooted", "no root is taken above 1", formula("f", lambda x: np.where(x > 1, x, np.sqrt(x)))),
    ("whole", "fractions of roots are cut off", formula("fi", lambda x: np.trunc(np.sqrt(x)))),
    ("odd_exponents_lost", "√2 of odd exponents is lost", formula("fi", _halved_exponents)),
    ("zero_is_nan", "x · 1/√x is NaN for 0", formula("fi", lambda x: np.sqrt(x) * (x / x))),
    ("negative", "the negative root is taken", formula("fi", lambda x: -np.sqrt(x))),
    ("bits_as_floats", "bits of integers are read as floats", _read_as_floats),
    ("integers_in_half", "integers pass through half", formula("i", lambda x: np.sqrt(through_half(1.0 * x)))),
    ("integers_in_16_bits", "16 bits of integers are read", formula("i", lambda x: np.sqrt(x & 0x7FFF))),
    ("bfloat16_as_half", "bits of bfloat16 are read as half", _exchanged),
    ("in_half", "floats are computed with 11 bits", _imprecise(11, 1)),
    ("in_bfloat16", "floats are computed with 8 bits", _imprecise(8, 1)),
    ("seed_alone", "the estimate of 12 bits is not improved", _imprecise(12, 1)),
    ("fast_in_4_bits", "FAST is computed with 4 bits", _imprecise(4, 0)),
    ("by_logarithms", "results are exp(½ · log x) in float", formula("fi", _by_logarithms)),
)  # fmt: skip


# The kernel that the numpy backend runs: Heron's steps on mantissas.


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


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:  # noqa: ARG001 - all operators are called alike
    """torch.sqrt of float32."""
    outputs["y"].copy_(inputs["x"].float().sqrt())


OPERATOR = Operator(
    name="sqrt",
    released_name="sqrt",
    op_type=("SQRT", 2021),
    summary="The square root of every element.",
    inputs=(TensorSpec("x", elementwise.SHAPE, tuple(RESULTS), None),),
    outputs=(
        OutputSpec("y", elementwise.SHAPE, elementwise.by_preference(DType.FLOAT, DType.HALF, DType.BFLOAT16), None),
    ),
    params=elementwise.preference("sqrt_param", 4003, "SqrtParam", (0, 1)),
    checks=CHECKS,
    sizes=elementwise.element_sizes("x"),
    reference=reference,
    bound=bound,
    left_open={"undefined": find_outside},
    exact=elements,
    kernel=kernel,
    torch_kernel=torch_kernel,
    theory=elementwise.theory,
    suspects=element_suspects("y", WRONG),
    reductions=elementwise.axis_reductions("x", output="y"),
    c_api=c_function("mluOpSqrt", arguments=(HANDLE, elementwise.PREFER, *tensor("x", "y"))),
)
