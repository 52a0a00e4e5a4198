"""div: z = x / y element by element. It has no document: what is ruled is read from mlu_op.h and the released code."""

from collections.abc import Mapping
from fractions import Fraction
from itertools import zip_longest
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
)
from mluops_gtest.authoring.c_api import HANDLE, c_function, tensor
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction

from .._shared import elementwise
from .._shared.wrong_elementwise import Formula, Wrong, element_suspects, formula, imprecise

FLOATS: Final = (DType.FLOAT, DType.HALF)
# Of y: the header, but for half not up to 65504: the reciprocals of what is above 16000 are subnormal, and a kernel may
# multiply by them.
DOMAIN: Final = {
    DType.FLOAT: elementwise.Domain(1e-20, 1e10, (-66, 32)),
    DType.HALF: elementwise.Domain(1e-4, 16000, (-13, 12)),
}
# No criterion can judge results that are smaller, but for 0.
SMALLEST: Final = {DType.FLOAT: 1e-5, DType.HALF: 1e-3}

# What is checked, in normative order; prefer is not. The header asks for one shape, the host check for shapes that
# broadcast, the kernel runs over x: of shapes that differ nobody knows the results.


def _broadcasts(call: OpCall) -> bool:
    dims = (reversed(call.tensor(name).dims) for name in ("x", "y", "z"))
    return all(len({length for length in lengths if length != 1}) < 2 for lengths in zip_longest(*dims, fillvalue=1))


def _has_axes(call: OpCall) -> bool:
    return all(1 <= len(call.tensor(name).dims) <= elementwise.MOST_AXES for name in ("x", "y", "z"))


CHECKS: Final = (
    checks.handle(elementwise.HEADER),
    checks.descriptors(doc=elementwise.HEADER),
    checks.dtypes("y = x", "z = x", doc=elementwise.HEADER),
    checks.require("axes", _has_axes, "tensors have 1 to 8 axes", elementwise.CODE),
    checks.dtypes("x", doc=elementwise.HEADER),
    checks.require("shapes", _broadcasts, "the shapes of x, y and z must fit together", elementwise.CODE),
    checks.empty("z", doc=elementwise.CODE),
    elementwise.extents_refused("x", "y", "z"),
    # Before a large tensor is refused, otherwise than by abs and sqrt.
    checks.pointers(doc=elementwise.HEADER),
    elementwise.large_refused("z"),
    checks.strided_alike(doc=elementwise.CODE),
)


def is_defined(call: OpCall) -> bool:
    """No shapes that differ get past the checks."""
    is_passed = None not in (*call.inputs.values(), call.outputs["z"]) and _has_axes(call) and _broadcasts(call)
    return not is_passed or precondition(call) is None


def precondition(call: OpCall) -> str | None:
    """What the host check lets pass, and nobody defines."""
    shapes = {call.tensor(name).dims for name in ("x", "y", "z")}
    return "the shapes of x, y and z differ" if len(shapes) > 1 else None


def reference(call: OpCall) -> Baseline:
    """The quotients in float64, rounded once more: of so few bits that this is the exact quotient, rounded once."""
    x, y = (array.astype(np.float64) for array in call.arrays("x", "y"))
    with np.errstate(all="ignore"):
        quotients = x / y
        # Which NaN an operation gives differs between processors.
        return Baseline({"z": np.where(np.isnan(quotients), np.nan, quotients).astype(call.tensor("z").dtype.storage)})


def bound(call: OpCall) -> Mapping[str, Bound]:
    """What the preference asks."""
    return {"z": elementwise.preferred_bound(call, reference(call).outputs["z"].astype(np.float64), "z")}


def find_outside(call: OpCall, baseline: Baseline) -> str | None:
    """That a divisor is outside of the domain, or a result neither 0 nor normal; the cases expect IEEE's answers."""
    x, y = call.arrays("x", "y")
    if not DOMAIN[call.tensor("y").dtype].holds(y).all():
        return "y has a number outside of the header's domain"
    z = np.abs(baseline.outputs["z"])
    is_normal = np.isfinite(x) & np.isfinite(z) & ((x == 0) | (z >= np.finfo(z.dtype).smallest_normal))
    return None if is_normal.all() else "z has a number that is neither 0 nor normal and finite"


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """x / y."""
    x, y = call.arrays("x", "y")

    def element(*index: int) -> Fraction | float:
        over, under = fraction(x[index]), fraction(y[index])
        if isinstance(over, Fraction) and isinstance(under, Fraction) and under != 0:
            return over / under
        with np.errstate(all="ignore"):
            return float(np.float64(x[index]) / np.float64(y[index]))

    return {"z": element}


# Mistakes in what is computed.


def _imprecise(bits: int, *preferences: int) -> Formula:
    """Quotients with that many bits of mantissa where one of these is preferred; of floats."""
    return imprecise(lambda call: reference(call).outputs["z"], "z", bits, preferences)


def _by_logarithms(x: Array, y: Array) -> Array:
    logarithms = (np.log(np.abs(one).astype("<f4")) for one in (x, y))
    return np.sign(x) * np.sign(y) * np.exp(next(logarithms) - next(logarithms))


