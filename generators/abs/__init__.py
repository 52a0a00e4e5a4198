"""abs: y = |x| element by element, of complex numbers √(re² + im²), wherever strides put the elements."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import (
    Array,
    Baseline,
    Bound,
    CriteriaByParam,
    DType,
    OpCall,
    Operator,
    OutputSpec,
    Status,
    TensorSpec,
    exact,
    widened,
)
from mluops_gtest.authoring.c_api import c_function
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction
from mluops_gtest.authoring.roundings import WRONG_COPIES, through_half

from .._shared import elementwise
from .._shared.wrong_elementwise import Formula, Wrong, element_suspects, formula

# §1.1 lists three types, §1.4 four, the header five: ruling, all of them.
RESULTS: Final = {
    **{dtype: dtype for dtype in (DType.FLOAT, DType.HALF, DType.INT32, DType.BFLOAT16)},
    DType.COMPLEX_FLOAT: DType.FLOAT,
}
# §1.5 allows 1e-7, and clearing a sign allows nothing; of complex numbers that is less than one ulp, and 4 are allowed.
CRITERIA: Final = {
    DType.FLOAT: CriteriaByParam(
        "x", {DType.FLOAT: exact(), DType.COMPLEX_FLOAT: elementwise.diff3(elementwise.HIGH[DType.FLOAT])}
    ),
    **dict.fromkeys((DType.HALF, DType.INT32, DType.BFLOAT16), exact()),
}
_SMALLEST: Final = -(1 << 31)

# §1.4: strides are legal on both sides, so no check looks at them.
CHECKS: Final = elementwise.unary_checks(RESULTS)


def magnitudes(x: Array, dtype: DType) -> Array:
    """|x| in the type of the results."""
    if dtype is DType.COMPLEX_FLOAT:
        # Squares of floats and their sum stay far from the ends of float64: no undue overflow.
        re, im = x.real.astype(np.float64), x.imag.astype(np.float64)
        with np.errstate(all="ignore"):
            size: Array = np.sqrt(re * re + im * im).astype(np.float32)
        return size
    if dtype is DType.INT32:
        return np.abs(x.astype(np.int64)).astype(np.int32)
    # The sign bit alone: −0 becomes +0, NaN stays NaN, denormals survive.
    return elementwise.without_sign(np.ascontiguousarray(x), dtype)


def reference(call: OpCall) -> Baseline:
    """The magnitudes, rounded once."""
    return Baseline({"y": magnitudes(call.array("x"), call.tensor("x").dtype)})


def bound(call: OpCall) -> Mapping[str, Bound]:
    """Nothing but for complex numbers."""
    if call.tensor("x").dtype is DType.COMPLEX_FLOAT:
        size = magnitudes(call.array("x"), DType.COMPLEX_FLOAT).astype(np.float64)
        return {"y": elementwise.rounded_bound(size, elementwise.HIGH[DType.FLOAT])}
    return {"y": Bound(0.0)}


def precondition(call: OpCall) -> str | None:
    """What has no answer."""
    x = call.array("x")
    if x.dtype == np.int32 and (x == _SMALLEST).any():
        return "x has −2^31, whose magnitude no int32 holds"
    if x.dtype.kind == "c" and ((np.isinf(x.real) & np.isnan(x.imag)) | (np.isnan(x.real) & np.isinf(x.imag))).any():
        return "x has an infinity beside NaN"
    return None


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The formula of §1.2 word by word."""
    x = widened(call.array("x"), call.tensor("x").dtype)

    def element(*index: int) -> Fraction | float:
        value = x[index]
        if value.dtype.kind != "c":
            return abs(Fraction(int(value)) if value.dtype.kind == "i" else fraction(value))
        re, im = fraction(value.real), fraction(value.imag)
        if isinstance(re, Fraction) and isinstance(im, Fraction):
            return elementwise.exact_root(re * re + im * im)
        return abs(float(re)) + abs(float(im))

    return {"y": element}


# Mistakes in what is computed: of floats, integers, complex numbers.


def _spoilt_copies(spoil: Callable[[Array], Array]) -> Formula:
    """Of what numpy has types for."""

    def computed(call: OpCall) -> Array | None:
        x = call.array("x")
        return np.abs(spoil(np.ascontiguousarray(x))) if x.dtype.kind == "f" else None

    return computed


def _planes(call: OpCall) -> Array | None:
    x = call.array("x")
    parts = np.ascontiguousarray(x).reshape(-1).view("<f4") if x.dtype.kind == "c" else None
    return None if parts is None else np.hypot(*parts.astype(np.float64).reshape(2, -1)).reshape(x.shape)


