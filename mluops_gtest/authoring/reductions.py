"""How calls become smaller, for `reductions.py` of an operator."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mluops_gtest.base.frozen import Value
from mluops_gtest.core.call import OpCall, Params
from mluops_gtest.core.declaration import RecipeOutput, Reduction
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.shape import parse_shape
from mluops_gtest.core.tensor import Array

__all__ = ["Reduction", "along", "axis_reductions", "changed", "renumbered", "without_rows"]


def axis_reductions(operator: Operator) -> dict[str, Reduction]:
    """What follows from the operator's axes, and from whole-numbered parameters that are none: fewer of each.

    Positions along them are renumbered.
    """
    symbols = {name: one.symbol for name, one in operator.axes.items()}
    for field in operator.param_fields:
        is_number = field.type in ("int32", "int64") and field.label != "repeated" and not field.result
        if is_number and not field.equals and field.name not in symbols.values():
            symbols.setdefault(field.name, field.name)
    return {name: along(operator, symbol, _positions_along(operator, symbol)) for name, symbol in symbols.items()}


def _positions_along(operator: Operator, symbol: str) -> dict[str, int | None]:
    return {spec.id: column for spec in operator.inputs for column, named in spec.positions.items() if named == symbol}


def along(operator: Operator, symbol: str, named_by: Mapping[str, int | None] | None = None) -> Reduction:
    """What one symbol of the operator's shapes counts: every axis with it loses the same places, the parameter of that
    name is lowered.

    `named_by`: inputs whose values are places on that axis, with the column that holds them, None for all; they are
    renumbered, and those that named a lost place name the one before it; where places are distinct, none may be lost.
    """

    def size(call: OpCall) -> int:
        for axis in _axes(operator, symbol, call):
            if len(axis.lengths) == 1:
                return call.tensor(axis.tensor).dims[axis.number]
        return int(call.param(symbol))

    def without(call: OpCall, start: int, stop: int) -> RecipeOutput | None:
        arrays, dims = dict[str, Array](), dict[str, tuple[int, ...]]()
        for axis in _axes(operator, symbol, call):
            if axis.tensor in call.inputs:
                values = arrays.get(axis.tensor, _values(call, axis.tensor))
                arrays[axis.tensor] = axis.without(values, start, stop)
            else:
                dims[axis.tensor] = axis.resized(dims.get(axis.tensor, call.tensor(axis.tensor).dims), stop - start)
        for name, column in (named_by or {}).items():
            if call.inputs[name] is None:
                continue
            values, places = arrays.get(name, call.array(name)).copy(), ... if column is None else (..., column)
            own = values[places]
            if operator.input(name).distinct and ((own >= start) & (own < stop)).any():
                return None
            values[places] = renumbered(own, start, stop)
            arrays[name] = values
        params = operator.params_along(symbol, size(call) - (stop - start), call.params or {})
        return changed(call, arrays, params, dims)

    return Reduction(size, without)


def changed(
    call: OpCall,
    inputs: Mapping[str, Array] | None = None,
    params: Mapping[str, Any] | None = None,
    outputs: Mapping[str, tuple[int, ...]] | None = None,
    *,
    derived: tuple[str, ...] = (),
) -> RecipeOutput:
    """The call with other inputs, parameters and output dims; the reference finds the dims of `derived` ones."""
    dims = {name: call.tensor(name).dims for name in call.outputs if name not in derived}
    given: Params = call.params or {}
    return RecipeOutput(
        {**{name: _values(call, name) for name, one in call.inputs.items() if one is not None}, **(inputs or {})},
        {**given, **(params or {})},
        outputs={**dims, **(outputs or {})},
    )


def _values(call: OpCall, name: str) -> Array:
    """The values of an input; of one without elements there may be no buffer."""
    tensor = call.tensor(name)
    return np.empty(tensor.dims, tensor.dtype.storage) if tensor.desc.is_empty else call.array(name)


def without_rows(array: Array, start: int, stop: int, axis: int = 0) -> Array:
    """The array without these places of an axis."""
    return np.delete(array, slice(start, stop), axis)


def renumbered(places: Array, start: int, stop: int) -> Array:
    """Places after some were taken away: those behind move up, the lost ones become the one before, at least 0."""
    return np.select([places >= stop, places >= start], [places - (stop - start), max(start - 1, 0)], places)


class _Axis(Value):
    """An axis that is as long as a symbol, or as a product of factors: their lengths, and which one is the symbol."""

    tensor: str
    number: int
    lengths: tuple[int, ...]
    place: int

    def resized(self, dims: tuple[int, ...], gone: int) -> tuple[int, ...]:
        """The dims where so many places of the symbol are gone."""
        before = self.lengths[self.place]
        return (*dims[: self.number], dims[self.number] // before * (before - gone), *dims[self.number + 1 :])

    def without(self, array: Array, start: int, stop: int) -> Array:
        """The array without these places of the symbol."""
        factors = array.reshape(*array.shape[: self.number], *self.lengths, *array.shape[self.number + 1 :])
        left = without_rows(factors, start, stop, self.number + self.place)
        return left.reshape(self.resized(array.shape, stop - start))


def _axes(operator: Operator, symbol: str, call: OpCall) -> Iterator[_Axis]:
    for spec in operator.tensors:
        if spec.id in operator.optional and call.inputs[spec.id] is None:
            continue
        tensor = call.tensor(spec.id)
        axes = parse_shape(spec.shape).axes(len(tensor.dims), tensor.layout.value, call.params)
        for number, axis in enumerate(axes or ()):
            if symbol in axis.factors:
                sizes = (int(one) if one.isdecimal() else operator.size_of(call, one) for one in axis.factors)
                yield _Axis(spec.id, number, tuple(sizes), axis.factors.index(symbol))