WRONG: Final[tuple[Wrong, ...]] = (
    ("exchanged", "results are y / x", formula("f", lambda x, y: y / x)),
    ("multiplied", "results are x · y", formula("f", lambda x, y: x * y)),
    ("subtracted", "results are x − y", formula("f", lambda x, y: x - y)),
    ("remainder", "results are the remainders", formula("f", np.fmod)),
    ("whole", "fractions of quotients are cut off", formula("f", lambda x, y: np.trunc(x / y))),
    ("floored", "quotients are rounded down", formula("f", lambda x, y: np.floor(x / y))),
    ("by_magnitude", "x is divided by |y|", formula("f", lambda x, y: x / np.abs(y))),
    ("of_magnitude", "|x| is divided by y", formula("f", lambda x, y: np.abs(x) / y)),
    ("by_square", "x is divided by y²", formula("f", lambda x, y: x / (y * y))),
    # Released kernels are compiled without a body for MLU370, and the one released file has the numerator 1.
    ("copied", "results are x", formula("f", lambda x, _: x)),
    ("reciprocals", "results are 1 / y", formula("f", lambda _, y: 1 / y)),
    ("divisors_of_first_row", "all rows are divided by the first row of y", formula("f", lambda x, y: x / y[:1])),
    ("first_divisor", "everything is divided by the first element of y", formula("f", lambda x, y: x / y.flat[0])),
    ("first_numerator", "the first element of x is divided", formula("f", lambda x, y: x.flat[0] / y)),
    ("next_divisor", "x is divided by the next element of y", formula("f", lambda x, y: x / np.roll(y, -1))),
    ("guarded", "1e-6 is added to y", formula("f", lambda x, y: x / (y + 1e-6))),
    ("guarded_by_less", "1e-12 is added to y", formula("f", lambda x, y: x / (y + 1e-12))),
    ("clamped", "divisors below 1e-3 become 1e-3", formula("f", lambda x, y: x / np.copysign(np.abs(y).clip(1e-3), y))),
    ("zero_is_nan", "0 / y is NaN", formula("f", lambda x, y: x / y * (x / x))),
    ("at_most_1", "quotients stop at 1", formula("f", lambda x, y: np.clip(x / y, -1, 1))),
    ("in_half", "floats are computed with 11 bits", _imprecise(11, 1)),
    ("in_bfloat16", "floats are computed with 8 bits", _imprecise(8, 1, 2)),
    ("estimate_alone", "the reciprocal of 12 bits is not improved", _imprecise(12, 1)),
    ("fast_in_4_bits", "FAST is computed with 4 bits", _imprecise(4, 0)),
    ("by_logarithms", "results are exp(log |x| − log |y|) in float", formula("f", _by_logarithms)),
)


# The kernel that the numpy backend runs: products with reciprocals.


def kernel(call: OpCall) -> Status:
    """Check the call, then multiply by reciprocals in float."""
    refused = _refusal(call)
    if refused is not None:
        return refused
    x, y = call.array("x").astype(np.float32), call.array("y").astype(np.float32)
    with np.errstate(all="ignore"):
        # An infinity over a finite number, and 0 over an infinity, come right so, too.
        call.array("z")[...] = x * (np.float32(1) / y)
    return Status.SUCCESS


def _refusal(call: OpCall) -> Status | None:
    x, y, z = call.inputs["x"], call.inputs["y"], call.outputs["z"]
    if call.handle is None or x is None or y is None or z is None:
        return Status.BAD_PARAM
    args = [x, y, z]
    if x.dtype not in FLOATS or any(arg.dtype is not x.dtype or len(arg.dims) not in range(1, 9) for arg in args):
        return Status.BAD_PARAM
    for axis in range(1, 9):
        lengths = [arg.dims[-axis] for arg in args if len(arg.dims) >= axis and arg.dims[-axis] != 1]
        if lengths and min(lengths) != max(lengths):
            return Status.BAD_PARAM
    if 0 in z.dims:
        return Status.SUCCESS
    is_old = call.handle.arch < 590
    if is_old and any(arg.desc.is_strided and arg.desc.extent >= 1 << 31 for arg in args):
        return Status.NOT_SUPPORTED
    if any(arg.null for arg in args):
        return Status.BAD_PARAM
    is_refused = (is_old and z.desc.count >= 1 << 31) or not elementwise.is_dense_alike(args)
    return Status.NOT_SUPPORTED if is_refused else None


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:  # noqa: ARG001 - all operators are called alike
    """torch.div."""
    outputs["z"].copy_(inputs["x"] / inputs["y"])


OPERATOR = Operator(
    name="div",
    released_name="div",
    op_type=("DIV", 2020),
    summary="The quotients of elements at the same place.",
    inputs=tuple(TensorSpec(name, elementwise.SHAPE, FLOATS, None) for name in ("x", "y")),
    outputs=(OutputSpec("z", elementwise.SHAPE, elementwise.by_preference(*FLOATS), None),),
    params=elementwise.preference("div_param", 4001, "DivParam"),
    checks=CHECKS,
    sizes=elementwise.element_sizes("x"),
    reference=reference,
    bound=bound,
    precondition=precondition,
    left_open={"undefined": find_outside},
    exact=elements,
    kernel=kernel,
    torch_kernel=torch_kernel,
    theory=elementwise.theory,
    suspects=element_suspects("z", WRONG),
    reductions=elementwise.axis_reductions("x", "y", output="z"),
    c_api=c_function("mluOpDiv", arguments=(HANDLE, elementwise.PREFER, *tensor("x", "y", "z"))),
)
