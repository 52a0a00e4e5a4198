"""Operators that compute element by element, of tensors of one shape with 1 to 8 axes: what abs, sqrt and div share.

Sqrt and div have no document but mlu_op.h and the released host files.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import (
    Array,
    Bound,
    Check,
    CriteriaByParam,
    Criterion,
    CriterionKind,
    Draw,
    DType,
    EnumSpec,
    OpCall,
    ParamField,
    ParamMessage,
    SizedAxis,
    Status,
    TensorArg,
    Theory,
    checks,
    diff1_and_diff2,
    narrowed,
    widened,
)
from mluops_gtest.authoring.c_api import CEnum, scalar
from mluops_gtest.authoring.reductions import Reduction, changed
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

SHAPE: Final = "[*S]"
HEADER: Final = "released: the header"
CODE: Final = "released: the host check"
MOST_AXES: Final = 8
# From this device on there are bfloat16 and tensors of 2^31 elements.
NEWER: Final = 590
_LARGE: Final = 1 << 31

# How far results may be off. No document says it: 5e-7 is 4 ulp of a float, the others 1 ulp of what is rounded to 16
# bits. The released kernels ignore the preference, so FAST and HIGH differ in what is demanded alone.
HIGH: Final = {DType.FLOAT: 5e-7, DType.HALF: 1e-3, DType.BFLOAT16: 8e-3}
FAST: Final = 3e-3
_PREFERENCES: Final = {"COMPUTATION_FAST": 0, "COMPUTATION_HIGH_PRECISION": 1, "COMPUTATION_ULTRAHIGH_PRECISION": 2}

PREFER: Final = scalar(
    "prefer",
    type=CEnum("mluOpComputationPreference_t", {f"MLUOP_{name}": number for name, number in _PREFERENCES.items()}),
)[0]


def diff3(threshold: float) -> tuple[Criterion, ...]:
    """diff3 at most `threshold`."""
    return (Criterion(CriterionKind.DIFF3, threshold),)


def by_preference(*dtypes: DType) -> Mapping[DType, tuple[Criterion, ...] | CriteriaByParam]:
    """The criteria of results of these types; FAST asks bfloat16 for what HIGH does."""
    fast = {dtype: diff1_and_diff2(FAST) for dtype in dtypes}
    return {
        dtype: diff3(HIGH[dtype])
        if dtype is DType.BFLOAT16
        else CriteriaByParam("prefer", {1: diff3(HIGH[dtype]), 0: fast[dtype]})
        for dtype in dtypes
    }


def preference(field: str, number: int, message: str, allowed: tuple[int, ...] = ()) -> ParamMessage:
    """The one parameter, HIGH_PRECISION unless a file says otherwise."""
    enum = EnumSpec("ComputationPreference", _PREFERENCES)
    prefer = ParamField("prefer", 1, "enum", default=1, enum=enum, allowed=allowed)
    return ParamMessage(field, number, message, (prefer,))


def rounded_bound(result: Array, threshold: float) -> Bound:
    """What a result that is off by `threshold` of itself, before it is rounded to its type, may differ by."""
    return Bound(np.abs(result), afterwards=math.ceil(threshold * 2**24))


def preferred_bound(call: OpCall, result: Array, output: str) -> Bound:
    """The same as the preference asks; 16-bit results are right float results, rounded."""
    is_fast = call.param("prefer") == 0 and call.tensor(output).dtype is not DType.BFLOAT16
    return rounded_bound(result, FAST if is_fast else HIGH[DType.FLOAT])


# Checks.


def is_older(call: OpCall) -> bool:
    """The device has no bfloat16 and no large tensors; no handle says that it had."""
    return call.handle is None or call.handle.arch < NEWER


def bfloat16_refused(tensor: str) -> Check:
    """`bfloat16`: older devices do not have it."""
    message = f"bfloat16 needs MLU{NEWER} or newer"
    return checks.only_if(
        is_older,
        checks.require("bfloat16", lambda call: call.tensor(tensor).dtype is not DType.BFLOAT16, message, CODE),
    )


def large_refused(tensor: str) -> Check:
    """`<tensor>_large` on older devices."""
    return checks.only_if(is_older, checks.large(tensor, doc=CODE))


def extents_refused(*tensors: str) -> Check:
    """`<tensor>_extent` on older devices: strides that reach 2^31 elements."""

    def reaches(tensor: str) -> Check:
        def holds(call: OpCall) -> bool:
            desc = call.tensor(tensor).desc
            return not desc.is_strided or desc.extent < _LARGE

        message = f"the strides of {tensor} must reach fewer than 2^31 elements"
        return checks.require(f"{tensor}_extent", holds, message, CODE, Status.NOT_SUPPORTED)

    return checks.only_if(is_older, *map(reaches, tensors))


def unary_checks(results: Mapping[DType, DType]) -> tuple[Check, ...]:
    """Those of x → y in their order, up to the pointers; `results` says which type y has by that of x."""

    def dims(call: OpCall, name: str) -> tuple[int, ...]:
        return call.tensor(name).dims

    def has_result(call: OpCall) -> bool:
        own = call.tensor("x").dtype
        return call.tensor("y").dtype is results.get(own, own)

    return (
        checks.handle(HEADER),
        checks.descriptors(doc=HEADER),
        checks.require("y_dtype", has_result, "y must have the type of the results for x", HEADER),
        checks.dtypes("x", doc=HEADER),
        bfloat16_refused("x"),
        # As many axes, at least one, as long: the same status.
        checks.require(
            "dims", lambda call: dims(call, "y") == dims(call, "x") != (), "x and y have axes, alike", HEADER
        ),
        checks.empty("x", doc=CODE),
        large_refused("x"),
        # Ruling: 9 axes are refused whatever the strides.
        checks.require("many_axes", lambda call: len(dims(call, "x")) <= MOST_AXES, "x has at most 8 axes", CODE),
        extents_refused("x", "y"),
        checks.pointers(doc=HEADER),
    )


def theory(call: OpCall) -> Theory:
    """All tensors once, and one operation for every element."""
    tensors = [arg for arg in (*call.inputs.values(), *call.outputs.values()) if arg is not None]
    return Theory(sum(arg.desc.count * arg.dtype.itemsize for arg in tensors), tensors[0].desc.count)


# What kernels of these operators do before they compute.


def is_dense_alike(args: list[TensorArg]) -> bool:
    """No tensor is strided, or all are in one way that leaves no gaps; a single element is strided in no way."""
    args = [arg for arg in args if math.prod(arg.dims) != 1]
    first = next((arg for arg in args if arg.desc.is_strided), None)
    if first is None:
        return True

    def axes(arg: TensorArg) -> list[tuple[int, int, int]]:
        strides = arg.strides or tuple(math.prod(arg.dims[axis + 1 :]) for axis in range(len(arg.dims)))
        return [(s, d, axis) for axis, (s, d) in enumerate(zip(strides, arg.dims, strict=True)) if d > 1]

    follows = 1
    for stride, length, _ in sorted(axes(first)):
        if stride != follows:
            return False
        follows *= length
    return all(axes(arg) == axes(first) for arg in args)


def unary_refusal(call: OpCall, results: Mapping[DType, DType]) -> Status | None:
    """What a kernel answers before it looks at elements; None where it goes on."""
    x, y = call.inputs["x"], call.outputs["y"]
    if call.handle is None or x is None or y is None:
        return Status.BAD_PARAM
    is_old = call.handle.arch < 590
    if results.get(x.dtype) is not y.dtype or (is_old and x.dtype is DType.BFLOAT16):
        return Status.BAD_PARAM
    if x.dims != y.dims or len(x.dims) == 0:
        return Status.BAD_PARAM
    if 0 in x.dims:
        return Status.SUCCESS
    if is_old and math.prod(x.dims) >= 1 << 31:
        return Status.NOT_SUPPORTED
    if len(x.dims) > 8:
        return Status.BAD_PARAM
    if is_old and max(x.desc.extent, y.desc.extent) >= 1 << 31:
        return Status.NOT_SUPPORTED
    return Status.BAD_PARAM if x.null or y.null else None


def exact_root(square: Fraction) -> Fraction:
    """A number that rounds to any type as the square root does."""
    scaled = square * 4**400
    root = math.isqrt(math.floor(scaled))
    return Fraction(root if root * root == scaled else 2 * root + 1, (1 if root * root == scaled else 2) * 2**400)


# Data, fuzzing, minimising.


@dataclass(frozen=True, slots=True)
class Domain:
    """The values of a type for which results are defined, and exponents of full-mantissa values inside."""

    least: float
    most: float
    exponents: tuple[int, int]

    def holds(self, values: Array) -> Array:
        """bool: the magnitude is inside."""
        wide = np.abs(values.astype(np.float64))
        return (wide >= self.least) & (wide <= self.most)

    def ends(self, dtype: DType) -> Array:
        """The least and the largest number inside, and their neighbours inside."""
        ends = narrowed(np.array([self.least, self.most]), dtype).view(dtype.bits).astype(np.int64)
        beside = (ends[:, None] + np.arange(-1, 3)).astype(dtype.bits).view(dtype.storage).reshape(-1)
        return beside[self.holds(widened(beside, dtype))]


def without_sign(values: Array, dtype: DType) -> Array:
    """The magnitudes, bit by bit."""
    bits = values.view(dtype.bits)
    return (bits & bits.dtype.type((1 << 8 * dtype.itemsize - 1) - 1)).view(dtype.storage)


def with_sign(values: Array, dtype: DType) -> Array:
    """Their negatives, of what has no sign."""
    return (values.view(dtype.bits) | dtype.bits.type(1 << 8 * dtype.itemsize - 1)).view(dtype.storage)


def spread(draw: Draw, name: str, dtype: DType, dims: tuple[int, ...], exponents: tuple[int, int]) -> Array:
    """Values of both signs with every mantissa bit in use."""
    return draw.stream(name).mantissas(dims, exponents, dtype.storage.str)


def mantissa_ends(dtype: DType) -> Array:
    """±1, ±(1 + ulp), ±(2 − ulp) and 3 in three neighbouring binades: even and odd exponents."""
    one = int(narrowed(np.array([1.0]), dtype).view(dtype.bits)[0])
    binade = int(narrowed(np.array([2.0]), dtype).view(dtype.bits)[0]) - one
    bits = np.array([one, one + 1, one + binade - 1, one + 3 * binade // 2])
    signed = np.concatenate([bits + shift * binade for shift in (-1, 0, 1)])
    return np.concatenate([signed, signed + (1 << 8 * dtype.itemsize - 1)]).astype(dtype.bits).view(dtype.storage)


def is_nan(values: Array, dtype: DType) -> Array:
    """bool: the element is no number."""
    return np.isnan(widened(values, dtype))


def all_patterns(dtype: DType) -> Array:
    """Every number of 16 bits, in the order of its bits."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype.storage)


