"""Mistakes of operators that compute element by element: in what is computed, where it is read and written."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from mluops_gtest.authoring import Array, Mutant, OpCall, Operator, Status, TensorArg, mistakes, narrowed, widened
from mluops_gtest.authoring.suspects import Suspect, with_inputs

from .interpolation import shortened

Strides = tuple[int, ...]
# The output by a mistake, as numbers of any type; None where it has no place.
Formula = Callable[[OpCall], Array | None]
# By the words behind "as if".
Wrong = Mapping[str, Formula]

_WIDE: Final = {"f": "<f8", "i": "<i8", "c": "<c16"}


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


def element_suspects(output: str, wrong: Wrong) -> dict[str, Suspect]:
    """What the operator suspects."""

    def outputs(compute: Formula, call: OpCall) -> Mapping[str, Array]:
        with np.errstate(all="ignore"):
            values = compute(call)
            return {} if values is None else {output: narrowed(np.asarray(values), call.tensor(output).dtype)}

    return {words: partial(outputs, compute) for words, compute in wrong.items()}


def _places(arg: TensorArg, strides: Strides | None) -> Any:
    """Where the elements are by these strides."""
    if strides is None:
        return np.arange(arg.desc.count).reshape(arg.dims)
    return np.tensordot(strides, np.indices(arg.dims), 1)


def _buffer(arg: TensorArg) -> Array:
    assert arg.array is not None
    return as_strided(arg.array, (arg.desc.extent,), (arg.array.itemsize,))


# Name, words, and the strides that are taken instead, given the tensor and another one; None stands for none.
_WRONG_STRIDES: Final[tuple[tuple[str, str, Callable[[TensorArg, TensorArg], Strides | None]], ...]] = (
    ("contiguous", "as if it were contiguous", lambda *_: None),
    ("reversed_strides", "by its strides in reverse", lambda arg, _: arg.strides and arg.strides[::-1]),
    ("strides_of_other", "by the strides of the other tensor", lambda _, other: other.strides),
    ("stride_in_bytes", "as if strides counted bytes",
     lambda arg, _: arg.strides and tuple(stride // arg.dtype.itemsize for stride in arg.strides)),
)  # fmt: skip


def _stride_mutants(operator: Operator, inputs: list[str], output: str, *, alike: bool) -> tuple[Mutant, ...]:
    """Wrong ways through the tensors; where strides must be `alike`, those of the other are the same."""

    def elsewhere(name: str, strides: Callable[[TensorArg, TensorArg], Strides | None], call: OpCall) -> Status:
        arg, other = call.tensor(name), call.tensor(inputs[0] if name == output else output)
        buffer = _buffer(arg)
        places = _places(arg, strides(arg, other)) % len(buffer)
        if name in call.inputs:
            return operator.kernel(with_inputs(call, **{name: buffer[places]}))
        status = operator.kernel(call)
        buffer[places] = call.array(name).copy()
        return status

    def clear_gaps(call: OpCall) -> None:
        arg = call.tensor(output)
        _buffer(arg)[np.setdiff1d(np.arange(arg.desc.extent), _places(arg, arg.strides))] = 0

    gaps_cleared = mistakes.spoilt("gaps_cleared", f"clears the gaps of {output}", operator.kernel, clear_gaps)
    return (
        *(
            Mutant(f"{tensor}_{name}", f"goes through {tensor} {words}", partial(elsewhere, tensor, strides))
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


def element_mutants(operator: Operator, *, alike: bool) -> tuple[Mutant, ...]:
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
