"""Operators that compute element by element, of tensors of one shape with 1 to 8 axes: what abs, sqrt and div share.

Sqrt and div have no document but mlu_op.h and the released host files.
"""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

import mluops_gtest.authoring as mg
from mluops_gtest.authoring import Array, DType, OpCall, Status, checks, exact_numbers, mistakes, reductions, suspects
from mluops_gtest.authoring.c_api import HANDLE, c_function, scalar, tensor
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .interpolation import shortened
from .refusals import Refusals, first_status, tensors_of

HEADER: Final = "released: the header"
CODE: Final = "released: the host check"
# From this device on there are bfloat16 and tensors of 2^31 elements.
NEWER: Final = 590
MOST_AXES: Final = 8

Shape = tuple[int, ...]
Number = Fraction | float
# What refuses a call with these tensors, in its order; the flag says that the device is older.
Refuse = Callable[[OpCall, list[mg.TensorArg], bool], Refusals]
# How far results may be off. No document says it: 5e-7 is 4 ulp of a float, the others 1 ulp of what is rounded to 16
# bits. The released kernels ignore the preference, so FAST and HIGH differ in what is demanded alone.
_HIGH: Final = {DType.FLOAT: 5e-7, DType.HALF: 1e-3, DType.BFLOAT16: 8e-3}
_FAST: Final = 3e-3
HIGH: Final = {dtype: (mg.Criterion(mg.CriterionKind.DIFF3, most),) for dtype, most in _HIGH.items()}
# FAST asks bfloat16 for what HIGH does.
_CRITERIA: Final = {
    dtype: high if dtype is DType.BFLOAT16 else mg.CriteriaByParam("prefer", {1: high, 0: mg.diff1_and_diff2(_FAST)})
    for dtype, high in HIGH.items()
}
_PREFERENCES: Final = {"COMPUTATION_FAST": 0, "COMPUTATION_HIGH_PRECISION": 1, "COMPUTATION_ULTRAHIGH_PRECISION": 2}
PREFERENCE: Final = mg.EnumSpec("ComputationPreference", _PREFERENCES)

# Mistakes: in what is computed, where it is read and written.

Strides = tuple[int, ...]
# The output by a mistake, as numbers of any type; None where it has no place.
Formula = Callable[[OpCall], Array | None]
# By the words behind "as if".
Wrong = Mapping[str, Formula]

_WIDE: Final = {"f": "<f8", "i": "<i8", "c": "<c16"}


def numbers(call: OpCall, name: str) -> Array:
    """The input in float64, int64 or complex128."""
    values = mg.widened(np.ascontiguousarray(call.array(name)), call.tensor(name).dtype)
    return values.astype(_WIDE[values.dtype.kind])


def formula(kinds: str, compute: Callable[..., Array]) -> Formula:
    """Of all inputs, where the first is of one of these kinds: f, i, c."""

    def computed(call: OpCall) -> Array | None:
        values = [numbers(call, name) for name in call.inputs]
        return compute(*values) if values[0].dtype.kind in kinds else None

    return computed


def imprecise(compute: Callable[..., Array]) -> Wrong:
    """Results of floats with too few bits of mantissa for what is preferred."""

    def shortest(bits: int, *preferences: int) -> Formula:
        short = formula("f", lambda *values: shortened(compute(*values), bits))
        return lambda call: short(call) if call.param("prefer") in preferences else None

    return {
        "floats are computed with 11 bits": shortest(11, 1),
        "floats are computed with 8 bits": shortest(8, 1, 2),
        "the estimate of 12 bits is not improved": shortest(12, 1),
        "FAST is computed with 4 bits": shortest(4, 0),
    }


def element_suspects(output: str, wrong: Wrong) -> dict[str, suspects.Suspect]:
    """What the operator suspects."""

    def outputs(compute: Formula, call: OpCall) -> Mapping[str, Array]:
        with np.errstate(all="ignore"):
            values = compute(call)
            return {} if values is None else {output: mg.narrowed(np.asarray(values), call.tensor(output).dtype)}

    return {words: partial(outputs, compute) for words, compute in wrong.items()}


def _places(arg: mg.TensorArg, strides: Strides | None) -> Any:
    """Where the elements are by these strides."""
    if strides is None:
        return np.arange(arg.desc.count).reshape(arg.dims)
    return np.tensordot(strides, np.indices(arg.dims), 1)


def _buffer(arg: mg.TensorArg) -> Array:
    assert arg.array is not None
    return as_strided(arg.array, (arg.desc.extent,), (arg.array.itemsize,))