def plain_patterns(dtype: DType) -> Array:
    """The same but for those NaN that mark unwritten memory once an operation has made them quiet."""
    every = all_patterns(dtype)
    return every[~(is_nan(every, dtype) & (every.view(dtype.bits) & 0xFF == dtype.poison[0]))]


def element_sizes(first: str) -> Mapping[str, SizedAxis]:
    """Cases are declared for their number of elements; where one is lost, that input is 0."""

    def lost(call: OpCall, index: int) -> Mapping[str, Array]:
        values = call.array(first).copy()
        values.reshape(-1)[index] = 0
        return {first: values}

    return {"elements": SizedAxis(first, count=lambda call: call.tensor(first).desc.count, without=lost)}


def axis_reductions(*inputs: str, output: str) -> Mapping[str, Reduction]:
    """Every axis may become shorter, in all tensors alike."""

    def along(axis: int) -> Reduction:
        def without(call: OpCall, start: int, stop: int) -> Any:
            left = {name: np.delete(call.array(name), slice(start, stop), axis) for name in inputs}
            return changed(call, left, outputs={output: left[inputs[0]].shape})

        return Reduction(lambda call: (*call.tensor(output).dims, *[1] * MOST_AXES)[axis], without)

    return {f"axis_{axis}": along(axis) for axis in range(MOST_AXES)}


