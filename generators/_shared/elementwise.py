"""Operators that compute element by element, of tensors of one shape with 1 to 8 axes: what abs, sqrt and div share.

Sqrt and div have no document but mlu_op.h and the released host files.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import (
    Array,
    Baseline,
    Bound,
    Check,
    CriteriaByParam,
    Criterion,
    CriterionKind,
    Draw,
    DType,
    EnumSpec,
    OpCall,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    SizedAxis,
    Status,
    TensorArg,
    TensorSpec,
    Theory,
    checks,
    diff1_and_diff2,
    narrowed,
    widened,
)
from mluops_gtest.authoring.c_api import HANDLE, CEnum, c_function, scalar, tensor
from mluops_gtest.authoring.exact_numbers import ExactElements, fraction
from mluops_gtest.authoring.reductions import Reduction, changed
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .wrong_elementwise import Wrong, dense, element_suspects

HEADER: Final = "released: the header"
CODE: Final = "released: the host check"
MOST_AXES: Final = 8
# From this device on there are bfloat16 and tensors of 2^31 elements.
NEWER: Final = 590

Criteria = tuple[Criterion, ...] | CriteriaByParam
# How far results may be off. No document says it: 5e-7 is 4 ulp of a float, the others 1 ulp of what is rounded to 16
# bits. The released kernels ignore the preference, so FAST and HIGH differ in what is demanded alone.
_HIGH: Final = {DType.FLOAT: 5e-7, DType.HALF: 1e-3, DType.BFLOAT16: 8e-3}
_FAST: Final = 3e-3
HIGH: Final = {dtype: (Criterion(CriterionKind.DIFF3, threshold),) for dtype, threshold in _HIGH.items()}
_PREFERENCES: Final = {"COMPUTATION_FAST": 0, "COMPUTATION_HIGH_PRECISION": 1, "COMPUTATION_ULTRAHIGH_PRECISION": 2}
_PREFER: Final = CEnum("mluOpComputationPreference_t", {f"MLUOP_{name}": value for name, value in _PREFERENCES.items()})


def element_operator(
    name: str,
    number: int,
    results: Mapping[DType, DType],
    inputs: tuple[str, ...],
    output: str,
    *,
    prefer: ParamMessage | None,
    reference: Callable[[OpCall], Baseline],
    exact: Callable[..., Fraction | float],
    wrong: Iterable[Wrong],
    in_torch: Callable[..., Any],
    **own: Any,
) -> Operator:
    """An operator on tensors of one shape; `results` says of what type they are, by that of the inputs."""

    def torch_kernel(_: OpCall, given: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        outputs[output].copy_(in_torch(*(given[one] for one in inputs)))

    preferred = () if prefer is None else scalar("prefer", type=_PREFER)
    criteria = own.pop("criteria", None) or _by_preference(dict.fromkeys(results.values()))
    return Operator(
        name=name,
        released_name=name,
        op_type=(name.upper(), number),
        inputs=tuple(TensorSpec(one, "[*S]", tuple(results), None) for one in inputs),
        outputs=(OutputSpec(output, "[*S]", criteria, None),),
        params=prefer,
        sizes=_element_sizes(inputs[0]),
        reference=reference,
        exact=_exact_elements(output, exact),
        torch_kernel=torch_kernel,
        theory=_theory,
        suspects=element_suspects(output, wrong),
        reductions=_axis_reductions(inputs, output),
        c_api=c_function(f"mluOp{name.capitalize()}", arguments=(HANDLE, *preferred, *tensor(*inputs, output))),
        **{"bound": preferred_bound(reference, output), **own},
    )


def _by_preference(dtypes: Iterable[DType]) -> Mapping[DType, Criteria]:
    """FAST asks bfloat16 for what HIGH does."""
    of_param = {dtype: CriteriaByParam("prefer", {1: HIGH[dtype], 0: diff1_and_diff2(_FAST)}) for dtype in dtypes}
    return {dtype: HIGH[dtype] if dtype is DType.BFLOAT16 else criteria for dtype, criteria in of_param.items()}


def preferred_bound(reference: Callable[[OpCall], Baseline], output: str) -> Callable[[OpCall], Mapping[str, Bound]]:
    """What the preference asks, before results are rounded: 16-bit ones are right float results."""

    def bound(call: OpCall) -> Mapping[str, Bound]:
        dtype = call.tensor(output).dtype
        is_fast = (call.params or {}).get("prefer") == 0 and dtype is not DType.BFLOAT16
        magnitudes = np.abs(widened(reference(call).outputs[output], dtype).astype(np.float64))
        return {output: Bound(magnitudes, afterwards=math.ceil((_FAST if is_fast else _HIGH[DType.FLOAT]) * 2**24))}

    return bound


def preference(operator: str, number: int, allowed: tuple[int, ...] = ()) -> ParamMessage:
    """The one parameter, HIGH_PRECISION unless a file says otherwise."""
    enum = EnumSpec("ComputationPreference", _PREFERENCES)
    prefer = ParamField("prefer", 1, "enum", default=1, enum=enum, allowed=allowed)
    return ParamMessage(f"{operator}_param", number, f"{operator.capitalize()}Param", (prefer,))


def rounded(call: OpCall, output: str, results: Array) -> Baseline:
    """Float64 results, rounded; which NaN an operation gives differs between processors."""
    return Baseline({output: narrowed(np.where(np.isnan(results), np.nan, results), call.tensor(output).dtype)})


def _exact_elements(output: str, compute: Callable[..., Fraction | float]) -> ExactElements:
    """Each element from the numbers at its place, of complex ones both parts; NaN and infinities are floats."""

    def elements(call: OpCall) -> Mapping[str, Callable[..., Fraction | float]]:
        values = [widened(call.array(name), call.tensor(name).dtype) for name in call.inputs]

        def element(*index: int) -> Fraction | float:
            found = [one[index] for one in values]
            parts = [found[0].real, found[0].imag] if found[0].dtype.kind == "c" else found
            return compute(*map(fraction, parts))

        return {output: element}

    return elements


def exact_root(square: Fraction) -> Fraction:
    """A number that rounds to any type as the square root does."""
    scaled = square * 4**400
    root = math.isqrt(math.floor(scaled))
    return Fraction(root if root * root == scaled else 2 * root + 1, (1 if root * root == scaled else 2) * 2**400)


def _theory(call: OpCall) -> Theory:
    """All tensors once, and one operation for every element."""
    tensors = [arg for arg in (*call.inputs.values(), *call.outputs.values()) if arg is not None]
    return Theory(sum(arg.desc.count * arg.dtype.itemsize for arg in tensors), tensors[0].desc.count)


# Checks.


def is_older(call: OpCall) -> bool:
    """The device has no bfloat16 and no large tensors; no handle says that it had."""
    return call.handle is None or call.handle.arch < NEWER


def extents_refused(*tensors: str) -> Check:
    """`<tensor>_extent` on older devices: strides that reach 2^31 elements."""

    def holds(name: str, call: OpCall) -> bool:
        return not call.tensor(name).desc.is_strided or call.tensor(name).desc.extent < 1 << 31

    def of(name: str) -> Check:
        message = f"the strides of {name} must reach fewer than 2^31 elements"
        return checks.require(f"{name}_extent", partial(holds, name), message, CODE, Status.NOT_SUPPORTED)

    return checks.only_if(is_older, *map(of, tensors))


def unary_checks(results: Mapping[DType, DType]) -> tuple[Check, ...]:
    """Those of x → y in their order, up to the pointers; `results` says which type y has by that of x."""

    def x(call: OpCall) -> TensorArg:
        return call.tensor("x")

    def y(call: OpCall) -> TensorArg:
        return call.tensor("y")

    def has_result(call: OpCall) -> bool:
        return y(call).dtype is results.get(x(call).dtype, x(call).dtype)

    def has_type(call: OpCall) -> bool:
        return x(call).dtype is not DType.BFLOAT16

    return (
        checks.handle(HEADER),
        checks.descriptors(doc=HEADER),
        checks.require("y_dtype", has_result, "y must have the type of the results for x", HEADER),
        checks.dtypes("x", doc=HEADER),
        checks.only_if(is_older, checks.require("bfloat16", has_type, f"bfloat16 needs MLU{NEWER} or newer", CODE)),
        # As many axes, at least one, as long: the same status.
        checks.require("dims", lambda call: y(call).dims == x(call).dims != (), "x and y have axes, alike", HEADER),
        checks.empty("x", doc=CODE),
        checks.only_if(is_older, checks.large("x", doc=CODE)),
        # Ruling: 9 axes are refused whatever the strides.
        checks.require("many_axes", lambda call: len(x(call).dims) <= MOST_AXES, "x has at most 8 axes", CODE),
        extents_refused("x", "y"),
        checks.pointers(doc=HEADER),
    )


# What kernels of these operators do before they compute.


def is_dense_alike(args: list[TensorArg]) -> bool:
    """No tensor is strided, or all are in one way that leaves no gaps; axes of length 1 are strided in no way."""
    if not any(arg.desc.is_strided for arg in args):
        return True
    ways = [
        [(stride, arg.dims[axis], axis) for axis, stride in enumerate(arg.strides or dense(arg.dims))] for arg in args
    ]
    steps = [[step for step in way if step[1] > 1] for way in ways]
    follows = 1
    for stride, length, _ in sorted(steps[0]):
        if stride != follows:
            return False
        follows *= length
    return all(own == steps[0] for own in steps)


def late_refusal(args: list[TensorArg], *, is_old: bool) -> Status | None:
    """What a kernel answers at last, unless it takes any strides: pointers, and what is too far apart or large."""
    if is_old and any(arg.desc.is_strided and arg.desc.extent >= 1 << 31 for arg in args):
        return Status.NOT_SUPPORTED
    return Status.BAD_PARAM if any(arg.null for arg in args) else None


def unary_refusal(call: OpCall, results: Mapping[DType, DType]) -> Status | None:
    """What a kernel answers before it looks at elements; None where it goes on."""
    x, y = call.inputs["x"], call.outputs["y"]
    if call.handle is None or x is None or y is None:
        return Status.BAD_PARAM
    is_old = call.handle.arch < 590
    is_typed = results.get(x.dtype) is y.dtype and not (is_old and x.dtype is DType.BFLOAT16)
    if not is_typed or x.dims != y.dims or len(x.dims) == 0:
        return Status.BAD_PARAM
    if 0 in x.dims:
        return Status.SUCCESS
    if is_old and math.prod(x.dims) >= 1 << 31:
        return Status.NOT_SUPPORTED
    return Status.BAD_PARAM if len(x.dims) > 8 else late_refusal([x, y], is_old=is_old)


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


def sign_of(dtype: DType) -> Any:
    """The bit of the sign, in the type of the bits."""
    return dtype.bits.type(1 << 8 * dtype.itemsize - 1)


def without_sign(values: Array, dtype: DType) -> Array:
    """The magnitudes, bit by bit."""
    bits: Array = values.view(dtype.bits) & ~sign_of(dtype)
    return bits.view(dtype.storage)


def spread(draw: Draw, name: str, dtype: DType, dims: tuple[int, ...], exponents: tuple[int, int]) -> Array:
    """Values of both signs with every mantissa bit in use."""
    return draw.stream(name).mantissas(dims, exponents, dtype.storage.str)


def mantissa_ends(dtype: DType) -> Array:
    """±1, ±(1 + ulp), ±(2 − ulp) and 3 in three neighbouring binades: even and odd exponents."""
    one, two = (int(bits) for bits in narrowed(np.array([1.0, 2.0]), dtype).view(dtype.bits))
    bits = np.array([one, one + 1, two - 1, one + 3 * (two - one) // 2])
    unsigned = np.concatenate([bits + shift * (two - one) for shift in (-1, 0, 1)]).astype(dtype.bits)
    return np.concatenate([unsigned, unsigned | sign_of(dtype)]).view(dtype.storage)


def plain_patterns(dtype: DType) -> Array:
    """Every number of 16 bits but for NaN that mark unwritten memory once an operation has made them quiet."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    every: Array = bits.view(dtype.storage)
    plain: Array = every[(bits & 0xFF != dtype.poison[0]) | ~np.isnan(widened(every, dtype))]
    return plain