def _overflowing(call: OpCall) -> Array | None:
    x = call.array("x")
    return np.sqrt(x.real * x.real + x.imag * x.imag) if x.dtype.kind == "c" else None


def _through_float(x: Array) -> Array:
    return np.abs(x).astype("<f4").clip(0, 2**31 - 128)


def _half_parts(x: Array) -> Array:
    return np.hypot(through_half(x.real), through_half(x.imag))


def _larger(x: Array, share: float) -> Array:
    """The larger part and a share of the smaller one."""
    parts = np.abs(x.real), np.abs(x.imag)
    return np.maximum(*parts) + share * np.minimum(*parts)


WRONG: Final[tuple[Wrong, ...]] = (
    ("copied", "elements are copied as they are", formula("fi", lambda x: x)),
    ("negated", "every sign is turned", formula("fi", lambda x: -x)),
    ("negative", "results are −|x|", formula("fic", lambda x: -np.abs(x))),
    ("clipped", "negative elements become 0", formula("fi", lambda x: np.maximum(x, 0))),
    ("squared", "results are |x|²", formula("fic", lambda x: (x * x.conj()).real)),
    ("truncated", "fractions are cut off", formula("f", lambda x: np.trunc(np.abs(x)))),
    ("sign_bit_cleared", "the sign bit of integers is cleared", formula("i", lambda x: x & 0x7FFFFFFF)),
    ("complemented", "negative integers are complemented", formula("i", lambda x: np.where(x < 0, ~x, x))),
    ("through_float", "integers pass through float", formula("i", _through_float)),
    ("saturated", "integers stop at 16 bits", formula("i", lambda x: np.abs(x).clip(0, 32767))),
    ("parts_added", "results are |re| + |im|", formula("c", lambda x: _larger(x, 1))),
    ("larger_part", "results are the larger of |re| and |im|", formula("c", lambda x: _larger(x, 0))),
    ("estimated", "results are the larger part and 3/8 of the smaller one", formula("c", lambda x: _larger(x, 0.375))),
    ("real_alone", "results are |re|", formula("c", lambda x: np.abs(x.real))),
    ("imaginary_alone", "results are |im|", formula("c", lambda x: np.abs(x.imag))),
    ("not_conjugate", "results are √|re² − im²|", formula("c", lambda x: np.sqrt(np.abs((x * x).real)))),
    ("half_parts", "parts of complex numbers are rounded to half", formula("c", _half_parts)),
    ("planes", "all real parts come before all imaginary ones", _planes),
    ("squares_overflow", "squares of parts are made in float", _overflowing),
    *((name, words, _spoilt_copies(spoil)) for name, words, spoil in WRONG_COPIES),
)  # fmt: skip


def kernel(call: OpCall) -> Status:
    """Check the call, then choose between x and −x; scale complex numbers by their larger part."""
    refused = elementwise.unary_refusal(call, RESULTS)
    if refused is not None:
        return refused
    x, y = call.array("x"), call.array("y")
    with np.errstate(all="ignore"):
        if x.dtype.kind == "c":
            parts = np.stack([x.real, x.imag])
            small, large = np.fmin(abs(parts[0]), abs(parts[1])), np.fmax(abs(parts[0]), abs(parts[1]))
            ratio = np.where((large > 0) & np.isfinite(large), small / large, np.float32(0))
            scaled = large * np.sqrt(np.float32(1) + ratio * ratio)
            y[...] = np.where(np.isnan(parts).any(axis=0), np.float32(np.nan), scaled)
        elif x.dtype == np.uint16:  # bits of bfloat16, whose sign counts 2^15
            y[...] = x % np.uint16(1 << 15)
        elif x.dtype == np.int32:
            y[...] = np.where(x < 0, -x, x)
        else:
            y[...] = np.copysign(x, x.dtype.type(1))
    return Status.SUCCESS


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:  # noqa: ARG001 - all operators are called alike
    """torch.abs of any type."""
    outputs["y"].copy_(inputs["x"].abs())


OPERATOR = Operator(
    name="abs",
    released_name="abs",
    op_type=("ABS", 2022),
    summary="The magnitude of every element.",
    inputs=(TensorSpec("x", elementwise.SHAPE, tuple(RESULTS), None),),
    outputs=(OutputSpec("y", elementwise.SHAPE, CRITERIA, None),),
    checks=CHECKS,
    sizes=elementwise.element_sizes("x"),
    reference=reference,
    bound=bound,
    precondition=precondition,
    exact=elements,
    kernel=kernel,
    torch_kernel=torch_kernel,
    theory=elementwise.theory,
    suspects=element_suspects("y", WRONG),
    reductions=elementwise.axis_reductions("x", output="y"),
    c_api=c_function("mluOpAbs"),
)
