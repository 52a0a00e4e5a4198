"""div: z = x / y element by element. It has no document: what is ruled is read from mlu_op.h and the released code."""

from fractions import Fraction
from functools import partial
from itertools import zip_longest
from typing import Final

import numpy as np

import mluops_gtest.authoring as mg
from mluops_gtest.authoring import Array, DType, OpCall, Status, TensorArg, checks

from .._shared import elementwise
from .._shared.elementwise import Number, Shape, Wrong, formula, imprecise
from .._shared.refusals import Refusals

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
    is_complete = None not in (*call.inputs.values(), call.outputs["z"])
    return not (is_complete and _has_axes(call) and _broadcasts(call)) or precondition(call) is None


def precondition(call: OpCall) -> str | None:
    """What the host check lets pass, and nobody defines."""
    shapes = {call.tensor(name).dims for name in ("x", "y", "z")}
    return "the shapes of x, y and z differ" if len(shapes) > 1 else None


# In float64, rounded once more: of so few bits that this is the exact quotient, rounded once.
REFERENCE: Final = partial(elementwise.rounded, "z", np.divide)


def find_outside(call: OpCall, baseline: mg.Baseline) -> str | None:
    """That a divisor is outside of the domain, or a result neither 0 nor normal; the cases expect IEEE's answers."""
    x, y = call.arrays("x", "y")
    if not DOMAIN[call.tensor("y").dtype].holds(y).all():
        return "y has a number outside of the header's domain"
    z = np.abs(baseline.outputs["z"])
    is_normal = np.isfinite(x) & np.isfinite(z) & ((x == 0) | (z >= np.finfo(z.dtype).smallest_normal))
    return None if is_normal.all() else "z has a number that is neither 0 nor normal and finite"


def quotient(x: Number, y: Number) -> Number:
    """x / y, of numbers; what else there is by IEEE."""
    if isinstance(x, Fraction) and isinstance(y, Fraction) and y != 0:
        return x / y
    with np.errstate(all="ignore"):
        return float(np.float64(float(x)) / float(y))


def _by_logarithms(x: Array, y: Array) -> Array:
    logarithms = (np.log(np.abs(one).astype("<f4")) for one in (x, y))
    quotients: Array = np.sign(x) * np.sign(y) * np.exp(next(logarithms) - next(logarithms))
    return quotients


WRONG: Final[Wrong] = {
    "results are y / x": formula("f", lambda x, y: y / x),
    "results are x · y": formula("f", lambda x, y: x * y),
    "fractions of quotients are cut off": formula("f", lambda x, y: np.trunc(x / y)),
    "x is divided by |y|": formula("f", lambda x, y: x / np.abs(y)),
    # Released kernels are compiled without a body for MLU370, and the one released file has the numerator 1.
    "results are x": formula("f", lambda x, _: x),
    "results are 1 / y": formula("f", lambda _, y: 1 / y),
    "all rows are divided by the first row of y": formula("f", lambda x, y: x / y[:1]),
    "x is divided by the next element of y": formula("f", lambda x, y: x / np.roll(y, -1)),
    "1e-6 is added to y": formula("f", lambda x, y: x / (y + 1e-6)),
    "0 / y is NaN": formula("f", lambda x, y: x / y * (x / x)),
    "quotients stop at 1": formula("f", lambda x, y: np.clip(x / y, -1, 1)),
    **imprecise(np.divide),
    "results are exp(log |x| − log |y|) in float": formula("f", _by_logarithms),
}


def _refuse(_: OpCall, args: list[TensorArg], is_old: bool) -> Refusals:
    first, result = args[0], args[-1]
    yield first.dtype not in FLOATS or any(arg.dtype is not first.dtype for arg in args), Status.BAD_PARAM
    yield any(len(arg.dims) not in range(1, 9) for arg in args), Status.BAD_PARAM
    try:
        np.broadcast_shapes(*(arg.dims for arg in args))
    except ValueError:
        yield True, Status.BAD_PARAM
    yield 0 in result.dims, Status.SUCCESS
    yield from elementwise.refuse_late(args, is_old=is_old)
    yield is_old and result.desc.count >= 1 << 31, Status.NOT_SUPPORTED
    yield elementwise.unlike_strides(args)


def _compute(call: OpCall) -> Array:
    """Products with reciprocals in float."""
    x, y = (values.astype(np.float32) for values in call.arrays("x", "y"))
    # An infinity over a finite number, and 0 over an infinity, come right so, too.
    return x * (np.float32(1) / y)


# Recipes: quotients that criteria can judge are drawn with their divisors; numerators are the products, rounded.