def _element_sizes(first: str) -> Mapping[str, SizedAxis]:
    """Cases are declared for their number of elements; where one is lost, that input is 0."""

    def lost(call: OpCall, index: int) -> Mapping[str, Array]:
        values = call.array(first).copy()
        values.reshape(-1)[index] = 0
        return {first: values}

    return {"elements": SizedAxis(first, count=lambda call: call.tensor(first).desc.count, without=lost)}


def _axis_reductions(inputs: tuple[str, ...], output: str) -> Mapping[str, Reduction]:
    """Every axis may become shorter, in all tensors alike."""

    def length(axis: int, call: OpCall) -> int:
        return (*call.tensor(output).dims, *[0] * MOST_AXES)[axis]

    def without(axis: int, call: OpCall, start: int, stop: int) -> Any:
        left = {name: np.delete(call.array(name), slice(start, stop), axis) for name in inputs}
        return changed(call, left, outputs={output: left[inputs[0]].shape})

    return {f"axis_{axis}": Reduction(partial(length, axis), partial(without, axis)) for axis in range(MOST_AXES)}


# Half of them have as many axes as there may be: one more is too many.
_FORMS: Final[Mapping[str, Callable[[int, int], tuple[int, ...]]]] = {
    "1 axis": lambda n, m: (n * m,),
    "2 axes": lambda n, m: (n, m),
    "5 axes": lambda n, m: (2, n, 1, m, 3),
    "8 axes": lambda n, m: (1, 2, n, 1, m, 1, 2, 1),
    "8 axes, long outside": lambda n, m: (n, 1, 2, 1, 1, 1, 1, m),
    "8 axes, long inside": lambda n, m: (1, 1, 1, n, m, 2, 1, 2),
}