# Name, words, and the strides that are taken instead, given the tensor and another one; None stands for none.
_WRONG_STRIDES: Final[tuple[tuple[str, str, Callable[[mg.TensorArg, mg.TensorArg], Strides | None]], ...]] = (
    ("contiguous", "as if it were contiguous", lambda *_: None),
    ("reversed_strides", "by its strides in reverse", lambda arg, _: arg.strides and arg.strides[::-1]),
    ("strides_of_other", "by the strides of the other tensor", lambda _, other: other.strides),
    ("stride_in_bytes", "as if strides counted bytes",
     lambda arg, _: arg.strides and tuple(stride // arg.dtype.itemsize for stride in arg.strides)),
)  # fmt: skip


def _stride_mutants(operator: mg.Operator, inputs: list[str], output: str, *, alike: bool) -> tuple[mg.Mutant, ...]:
    """Wrong ways through the tensors; where strides must be `alike`, those of the other are the same."""

    def elsewhere(name: str, strides: Callable[[mg.TensorArg, mg.TensorArg], Strides | None], call: OpCall) -> Status:
        arg, other = call.tensor(name), call.tensor(inputs[0] if name == output else output)
        buffer = _buffer(arg)
        places = _places(arg, strides(arg, other)) % len(buffer)
        if name in call.inputs:
            return operator.kernel(suspects.with_inputs(call, **{name: buffer[places]}))
        status = operator.kernel(call)
        buffer[places] = call.array(name).copy()
        return status

    def clear_gaps(call: OpCall) -> None:
        arg = call.tensor(output)
        _buffer(arg)[np.setdiff1d(np.arange(arg.desc.extent), _places(arg, arg.strides))] = 0

    gaps_cleared = mistakes.spoilt("gaps_cleared", f"clears the gaps of {output}", operator.kernel, clear_gaps)
    return (
        *(
            mg.Mutant(f"{tensor}_{name}", f"goes through {tensor} {words}", partial(elsewhere, tensor, strides))
            for name, words, strides in _WRONG_STRIDES[: 2 if alike else None]
            for tensor in (*inputs, output)
        ),
        *([] if alike else [gaps_cleared]),
    )


# What becomes of right results.
_MOVED: Final[Mapping[str, tuple[str, Callable[[Array], Array]]]] = {
    "shifted": ("writes every element one place too far", lambda y: np.roll(y.reshape(-1), 1)),
    "reversed": ("writes the last element first", lambda y: y.reshape(-1)[::-1]),
    "first_for_all": ("writes the first element everywhere", lambda y: np.full(y.size, y.reshape(-1)[0])),
    "first_row_for_all": ("writes the first row everywhere", lambda y: np.broadcast_to(y[:1], y.shape)),
    "columns_first": ("writes the last axis but one as the last", lambda y: y.swapaxes(-1, -2) if y.ndim > 1 else y),
    "of_5_axes": ("reverses axes behind the fifth", lambda y: np.flip(y, tuple(range(5, y.ndim)))),
}  # fmt: skip


def element_mutants(operator: mg.Operator, *, alike: bool) -> tuple[mg.Mutant, ...]:
    """What the operator suspects, elements that are lost or go to other places, and what another call finds."""
    right, inputs, output = operator.kernel, [spec.id for spec in operator.inputs], operator.outputs[0].id

    def move(change: Callable[[Array], Array], call: OpCall) -> None:
        result = call.array(output)
        result[...] = np.ascontiguousarray(change(np.ascontiguousarray(result))).reshape(result.shape)

    return (
        *mistakes.suspected(operator),
        *(mistakes.spoilt(name, words, right, partial(move, change)) for name, (words, change) in _MOVED.items()),
        *mistakes.tails_left(right, output, 0, "rows", (16, 64, 128, 1024)),
        *mistakes.tails_left(right, output, -1, "columns", (16, 64)),
        mistakes.part_left(right, output, 0, "rows"),
        mistakes.left("first_left", "does not write the first row", right, output, lambda _: 0),
        mistakes.left("last_left", "does not write the last row", right, output, lambda _: -1),
        mistakes.left("odd_left", "does not write every other row", right, output, lambda _: slice(1, None, 2)),
        mistakes.cached_by_shape(right),
        mistakes.sum_goes_on(right, output),
        mistakes.first_length_kept(right, output, 0, "rows"),
        *(mistakes.input_cleared(right, name) for name in inputs),
        *_stride_mutants(operator, inputs, output, alike=alike),
    )


# The operator.


def element_operator(
    name: str,
    number: int,
    results: Mapping[DType, DType],
    inputs: tuple[str, ...],
    output: str,
    *,
    prefer: int = 0,
    preferences: tuple[int, ...] = (),
    criteria: Mapping[DType, Any] = _CRITERIA,
    reference: Callable[[OpCall], mg.Baseline],
    exact: Callable[..., Number],
    refuse: Refuse,
    compute: Callable[[OpCall], Array],
    in_torch: Callable[..., Any],
    wrong: Wrong,
    recipe: Callable[[mg.Draw, DType, Shape, str], Mapping[str, Array]],
    kinds: Mapping[DType, tuple[str, ...]],
    other_kinds: tuple[str, ...],
    is_defined: Callable[[OpCall], bool] = lambda _: True,
    **own: Any,
) -> mg.Operator:
    """An operator on tensors of one shape; `results` says of what type they are by that of the inputs.

    `prefer` is the number of the message that holds the one parameter; 0: there is none. The recipe draws values of
    these kinds by type, for fuzzing, too, and of others for cases alone.
    """
    # HIGH_PRECISION unless a file says otherwise.
    field = mg.ParamField("prefer", 1, "enum", default=1, enum=PREFERENCE, allowed=preferences)
    choices = {"prefer": preferences or tuple(_PREFERENCES.values())} if prefer else {}

    def draw_kind(
        draw: mg.Draw, given: mg.Params, dtype: DType, *, dims: Shape = (4, 5), values: str = "full"
    ) -> mg.RecipeOutput:
        if values not in (*kinds[dtype], *other_kinds):
            raise ValueError(f"{dtype.value} has no values {values!r}")
        arrays = recipe(draw, dtype, dims, values)
        params = {**dict.fromkeys(choices, 1), **given}
        return mg.RecipeOutput(arrays, params, outputs={output: arrays[inputs[0]].shape})

    def torch_kernel(_: OpCall, given: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        outputs[output].copy_(in_torch(*(given[one] for one in inputs)))

    bound = partial(preferred_bound, reference, output)
    return mg.Operator(
        name=name,
        op_type=(name.upper(), number),
        inputs=tuple(mg.TensorSpec(one, "[*S]", tuple(results), None) for one in inputs),
        outputs=(mg.OutputSpec(output, "[*S]", {dtype: criteria[dtype] for dtype in results.values()}, None),),
        params=mg.ParamMessage(f"{name}_param", prefer, f"{name.capitalize()}Param", (field,)) if prefer else None,
        # Cases are declared for their number of elements.
        sizes={"elements": mg.SizedAxis(inputs[0], count=_count, without=partial(_lose_element, inputs[0]))},
        reference=reference,
        exact=partial(_elements, output, exact),
        kernel=partial(_run, output, refuse, compute),
        torch_kernel=torch_kernel,
        theory=_theory,
        suspects=element_suspects(output, wrong),
        recipes={recipe.__name__: draw_kind},
        space=_shapes_space(recipe.__name__, kinds, is_defined, choices),
        reductions={f"axis_{axis}": _reduction(inputs, output, axis) for axis in range(MOST_AXES)},
        c_api=c_function(f"mluOp{name.capitalize()}", arguments=(HANDLE, *scalar(*choices), *tensor(*inputs, output))),
        **{"bound": bound, "mutants": partial(element_mutants, alike=True), **own},
    )


def rounded(output: str, compute: Callable[..., Array], call: OpCall) -> mg.Baseline:
    """Results in float64, rounded; which NaN an operation gives differs between processors."""
    with np.errstate(all="ignore"):
        results = compute(*(numbers(call, name) for name in call.inputs))
        return mg.Baseline(
            {output: mg.narrowed(np.where(np.isnan(results), np.nan, results), call.tensor(output).dtype)}
        )


def preferred_bound(reference: Callable[[OpCall], mg.Baseline], output: str, call: OpCall) -> Mapping[str, mg.Bound]:
    """What the preference asks, before results are rounded: 16-bit ones are right float results."""
    dtype = call.tensor(output).dtype
    is_fast = (call.params or {}).get("prefer") == 0 and dtype is not DType.BFLOAT16
    magnitudes = np.abs(mg.widened(reference(call).outputs[output], dtype).astype(np.float64))
    return {output: mg.Bound(magnitudes, afterwards=math.ceil((_FAST if is_fast else _HIGH[DType.FLOAT]) * 2**24))}


def _elements(output: str, exact: Callable[..., Number], call: OpCall) -> Mapping[str, exact_numbers.ExactElement]:
    """Each element from the numbers at its place, of complex ones both parts; NaN and infinities are floats."""
    values = [mg.widened(call.array(name), call.tensor(name).dtype) for name in call.inputs]
    parts = [part for one in values for part in ((one.real, one.imag) if one.dtype.kind == "c" else (one,))]
    return {output: lambda *index: exact(*(exact_numbers.fraction(part[index]) for part in parts))}


def exact_root(square: Fraction) -> Fraction:
    """A number that rounds to any type as the square root does."""
    scaled = square * 4**400
    root = math.isqrt(math.floor(scaled))
    return Fraction(root if root * root == scaled else 2 * root + 1, (1 if root * root == scaled else 2) * 2**400)


def _count(call: OpCall) -> int:
    return tensors_of(call)[0].desc.count


def _theory(call: OpCall) -> mg.Theory:
    """All tensors once, and one operation for every element."""
    return mg.Theory(sum(arg.desc.count * arg.dtype.itemsize for arg in tensors_of(call)), _count(call))


# Checks.


def is_older(call: OpCall) -> bool:
    """The device has no bfloat16 and no large tensors; no handle says that it had."""
    return call.handle is None or call.handle.arch < NEWER


def extents_refused(*tensors: str) -> mg.Check:
    """`<tensor>_extent` on older devices: strides that reach 2^31 elements."""

    def is_near(name: str, call: OpCall) -> bool:
        return not call.tensor(name).desc.is_strided or call.tensor(name).desc.extent < 1 << 31

    def of(name: str) -> mg.Check:
        message = f"the strides of {name} must reach fewer than 2^31 elements"
        return checks.require(f"{name}_extent", partial(is_near, name), message, CODE, Status.NOT_SUPPORTED)

    return checks.only_if(is_older, *map(of, tensors))


def unary_checks(results: Mapping[DType, DType]) -> tuple[mg.Check, ...]:
    """Those of x → y in their order, up to the pointers; `results` says which type y has by that of x."""

    def has_result(call: OpCall) -> bool:
        x = call.tensor("x").dtype
        return call.tensor("y").dtype is results.get(x, x)

    def has_axes(call: OpCall) -> bool:
        return call.tensor("y").dims == call.tensor("x").dims != ()

    def is_known(call: OpCall) -> bool:
        return not is_older(call) or call.tensor("x").dtype is not DType.BFLOAT16

    return (
        checks.handle(HEADER),
        checks.descriptors(doc=HEADER),
        checks.require("y_dtype", has_result, "y must have the type of the results for x", HEADER),
        checks.dtypes("x", doc=HEADER),
        checks.require("bfloat16", is_known, f"bfloat16 needs MLU{NEWER} or newer", CODE),
        # As many axes, at least one, as long: the same status.
        checks.require("dims", has_axes, "x and y have axes, alike", HEADER),
        checks.empty("x", doc=CODE),
        checks.only_if(is_older, checks.large("x", doc=CODE)),
        # Ruling: 9 axes are refused whatever the strides.
        checks.require("many_axes", lambda call: len(call.tensor("x").dims) <= MOST_AXES, "x has at most 8 axes", CODE),
        extents_refused("x", "y"),
        checks.pointers(doc=HEADER),
    )


# Kernels.


def _run(output: str, refuse: Refuse, compute: Callable[[OpCall], Array], call: OpCall) -> Status:
    """Check the call, then compute."""
    args = tensors_of(call)
    if call.handle is None or len(args) <= len(call.inputs):
        return Status.BAD_PARAM
    if (refused := first_status(refuse(call, args, call.handle.arch < 590))) is not None:
        return refused
    with np.errstate(all="ignore"):
        call.array(output)[...] = compute(call)
    return Status.SUCCESS


def refuse_unary(results: Mapping[DType, DType], _: OpCall, args: list[mg.TensorArg], is_old: bool) -> Refusals:
    """What a kernel of x → y refuses that takes any strides."""
    x, y = args
    yield results.get(x.dtype) is not y.dtype or (is_old and x.dtype is DType.BFLOAT16), Status.BAD_PARAM
    yield x.dims != y.dims or len(x.dims) == 0, Status.BAD_PARAM
    yield 0 in x.dims, Status.SUCCESS
    yield is_old and math.prod(x.dims) >= 1 << 31, Status.NOT_SUPPORTED
    yield len(x.dims) > 8, Status.BAD_PARAM
    yield from refuse_late(args, is_old=is_old)


def refuse_late(args: list[mg.TensorArg], *, is_old: bool) -> Refusals:
    """What is too far apart, and pointers."""
    yield is_old and any(arg.desc.is_strided and arg.desc.extent >= 1 << 31 for arg in args), Status.NOT_SUPPORTED
    yield any(arg.null for arg in args), Status.BAD_PARAM


def unlike_strides(args: list[mg.TensorArg]) -> tuple[bool, Status]:
    """Not all tensors are strided in one way that leaves no gaps; axes of length 1 are strided in no way."""
    steps, follows = [arg.desc.steps for arg in args], 1
    for stride, length in sorted(steps[0]):
        if stride != follows:
            return True, Status.NOT_SUPPORTED
        follows *= length
    return any(own != steps[0] for own in steps), Status.NOT_SUPPORTED


# Data, fuzzing, minimising.


class Domain(NamedTuple):
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
        ends = mg.narrowed(np.array([self.least, self.most]), dtype).view(dtype.bits).astype(np.int64)
        beside = (ends[:, None] + np.arange(-1, 3)).astype(dtype.bits).view(dtype.storage).reshape(-1)
        return beside[self.holds(mg.widened(beside, dtype))]


def sign_of(dtype: DType) -> Any:
    """The bit of the sign, in the type of the bits."""
    return dtype.bits.type(1 << 8 * dtype.itemsize - 1)


def without_sign(values: Array, dtype: DType) -> Array:
    """The magnitudes, bit by bit."""
    bits: Array = values.view(dtype.bits) & ~sign_of(dtype)
    return bits.view(dtype.storage)


def mantissa_ends(dtype: DType) -> Array:
    """±1, ±(1 + ulp), ±(2 − ulp) and 3 in three neighbouring binades: even and odd exponents."""
    one, two = (int(bits) for bits in mg.narrowed(np.array([1.0, 2.0]), dtype).view(dtype.bits))
    bits = np.array([one, one + 1, two - 1, one + 3 * (two - one) // 2])
    unsigned = np.concatenate([bits + shift * (two - one) for shift in (-1, 0, 1)]).astype(dtype.bits)
    return np.concatenate([unsigned, unsigned | sign_of(dtype)]).view(dtype.storage)


def plain_patterns(dtype: DType) -> Array:
    """Every number of 16 bits but for NaN that mark unwritten memory once an operation has made them quiet."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    every: Array = bits.view(dtype.storage)
    plain: Array = every[(bits & 0xFF != dtype.poison[0]) | ~np.isnan(mg.widened(every, dtype))]
    return plain


def _lose_element(first: str, call: OpCall, index: int) -> Mapping[str, Array]:
    """That element of the input is 0."""
    values = call.array(first).copy()
    values.reshape(-1)[index] = 0
    return {first: values}


def _reduction(inputs: tuple[str, ...], output: str, axis: int) -> reductions.Reduction:
    """That axis becomes shorter, in all tensors alike."""

    def without(call: OpCall, start: int, stop: int) -> mg.RecipeOutput:
        left = {name: np.delete(call.array(name), slice(start, stop), axis) for name in inputs}
        return reductions.changed(call, left, outputs={output: left[inputs[0]].shape})

    return reductions.Reduction(lambda call: (*call.tensor(output).dims, *[0] * MOST_AXES)[axis], without)


def _shapes_space(
    recipe: str,
    values: Mapping[DType, tuple[str, ...]],
    is_defined: Callable[[OpCall], bool],
    params: Mapping[str, tuple[int, ...]],
) -> Space:
    """Shapes of any rank, every type with its kinds of values, and the parameters to choose."""

    def dims_at(at: Mapping[str, Any]) -> Shape:
        rank = min(at["rank"], MOST_AXES)
        return (at["rows"], *(1, 2, 1, 1, 2, 1)[: rank - 2], at["columns"])[:rank]

    def draw(at: Mapping[str, Any]) -> Drawn | None:
        if at["values"] not in values[DType.named(at["dtype"])]:
            return None
        data = {"dims": dims_at(at), "values": at["values"]}
        return Drawn(recipe, {name: at[name] for name in params}, data, at["dtype"])

    def defined(call: OpCall) -> bool:
        # Nobody says what strides of no elements are.
        return is_defined(call) and not any(arg.desc.is_empty and arg.strides for arg in tensors_of(call))

    axes: dict[str, Sizes | Choice] = {
        "dtype": Choice(tuple(dtype.value for dtype in values)),
        # Half of them have as many axes as there may be: one more is too many.
        "rank": Choice((1, 2, 5, 8, 9, 10)),
        "rows": Sizes(1, 1025),
        "columns": Sizes(1, 257),
        "values": Choice(tuple(dict.fromkeys(kind for own in values.values() for kind in own))),
        **{name: Choice(choices) for name, choices in params.items()},
    }
    return Space(axes, draw, lambda at: math.prod(dims_at(at)), defined=defined)
