"""abs: y = |x| element by element, of complex numbers √(re² + im²), wherever strides put the elements."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Baseline, Bound, CriteriaByParam, DType, OpCall, Status, exact
from mluops_gtest.authoring.roundings import WRONG_COPIES, flushed, through_half

from .._shared import elementwise
from .._shared.wrong_elementwise import Formula, Wrong, formula, numbers

# §1.1 lists three types, §1.4 four, the header five: ruling, all of them.
RESULTS: Final = {
    **{dtype: dtype for dtype in (DType.FLOAT, DType.HALF, DType.INT32, DType.BFLOAT16)},
    DType.COMPLEX_FLOAT: DType.FLOAT,
}
# §1.5 allows 1e-7, and clearing a sign allows nothing; of complex numbers that is less than one ulp, and 4 are allowed.
CRITERIA: Final = {
    DType.FLOAT: CriteriaByParam("x", {DType.FLOAT: exact(), DType.COMPLEX_FLOAT: elementwise.HIGH[DType.FLOAT]}),
    **dict.fromkeys((DType.HALF, DType.INT32, DType.BFLOAT16), exact()),
}


def reference(call: OpCall) -> Baseline:
    """The magnitudes, rounded once."""
    x, dtype = np.ascontiguousarray(call.array("x")), call.tensor("x").dtype
    if dtype is DType.COMPLEX_FLOAT:
        # Squares of floats and their sum stay far from the ends of float64: no undue overflow.
        wide = numbers(call, "x")
        with np.errstate(all="ignore"):
            return elementwise.rounded(call, "y", np.sqrt(wide.real * wide.real + wide.imag * wide.imag))
    if dtype is DType.INT32:
        return Baseline({"y": np.abs(x.astype(np.int64)).astype(np.int32)})
    # The sign bit alone: −0 becomes +0, NaN stays NaN, denormals survive.
    return Baseline({"y": elementwise.without_sign(x, dtype)})


def bound(call: OpCall) -> Mapping[str, Bound]:
    """Nothing but for complex numbers."""
    is_complex = call.tensor("x").dtype is DType.COMPLEX_FLOAT
    return elementwise.preferred_bound(reference, "y")(call) if is_complex else {"y": Bound(0.0)}


def precondition(call: OpCall) -> str | None:
    """What has no answer."""
    x = call.array("x")
    if x.dtype == np.int32 and (x == -(1 << 31)).any():
        return "x has −2^31, whose magnitude no int32 holds"
    if x.dtype.kind == "c" and ((np.isinf(x.real) & np.isnan(x.imag)) | (np.isnan(x.real) & np.isinf(x.imag))).any():
        return "x has an infinity beside NaN"
    return None


def magnitude(re: Fraction | float, im: Fraction | float = Fraction(0)) -> Fraction | float:
    """The formula of §1.2 word by word."""
    if isinstance(re, Fraction) and isinstance(im, Fraction):
        return elementwise.exact_root(re * re + im * im)
    return abs(float(re)) + abs(float(im))


def _copied(spoil: Callable[[Array], Array]) -> Formula:
    """Of what numpy has types for."""

    def computed(call: OpCall) -> Array | None:
        x = np.ascontiguousarray(call.array("x"))
        return np.abs(spoil(x)) if x.dtype.kind == "f" else None

    return computed


def _float_parts(x: Array) -> Array:
    return np.stack([x.real, x.imag], -1).astype("<f4")


WRONG: Final[tuple[Wrong, ...]] = (
    ("copied", "elements are copied as they are", formula("fi", lambda x: x)),
    ("negated", "every sign is turned", formula("fi", lambda x: -x)),
    ("negative", "results are −|x|", formula("fic", lambda x: -np.abs(x))),
    ("clipped", "negative elements become 0", formula("fi", lambda x: np.maximum(x, 0))),
    ("squared", "results are |x|²", formula("fic", lambda x: (x * x.conj()).real)),
    ("sign_bit_cleared", "the sign bit of integers is cleared", formula("i", lambda x: x & 0x7FFFFFFF)),
    ("complemented", "negative integers are complemented", formula("i", lambda x: np.where(x < 0, ~x, x))),
    ("through_float", "integers pass through float",
     formula("i", lambda x: np.abs(x).astype("<f4").clip(0, 2**31 - 128))),
    ("parts_added", "results are |re| + |im|", formula("c", lambda x: np.abs(x.real) + np.abs(x.imag))),
    ("larger_part", "results are the larger of |re| and |im|", formula("c", lambda x: abs(_float_parts(x)).max(-1))),
    ("real_alone", "results are |re|", formula("c", lambda x: np.abs(x.real))),
    ("infinity_kept", "a real part −Inf keeps its sign",
     formula("c", lambda x: np.where(x.real == -np.inf, x.real, np.abs(x)))),
    ("half_parts", "parts of complex numbers are rounded to half",
     formula("c", lambda x: np.hypot(through_half(x.real), through_half(x.imag)))),
    ("planes", "all real parts come before all imaginary ones",
     formula("c", lambda x: np.hypot(*_float_parts(x).reshape(2, *x.shape)))),
    ("squares_overflow", "squares of parts are made in float",
     formula("c", lambda x: np.sqrt(np.square(_float_parts(x)).sum(-1)))),
    # What flushes subnormal numbers is told by the numbers themselves.
    *((name, words, _copied(spoil)) for name, words, spoil in WRONG_COPIES if spoil is not flushed),
)  # fmt: skip


def kernel(call: OpCall) -> Status:
    """Check the call, then choose between x and −x; scale complex numbers by their larger part."""
    refused = elementwise.unary_refusal(call, RESULTS)
    if refused is not None:
        return refused
    x, y = call.array("x"), call.array("y")
    with np.errstate(all="ignore"):
        if x.dtype.kind == "c":
            parts = np.abs([x.real, x.imag])
            small, large = np.fmin(*parts), np.fmax(*parts)
            ratio = np.where((large > 0) & np.isfinite(large), small / large, np.float32(0))
            scaled = large * np.sqrt(np.float32(1) + ratio * ratio)
            y[...] = np.where(np.isnan(parts).any(axis=0), np.float32(np.nan), scaled)
        elif x.dtype == np.uint16:  # bits of bfloat16, whose sign counts 2^15
            y[...] = x % np.uint16(1 << 15)
        else:
            y[...] = np.where(x < 0, -x, x) if x.dtype == np.int32 else np.copysign(x, x.dtype.type(1))
    return Status.SUCCESS


OPERATOR = elementwise.element_operator(
    "abs", 2022, RESULTS, ("x",), "y",
    prefer=None,
    summary="The magnitude of every element.",
    criteria=CRITERIA,
    # §1.4: strides are legal on both sides, so no check looks at them.
    checks=elementwise.unary_checks(RESULTS),
    reference=reference,
    bound=bound,
    precondition=precondition,
    exact=magnitude,
    kernel=kernel,
    in_torch=lambda x: x.abs(),
    wrong=WRONG,
)  # fmt: skip