def shapes_space(
    recipe: str,
    values: Mapping[DType, tuple[str, ...]],
    is_defined: Callable[[OpCall], bool] = lambda _: True,
    **more: tuple[int, ...],
) -> Space:
    """Shapes of any rank, every type with its kinds of values; `more` are parameters to choose."""

    def dims_at(at: Mapping[str, Any]) -> tuple[int, ...]:
        return _FORMS[at["form"]](at["rows"], at["columns"])

    def draw(at: Mapping[str, Any]) -> Drawn | None:
        if at["values"] not in values[DType.named(at["dtype"])]:
            return None
        data = {"dims": dims_at(at), "values": at["values"]}
        return Drawn(recipe, {name: at[name] for name in more}, data, at["dtype"])

    def defined(call: OpCall) -> bool:
        # Nobody says what strides of no elements are.
        given = (arg for arg in (*call.inputs.values(), *call.outputs.values()) if arg is not None)
        return is_defined(call) and not any(arg.desc.is_empty and arg.strides is not None for arg in given)

    return Space(
        axes={
            "dtype": Choice(tuple(dtype.value for dtype in values)),
            "form": Choice(tuple(_FORMS)),
            "rows": Sizes(1, 1025),
            "columns": Sizes(1, 257),
            "values": Choice(tuple(dict.fromkeys(kind for own in values.values() for kind in own))),
            **{name: Choice(choices) for name, choices in more.items()},
        },
        draw=draw,
        elements=lambda at: math.prod(dims_at(at)),
        defined=defined,
    )
