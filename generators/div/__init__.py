"""div: z = x / y element by element. It has no document: what is ruled is read from mlu_op.h and the released code."""

from fractions import Fraction
from itertools import zip_longest
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Baseline, DType, OpCall, Status, checks

from .._shared import elementwise
from .._shared.wrong_elementwise import Wrong, formula, imprecise, numbers

FLOATS: Final = (DType.FLOAT, DType.HALF)
# Of y: the header, but for half not up to 65504: the reciprocals of what is above 16000 are subnormal, and a kernel may
# multiply by them.
DOMAIN: Final = {
    DType.FLOAT: elementwise.Domain(1e-20, 1e10, (-66, 32)),
    DType.HALF: elementwise.Domain(1e-4, 16000, (-13, 12)),
}

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
    checks.only_if(elementwise.is_older, checks.large("z", doc=elementwise.CODE)),
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
    with np.errstate(all="ignore"):
        return elementwise.rounded(call, "z", numbers(call, "x") / numbers(call, "y"))


def find_outside(call: OpCall, baseline: Baseline) -> str | None:
    """That a divisor is outside of the domain, or a result neither 0 nor normal; the cases expect IEEE's answers."""
    x, y = call.arrays("x", "y")
    if not DOMAIN[call.tensor("y").dtype].holds(y).all():
        return "y has a number outside of the header's domain"
    z = np.abs(baseline.outputs["z"])
    is_normal = np.isfinite(x) & np.isfinite(z) & ((x == 0) | (z >= np.finfo(z.dtype).smallest_normal))
    return None if is_normal.all() else "z has a number that is neither 0 nor normal and finite"


def quotient(x: Fraction | float, y: Fraction | float) -> Fraction | float:
    """x / y, of numbers; what else there is by IEEE."""
    if isinstance(x, Fraction) and isinstance(y, Fraction) and y != 0:
        return x / y
    with np.errstate(all="ignore"):
        return float(np.float64(float(x)) / float(y))


def _by_logarithms(x: Array, y: Array) -> Array:
    logarithms = (np.log(np.abs(one).astype("<f4")) for one in (x, y))
    quotients: Array = np.sign(x) * np.sign(y) * np.exp(next(logarithms) - next(logarithms))
    return quotients


WRONG: Final[tuple[Wrong, ...]] = (
    ("exchanged", "results are y / x", formula("f", lambda x, y: y / x)),
    ("multiplied", "results are x · y", formula("f", lambda x, y: x * y)),
    ("whole", "fractions of quotients are cut off", formula("f", lambda x, y: np.trunc(x / y))),
    ("by_magnitude", "x is divided by |y|", formula("f", lambda x, y: x / np.abs(y))),
    ("of_magnitude", "|x| is divided by y", formula("f", lambda x, y: np.abs(x) / y)),
    # Released kernels are compiled without a body for MLU370, and the one released file has the numerator 1.
    ("copied", "results are x", formula("f", lambda x, _: x)),
    ("reciprocals", "results are 1 / y", formula("f", lambda _, y: 1 / y)),
    ("divisors_of_first_row", "all rows are divided by the first row of y", formula("f", lambda x, y: x / y[:1])),
    ("first_divisor", "everything is divided by the first element of y", formula("f", lambda x, y: x / y.flat[0])),
    ("next_divisor", "x is divided by the next element of y", formula("f", lambda x, y: x / np.roll(y, -1))),
    ("guarded", "1e-6 is added to y", formula("f", lambda x, y: x / (y + 1e-6))),
    ("zero_is_nan", "0 / y is NaN", formula("f", lambda x, y: x / y * (x / x))),
    ("at_most_1", "quotients stop at 1", formula("f", lambda x, y: np.clip(x / y, -1, 1))),
    *imprecise(reference, "z"),
    ("by_logarithms", "results are exp(log |x| − log |y|) in float", formula("f", _by_logarithms)),
)


def kernel(call: OpCall) -> Status:
    """Check the call, then multiply by reciprocals in float."""
    refused = _refusal(call)
    if refused is not None:
        return refused
    x, y = (values.astype(np.float32) for values in call.arrays("x", "y"))
    with np.errstate(all="ignore"):
        # An infinity over a finite number, and 0 over an infinity, come right so, too.
        call.array("z")[...] = x * (np.float32(1) / y)
    return Status.SUCCESS


def _refusal(call: OpCall) -> Status | None:
    args = [arg for arg in (*call.inputs.values(), call.outputs["z"]) if arg is not None]
    if call.handle is None or len(args) < 3:
        return Status.BAD_PARAM
    first, result = args[0], args[-1]
    if first.dtype not in FLOATS or any(
        arg.dtype is not first.dtype or len(arg.dims) not in range(1, 9) for arg in args
    ):
        return Status.BAD_PARAM
    try:
        np.broadcast_shapes(*(arg.dims for arg in args))
    except ValueError:
        return Status.BAD_PARAM
    if 0 in result.dims:
        return Status.SUCCESS
    is_old = call.handle.arch < 590
    refused = elementwise.late_refusal(args, is_old=is_old)
    if refused is None and ((is_old and result.desc.count >= 1 << 31) or not elementwise.is_dense_alike(args)):
        return Status.NOT_SUPPORTED
    return refused


OPERATOR = elementwise.element_operator(
    "div", 2020, {dtype: dtype for dtype in FLOATS}, ("x", "y"), "z",
    prefer=elementwise.preference("div", 4001),
    summary="The quotients of elements at the same place.",
    checks=CHECKS,
    reference=reference,
    precondition=precondition,
    left_open={"undefined": find_outside},
    exact=quotient,
    kernel=kernel,
    in_torch=lambda x, y: x / y,
    wrong=WRONG,
    accepted_faults={"z: one ulp": "right implementations err by up to four"},
)  # fmt: skip
