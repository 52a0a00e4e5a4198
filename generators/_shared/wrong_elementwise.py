"""Mistakes of operators that compute element by element: in what is computed, where it is read and written."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from mluops_gtest.authoring import (
    Array,
    DType,
    Mutant,
    OpCall,
    Operator,
    Status,
    TensorArg,
    mistakes,
    narrowed,
    widened,
)
from mluops_gtest.authoring.roundings import through_half
from mluops_gtest.authoring.suspects import Suspect, with_inputs

from .interpolation import shortened

Strides = tuple[int, ...]
# The output by a mistake, as numbers of any type; None where it has no place.
Formula = Callable[[OpCall], Array | None]
# Name, words behind "as if", and what they come to.
Wrong = tuple[str, str, Formula]

_WIDE: Final = {"f": "<f8", "i": "<i8", "c": "<c16"}
# Name, words, bits of the mantissa, and the preferences that ask for more of them.
_IMPRECISE: Final = (
    ("in_half", "floats are computed with 11 bits", 11, (1,)),
    ("in_bfloat16", "floats are computed with 8 bits", 8, (1, 2)),
    ("estimate_alone", "the estimate of 12 bits is not improved", 12, (1,)),
    ("fast_in_4_bits", "FAST is computed with 4 bits", 4, (0,)),
)


def numbers(call: OpCall, name: str) -> Array:
    """The input in float64, int64 or complex128."""
    values = widened(np.ascontiguousarray(call.array(name)), call.tensor(name).dtype)
    return values.astype(_WIDE[values.dtype.kind])


def formula(kinds: str, compute: Callable[..., Array]) -> Formula:
    """Of all inputs, where the first is of one of these kinds: f, i, c."""

    def computed(call: OpCall) -> Array | None:
        values = [numbers(call, name) for name in call.inputs]
        return compute(*values) if values[0].dtype.kind in kinds else None

    return computed


def imprecise(reference: Callable[[OpCall], Any], output: str) -> Iterator[Wrong]:
    """Float results with too few bits of mantissa for what is preferred."""

    def computed(bits: int, preferences: tuple[int, ...], call: OpCall) -> Array | None:
        is_met = call.tensor(output).dtype is DType.FLOAT and call.param("prefer") in preferences
        return shortened(reference(call).outputs[output], bits) if is_met else None

    return ((name, words, partial(computed, bits, preferences)) for name, words, bits, preferences in _IMPRECISE)


def element_suspects(output: str, wrong: Iterable[Wrong]) -> dict[str, Suspect]:
    """What the operator suspects, by the words."""

    def outputs(compute: Formula, call: OpCall) -> Mapping[str, Array]:
        with np.errstate(all="ignore"):
            values = compute(call)
            return {} if values is None else {output: narrowed(np.asarray(values), call.tensor(output).dtype)}

    return {words: partial(outputs, compute) for _, words, compute in wrong}


def dense(dims: tuple[int, ...]) -> Strides:
    """The strides of a contiguous tensor."""
    return tuple(math.prod(dims[axis + 1 :]) for axis in range(len(dims)))


def _strides(arg: TensorArg) -> Strides:
    return arg.strides or dense(arg.dims)


def _places(dims: tuple[int, ...], strides: Strides) -> Any:
    return np.tensordot(strides, np.indices(dims), 1)


def _buffer(arg: TensorArg) -> Array:
    assert arg.array is not None
    return as_strided(arg.array, (arg.desc.extent,), (arg.array.itemsize,))


# Name, words, and the strides that are taken instead, given the tensor and another one.
_WRONG_STRIDES: Final[tuple[tuple[str, str, Callable[[TensorArg, TensorArg], Strides]], ...]] = (
    ("contiguous", "as if it were contiguous", lambda arg, _: dense(arg.dims)),
    ("reversed_strides", "by its strides in the order of axes reversed", lambda arg, _: _strides(arg)[::-1]),
    ("strides_of_other", "by the strides of the other tensor", lambda _, other: _strides(other)),
    ("dense_rows", "as if the last axis had the stride 1", lambda arg, _: (*_strides(arg)[:-1], 1)),
    ("stride_in_bytes", "as if strides counted bytes",
     lambda arg, _: tuple(stride // arg.dtype.itemsize for stride in _strides(arg))),
)  # fmt: skip


def _stride_mutants(operator: Operator, inputs: list[str], output: str, *, alike: bool) -> Iterator[Mutant]:
    """Wrong ways through the tensors; where strides must be `alike`, those of the other are the same."""

    def elsewhere(name: str, other: str, strides: Callable[[TensorArg, TensorArg], Strides], call: OpCall) -> Status:
        arg = call.tensor(name)
        buffer = _buffer(arg)
        places = _places(arg.dims, strides(arg, call.tensor(other))) % len(buffer)
        if name in call.inputs:
            return operator.kernel(with_inputs(call, **{name: buffer[places]}))
        before = buffer.copy()
        status = operator.kernel(call)
        values = call.array(name).copy()
        buffer[...] = before
        buffer[places] = values
        return status

    def clear_gaps(call: OpCall) -> None:
        arg = call.tensor(output)
        is_gap = np.ones(arg.desc.extent, bool)
        is_gap[_places(arg.dims, _strides(arg))] = False
        _buffer(arg)[is_gap] = 0

    for name, words, strides in _WRONG_STRIDES[: 2 if alike else None]:
        for tensor in (*inputs, output):
            verb, other = ("writes", inputs[0]) if tensor == output else ("reads", output)
            yield Mutant(f"{tensor}_{name}", f"{verb} {tensor} {words}", partial(elsewhere, tensor, other, strides))
    if not alike:
        yield mistakes.spoilt("gaps_cleared", f"clears the gaps of {output}", operator.kernel, clear_gaps)


def _behind(tile: int, places: Array, count: int) -> Any:
    return places >= (count // tile * tile if count > tile else count)


# What any of these operators can do wrong.
_LEFT: Final[Mapping[str, tuple[str, Callable[[Array, int], Any]]]] = {
    "first_left": ("does not write the first element", lambda at, _: at == 0),
    "last_left": ("does not write the last element", lambda at, n: at == n - 1),
    "every_other_left": ("writes every other element alone", lambda at, _: at % 2 == 1),
    **{
        f"tail_{tile}": (f"does not write what is behind a multiple of {tile} elements", partial(_behind, tile))
        for tile in (16, 64, 128, 1024)
    },
    # Few elements are not worth 4 cores.
    "last_core_left": ("does not write the last of 4 parts", lambda at, n: at >= (3 * -(-n // 4) if n >= 16 else n)),
}
_MOVED: Final[Mapping[str, tuple[str, Callable[[Array], Array]]]] = {
    "shifted": ("writes every element one place too far", lambda y: np.roll(y.reshape(-1), 1)),
    "reversed": ("writes the last element first", lambda y: y.reshape(-1)[::-1]),
    "first_for_all": ("writes the first element everywhere", lambda y: np.full(y.size, y.reshape(-1)[0])),
    "first_row_for_all": ("writes the first row everywhere", lambda y: np.broadcast_to(y[:1], y.shape)),
    "pairs_exchanged": ("exchanges neighbours", lambda y: y.reshape(-1)[np.minimum(np.arange(y.size) ^ 1, y.size - 1)]),
    "columns_first": ("writes the last axis but one as the last", lambda y: y.swapaxes(-1, -2) if y.ndim > 1 else y),
    "of_5_axes": ("reverses axes behind the fifth", lambda y: np.flip(y, tuple(range(5, y.ndim)))),
}  # fmt: skip
_NARROW: Final = (("half", through_half), ("bf16", partial(shortened, bits=8)))


def mutants(operator: Operator, wrong: Iterable[Wrong], *, alike: bool) -> tuple[Mutant, ...]:
    """What the operator suspects, elements that are lost or go to other places, inputs of fewer bits."""
    right, inputs, output = operator.kernel, [spec.id for spec in operator.inputs], operator.outputs[0].id

    def lost(where: Callable[[Array, int], Array], call: OpCall) -> Any:
        dims = call.tensor(output).dims
        return where(np.arange(math.prod(dims)).reshape(dims), math.prod(dims))

    def move(change: Callable[[Array], Array], call: OpCall) -> None:
        result = call.array(output)
        result[...] = np.ascontiguousarray(change(np.ascontiguousarray(result))).reshape(result.shape)

    def read_in(shorten: Callable[[Array], Array], call: OpCall) -> Status:
        of_float = {name: shorten(call.array(name)) for name in inputs if call.tensor(name).dtype is DType.FLOAT}
        return right(with_inputs(call, **of_float))

    return (
        *mistakes.suspected(operator, {name: words for name, words, _ in wrong}),
        *(mistakes.left(name, words, right, output, partial(lost, where)) for name, (words, where) in _LEFT.items()),
        *(mistakes.spoilt(name, words, right, partial(move, change)) for name, (words, change) in _MOVED.items()),
        *(Mutant(f"{name}_inputs", f"rounds floats to {name}", partial(read_in, way)) for name, way in _NARROW),
        mistakes.cached_by_shape(right),
        mistakes.sum_goes_on(right, output),
        mistakes.first_length_kept(right, output, 0, "rows"),
        *(mistakes.input_cleared(right, name) for name in inputs),
        *_stride_mutants(operator, inputs, output, alike=alike),
    )
