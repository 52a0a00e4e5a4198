"""Smaller calls that compute nothing: they have no values to keep, only dims, types, parameters and null pointers."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from mluops_gtest.minimise.plain_values import plainer_caller, plainer_params
from mluops_gtest.model.case import Case
from mluops_gtest.model.operator import Operator, OutputSpec, TensorSpec
from mluops_gtest.model.tensor import Tensor, TensorDesc


def with_usual_criteria(case: Case, operator: Operator) -> Case:
    """The case with criteria for every output, whatever its type: nobody uses them, but a file has one list for all."""
    specs = (operator.output(tensor.id) for tensor in case.outputs)
    criteria = (spec.criteria.get(tensor.desc.dtype) for spec, tensor in zip(specs, case.outputs, strict=True))
    usual = (next(iter(operator.output(tensor.id).criteria.values())) for tensor in case.outputs)
    return replace(case, criteria=tuple(own or other for own, other in zip(criteria, usual, strict=True)))


def without_values(case: Case) -> Case:
    """The call without input values: nobody reads them."""
    return _with_tensors(case, {tensor.id: tensor.desc for tensor in case.tensors})


def simpler(case: Case, operator: Operator) -> Iterator[Case]:
    """The call without one of the things that are odd about it, so that a second mistake goes first."""
    for expect in plainer_caller(case):
        yield replace(case, expect=expect)
    for spec in operator.tensors:
        tensor = case.tensor(spec.id)
        for desc in _usual(tensor.desc, spec):
            yield _with_tensors(case, {spec.id: desc})
    for made in plainer_params(replace(case, inputs=(), outputs=()), operator):
        yield replace(case, params=dict(made.params))


def _usual(desc: TensorDesc, spec: TensorSpec | OutputSpec) -> Iterator[TensorDesc]:
    """The descriptor with its usual strides, layout or type."""
    if desc.strides is not None:
        yield replace(desc, strides=None)
    if desc.layout not in spec.layouts:
        yield replace(desc, layout=spec.layouts[0])
    for dtype in spec.dtypes:
        if desc.dtype not in spec.dtypes:
            yield replace(desc, dtype=dtype)


def smaller(case: Case, operator: Operator) -> Iterator[Case]:
    """The call with a length made smaller: everywhere where the number stands, then on one axis of one tensor.

    A number that stands on several axes and in parameters is one length of the operator; where it is not, the checks
    do not answer as before.
    """
    lengths = sorted({length for tensor in case.tensors for length in tensor.desc.dims if length > 1}, reverse=True)
    for length in lengths:
        for shorter in _shorter(length):
            yield _with_length(case, operator, length, shorter)
    for tensor in case.tensors:
        for axis, length in enumerate(tensor.desc.dims):
            for shorter in _shorter(length):
                dims = (*tensor.desc.dims[:axis], shorter, *tensor.desc.dims[axis + 1 :])
                yield _with_tensors(case, {tensor.id: _resized(tensor.desc, dims)})


def _shorter(length: int) -> Iterator[int]:
    """1, then what is between: half, a quarter less, one less."""
    yield from dict.fromkeys(n for n in (1, 2, length // 2, length - length // 4, length - 1) if 0 < n < length)


def _with_length(case: Case, operator: Operator, length: int, shorter: int) -> Case:
    def swapped(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(swapped, value))
        return shorter if type(value) is int and value == length else value

    resized = {tensor.id: _resized(tensor.desc, swapped(tensor.desc.dims)) for tensor in case.tensors}
    params = {name: value if name in operator.results else swapped(value) for name, value in case.params.items()}
    return replace(_with_tensors(case, resized), params=params)


def _resized(desc: TensorDesc, dims: tuple[int, ...]) -> TensorDesc:
    return desc if dims == desc.dims else replace(desc, dims=dims)


def _with_tensors(case: Case, descs: Mapping[str, TensorDesc]) -> Case:
    def bare(tensor: Tensor) -> Tensor:
        if tensor.id not in descs:
            return tensor
        desc = descs[tensor.id]
        return Tensor(tensor.id, desc, np.empty(0, desc.dtype.storage) if desc.is_empty else None)

    return replace(
        case,
        inputs=tuple(map(bare, case.inputs)),
        outputs=tuple(map(bare, case.outputs)),
        path=None,
        notes=(),
        theory={},
    )