_RANKS: Final = {
    1: lambda n, m: (n * m,),
    2: lambda n, m: (n, m),
    3: lambda n, m: (n, 2, m),
    5: lambda n, m: (2, n, 1, m, 3),
    8: lambda n, m: (1, 2, n, 1, m, 1, 2, 1),
}


def dims_at(at: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape at a point of the space."""
    return _RANKS[at["rank"]](at["rows"], at["columns"])


def shapes_space(
    recipe: str,
    dtypes: tuple[DType, ...],
    values: Mapping[DType, tuple[str, ...]],
    is_defined: Callable[[OpCall], bool] = lambda _: True,
    **more: Any,
) -> Space:
    """Shapes of any rank, every type with its kinds of values, every preference; `more` are parameters to choose."""

    def draw(at: Mapping[str, Any]) -> Drawn | None:
        dtype = DType.named(at["dtype"])
        if at["values"] not in values[dtype]:
            return None
        data = {"dims": dims_at(at), "values": at["values"]}
        return Drawn(recipe, {name: at[name] for name in more}, data, at["dtype"])

    kinds = tuple(dict.fromkeys(kind for own in values.values() for kind in own))
    return Space(
        axes={
            "dtype": Choice(tuple(dtype.value for dtype in dtypes)),
            "rank": Choice(tuple(_RANKS)),
            "rows": Sizes(1, 1025),
            "columns": Sizes(1, 257),
            "values": Choice(kinds),
            **{name: Choice(choices) for name, choices in more.items()},
        },
        draw=draw,
        elements=lambda at: math.prod(dims_at(at)),
        # Nobody says what strides of no elements are.
        defined=lambda call: (
            is_defined(call)
            and not any(
                arg is not None and arg.desc.is_empty and arg.strides is not None
                for arg in (*call.inputs.values(), *call.outputs.values())
            )
        ),
    )
