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
_TILES: Final = (16, 64, 128, 1024)
_WORTH_CORES: Final = 16
NARROW: Final[Mapping[str, Callable[[Array], Array]]] = {
    "half": through_half,
    "bf16": partial(shortened, bits=8),
    "tf32": partial(shortened, bits=11),
}


# What is computed.


def numbers(call: OpCall, name: str) -> Array:
    """The input in float64, int64 or complex128."""
    values = widened(call.array(name), call.tensor(name).dtype)
    return values.astype(_WIDE[values.dtype.kind])


def formula(kinds: str, compute: Callable[..., Array]) -> Formula:
    """Of all inputs, where the first is of one of these kinds: f, i, c."""

    def computed(call: OpCall) -> Array | None:
        values = [numbers(call, name) for name in call.inputs]
        return compute(*values) if values[0].dtype.kind in kinds else None

    return computed


def imprecise(compute: Formula, output: str, bits: int, preferences: Iterable[int]) -> Formula:
    """Float results with so many bits of mantissa, where one of these is preferred."""

    def computed(call: OpCall) -> Array | None:
        is_met = call.tensor(output).dtype is DType.FLOAT and call.param("prefer") in preferences
        values = compute(call) if is_met else None
        return None if values is None else shortened(values, bits)

    return computed


def element_suspects(output: str, wrong: Iterable[Wrong]) -> dict[str, Suspect]:
    """What the operator suspects, by the words."""

    def of(compute: Formula) -> Suspect:
        def outputs(call: OpCall) -> Mapping[str, Array]:
            with np.errstate(all="ignore"):
                values = compute(call)
                return {} if values is None else {output: narrowed(np.asarray(values), call.tensor(output).dtype)}

        return outputs

    return {words: of(compute) for _, words, compute in wrong}


# Where elements are read and written.


def _buffer(arg: TensorArg) -> Array:
    assert arg.array is not None
    return as_strided(arg.array, (arg.desc.extent,), (arg.array.itemsize,))


def _places(dims: tuple[int, ...], strides: Strides) -> Array:
    places = np.zeros((), np.int64)
    for length, stride in zip(dims, strides, strict=True):
        places = np.add.outer(places, np.arange(length) * stride)
    return places


def _strides(arg: TensorArg) -> Strides:
    return arg.strides or _dense(arg.dims)


def _dense(dims: tuple[int, ...]) -> Strides:
    return tuple(math.prod(dims[axis + 1 :]) for axis in range(len(dims)))