_INSIDE: Final = ("full", "wide", "edges", "ends", "relations", "ones", "zeros", "equal")
# Of quotients: from the smallest on that criteria can judge, but for 0.
_SMALLEST: Final = {DType.FLOAT: 1e-5, DType.HALF: 1e-3}
_QUOTIENTS: Final = {DType.FLOAT: (-16, 15), DType.HALF: (-9, 5)}
_RELATIONS: Final = (1, -1, 0.5, 64, -1 / 64, 1.5)
_NONFINITE: Final = ((1, 0), (-1, 0), (0, 0), (np.inf, 2), (2, -np.inf), (np.nan, 1))


def divided(draw: mg.Draw, dtype: DType, dims: Shape, values: str) -> dict[str, Array]:
    """Numbers of that kind; patterns divide by every half of the domain, other_patterns by every other one."""
    if values.endswith("patterns"):
        every = elementwise.plain_patterns(dtype)
        y = every[DOMAIN[dtype].holds(every) == (values == "patterns")]
        x = _products(draw, dtype, y, (-8, 4))
    else:
        x, y = _drawn(draw, dtype, dims, values)
    if values in (*_INSIDE, "patterns"):
        _refuse_unfit(x.astype(np.float64), y.astype(np.float64), dtype)
    return {"x": x, "y": y}


def _drawn(draw: mg.Draw, dtype: DType, dims: Shape, values: str) -> tuple[Array, Array]:
    domain, exponents, limits = DOMAIN[dtype], (-8, 4 if dtype is DType.HALF else 8), np.finfo(dtype.storage)
    if values == "relations":
        y = draw.stream("y").mantissas(dims, (-2, 2), dtype.storage.str)
        return np.resize(np.array(_RELATIONS, dtype.storage), dims) * y, y
    y = draw.stream("y").mantissas(dims, domain.exponents if values == "wide" else exponents, dtype.storage.str)
    if values in ("edges", "ends"):
        # A sign of its own for each, and other neighbours in each row.
        ends = elementwise.mantissa_ends(dtype) if values == "edges" else domain.ends(dtype)
        y = np.copysign(np.resize(ends, dims), y)
    x = _products(draw, dtype, y, _QUOTIENTS[dtype] if values == "wide" else exponents)
    match values:
        case "edges":
            x = np.resize(elementwise.mantissa_ends(dtype)[::-1][:-1], dims)
        case "ones":
            x = np.ones(dims, dtype.storage)
        case "zeros":
            x.reshape(-1)[::2], x.reshape(-1)[4::6] = 0, -0.0
        case "equal":
            x, y = (np.full(dims, one.reshape(-1)[0]) for one in (x, y))
        case "nonfinite":
            for first, (over, under) in enumerate(_NONFINITE):
                x.reshape(-1)[first::7], y.reshape(-1)[first::7] = over, under
        case "tiny":
            x, y = np.full(dims, limits.smallest_normal), np.copysign(np.abs(y) + dtype.storage.type(1), y)
        case "overflow":
            x = np.full(dims, limits.max)
            y.reshape(-1)[::2] = 0.25
    return x, y


def _products(draw: mg.Draw, dtype: DType, y: Array, exponents: tuple[int, int]) -> Array:
    """The numerators for drawn quotients; a quotient whose product is not normal becomes one around 1."""
    z = draw.stream("z").mantissas(y.shape, exponents, dtype.storage.str).astype(np.float64)
    limits = np.finfo(dtype.storage)
    with np.errstate(all="ignore"):
        product = np.abs(z * y)
        is_normal = (product > 2 * float(limits.smallest_normal)) & (product < float(limits.max) / 2)
        z = np.where(is_normal, z, 2 * np.frexp(z)[0])
        return np.where(np.isfinite(y), z * y, z).astype(dtype.storage)


def _refuse_unfit(x: Array, y: Array, dtype: DType) -> None:
    is_judged = (np.abs(x / y) >= _SMALLEST[dtype]) & (np.abs(x) >= np.finfo(dtype.storage).smallest_normal)
    if not ((is_judged & np.isfinite(x) | (x == 0)) & DOMAIN[dtype].holds(y)).all():
        raise ValueError("a quotient is too small to be compared, or a number lies outside of the domain")


OPERATOR = elementwise.element_operator(
    "div", 2020, {dtype: dtype for dtype in FLOATS}, ("x", "y"), "z",
    prefer=4001,
    summary="The quotients of elements at the same place.",
    checks=CHECKS,
    reference=REFERENCE,
    precondition=precondition,
    left_open={"undefined": find_outside},
    exact=quotient,
    refuse=_refuse,
    compute=_compute,
    in_torch=lambda x, y: x / y,
    wrong=WRONG,
    recipe=divided,
    kinds=dict.fromkeys(FLOATS, _INSIDE),
    other_kinds=("patterns", "nonfinite", "tiny", "overflow", "other_patterns"),
    is_defined=is_defined,
    accepted_faults={"z: one ulp": "right implementations err by up to four"},
)  # fmt: skip
