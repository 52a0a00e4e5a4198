"""For the tests of the three sparse convolutions: calls of their recipes, and what is right for them."""

import math
from collections.abc import Mapping

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Layout, OpCall, Operator, Status, call_of
from mluops_gtest.judging.elementwise import element_errors
from tests.support.operator_calls import by_definition, poisoned_call


def make_call(
    operator: Operator, recipe: str, dtype: DType = DType.FLOAT, seed: int = 0, params: Mapping | None = None, **args
) -> OpCall:
    """The call of a recipe's case; the output holds poison."""
    made = operator.recipes[recipe](Draw(seed), params or {}, dtype, **args)
    return call_with(operator, made.params, made.inputs, made.layouts, made.outputs.get(operator.outputs[0].id))


def call_with(
    operator: Operator,
    params: Mapping[str, object],
    inputs: Mapping[str, Array],
    layouts: Mapping[str, Layout] | None = None,
    dims: tuple[int, ...] | None = None,
) -> OpCall:
    """A call whose output holds poison and has the dims that follow from the rest, unless they are given."""
    name = operator.outputs[0].id
    if dims is None:
        dims = operator.reference(call_of(operator.name, params, inputs, {}, layouts)).outputs[name].shape
    return poisoned_call(operator, params, inputs, {name: dims}, layouts or {})


def definition_of(operator: Operator, call: OpCall) -> Array:
    """The output by its literal definition: one product after the other, added exactly."""
    return by_definition(operator, call)[operator.outputs[0].id]


def share_of_threshold(operator: Operator, got: Array, wanted: Array) -> float:
    """How much of the criterion an output uses up."""
    dtype = DType.HALF if wanted.dtype == "<f2" else DType.FLOAT
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    diff1 = np.abs(got - wanted).sum() / (np.abs(wanted).sum() + 1e-9)
    diff2 = math.sqrt(np.square(got - wanted).sum() / (np.square(wanted).sum() + 1e-9))
    return max(diff1, diff2) / operator.outputs[0].criteria[dtype][0].threshold


def assert_right(operator: Operator, call: OpCall, wanted: Array | None = None) -> None:
    """The reference gives exactly these bits, the kernel is well within the criterion and every element's bound."""
    wanted = definition_of(operator, call) if wanted is None else wanted
    ((name, result),) = call.outputs.items()
    baseline = operator.reference(call).outputs[name]
    assert baseline.dtype == wanted.dtype
    assert baseline.flags.c_contiguous
    np.testing.assert_array_equal(baseline, wanted)
    assert not np.signbit(baseline[baseline == 0]).any()
    assert operator.kernel(call) is Status.SUCCESS
    assert share_of_threshold(operator, result.array, wanted) < 0.25
    assert element_errors(result.array, wanted, result.dtype, operator.bound(call)[name]).beyond == 0