# Name, words, and the strides that are taken instead, given the tensor and the other one.
_WRONG_STRIDES: Final[tuple[tuple[str, str, Callable[[TensorArg, TensorArg], Strides]], ...]] = (
    ("contiguous", "as if it were contiguous", lambda arg, _: _dense(arg.dims)),
    ("reversed_strides", "by its strides in the order of axes reversed", lambda arg, _: _strides(arg)[::-1]),
    ("strides_of_other", "by the strides of the other tensor", lambda _, other: _strides(other)),
    ("dense_rows", "as if the last axis had the stride 1", lambda arg, _: (*_strides(arg)[:-1], 1)),
    ("one_stride", "as if only the last axis had a stride", lambda arg, _: (*_dense(arg.dims)[:-1], _strides(arg)[-1])),
    (
        "stride_in_bytes",
        "as if strides counted bytes",
        lambda arg, _: tuple(stride // arg.dtype.itemsize for stride in _strides(arg)),
    ),
)  # fmt: skip


def stride_mutants(operator: Operator, read: str, output: str, *, alike: bool = False) -> Iterator[Mutant]:
    """Wrong ways through `read` and `output`; where strides must be `alike`, those of the other are the same."""

    def reader(strides: Callable[[TensorArg, TensorArg], Strides], call: OpCall) -> Status:
        arg = call.tensor(read)
        places = _places(arg.dims, strides(arg, call.tensor(output)))
        values = _buffer(arg)[places % arg.desc.extent]
        return operator.kernel(with_inputs(call, **{read: values}))

    def writer(strides: Callable[[TensorArg, TensorArg], Strides], call: OpCall) -> Status:
        arg = call.tensor(output)
        buffer = _buffer(arg)
        before = buffer.copy()
        status = operator.kernel(call)
        values = call.array(output).copy()
        buffer[...] = before
        buffer[_places(arg.dims, strides(arg, call.tensor(read))) % arg.desc.extent] = values
        return status

    def fill_gaps(call: OpCall) -> None:
        arg = call.tensor(output)
        is_gap = np.ones(arg.desc.extent, bool)
        is_gap[_places(arg.dims, _strides(arg))] = False
        _buffer(arg)[is_gap] = 0

    for name, words, strides in _WRONG_STRIDES[: 2 if alike else None]:
        yield Mutant(f"{read}_{name}", f"reads {read} {words}", partial(reader, strides))
        yield Mutant(f"{output}_{name}", f"writes {output} {words}", partial(writer, strides))
    if not alike:
        yield mistakes.spoilt("gaps_cleared", f"clears the gaps of {output}", operator.kernel, fill_gaps)


# What any of these operators can do wrong.


def _every_other(places: Array, count: int) -> Array:
    return (places % 2 == 1) & (count > 1)


def _behind(tile: int, places: Array, count: int) -> Array:
    return places >= (count // tile * tile if count > tile else count)


def _of_last_core(places: Array, count: int) -> Array:
    return places >= (3 * -(-count // 4) if count >= _WORTH_CORES else count)


_LEFT: Final[Mapping[str, tuple[str, Callable[[Array, int], Array]]]] = {
    "first_left": ("does not write the first element", lambda places, _: places == 0),
    "last_left": ("does not write the last element", lambda places, count: places == count - 1),
    "every_other_left": ("writes every other element alone", _every_other),
    **{
        f"tail_{tile}": (f"does not write what is behind a multiple of {tile} elements", partial(_behind, tile))
        for tile in _TILES
    },
    "last_core_left": ("does not write the part of the last of 4 cores", _of_last_core),
}
_MOVED: Final[Mapping[str, tuple[str, Callable[[Array], Array]]]] = {
    "shifted": ("writes every element one place too far", lambda y: np.roll(y.reshape(-1), 1)),
    "reversed": ("writes the last element first", lambda y: y.reshape(-1)[::-1]),
    "first_for_all": ("writes the first element everywhere", lambda y: np.full(y.size, y.reshape(-1)[0])),
    "first_row_for_all": ("writes the first row everywhere", lambda y: np.broadcast_to(y[:1], y.shape)),
    "pairs_exchanged": ("exchanges neighbours", lambda y: y.reshape(-1)[np.minimum(np.arange(y.size) ^ 1, y.size - 1)]),
    "columns_first": ("writes the last axis but one as the last", lambda y: y.swapaxes(-1, -2) if y.ndim > 1 else y),
}  # fmt: skip


def element_mutants(operator: Operator, output: str, narrow: Iterable[str] = NARROW) -> Iterator[Mutant]:
    """Elements that are lost or go to other places, what another call leaves, inputs of fewer bits."""
    right, inputs = operator.kernel, [spec.id for spec in operator.inputs]

    def lost(where: Callable[[Array, int], Array], call: OpCall) -> Any:
        dims = call.tensor(output).dims
        return where(np.arange(math.prod(dims)).reshape(dims), math.prod(dims))

    def move(change: Callable[[Array], Array], call: OpCall) -> None:
        result = call.array(output)
        result[...] = np.ascontiguousarray(change(np.ascontiguousarray(result))).reshape(result.shape)

    def read_in(shorten: Callable[[Array], Array], call: OpCall) -> Status:
        of_float = {name: shorten(call.array(name)) for name in inputs if call.tensor(name).dtype is DType.FLOAT}
        return right(with_inputs(call, **of_float))

    for name, (message, where) in _LEFT.items():
        yield mistakes.left(name, message, right, output, partial(lost, where))
    for name, (message, change) in _MOVED.items():
        yield mistakes.spoilt(name, message, right, partial(move, change))
    for name in narrow:
        yield Mutant(f"{name}_inputs", f"rounds floats to {name}", partial(read_in, NARROW[name]))
    yield mistakes.cached_by_shape(right)
    yield mistakes.sum_goes_on(right, output)
    yield mistakes.first_length_kept(right, output, 0, "rows")
    for name in inputs:
        yield mistakes.input_cleared(right, name)
