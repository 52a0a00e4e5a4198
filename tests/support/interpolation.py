"""For the tests of both interpolations: their calls, and the dense matrix that they multiply with or its transpose."""

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, OpCall, Operator
from mluops_gtest.judging.elementwise import element_errors
from tests.support.operator_calls import OPERATORS, poisoned_call

FORWARD, BACKWARD = OPERATORS["three_interpolate_forward"], OPERATORS["three_interpolate_backward"]


def call_for(operator: Operator, fed: Array, indices: Array, weights: Array, cells: int = 0) -> OpCall:
    """A call whose output holds poison; `fed` are features, or else gradients, of `cells` cells."""
    inputs = dict(zip((spec.id for spec in operator.inputs), (fed, indices, weights), strict=True))
    length = indices.shape[1] if operator is FORWARD else cells
    return poisoned_call(operator, {}, inputs, {operator.outputs[0].id: (*fed.shape[:2], length)})


def make_call(
    operator: Operator,
    recipe: str,
    shape: tuple[int, int, int, int],
    dtype: DType = DType.FLOAT,
    seed: int = 1,
    **args: object,
) -> OpCall:
    """The call of a recipe; the shape is B, C, M, N."""
    made = operator.recipes[recipe](Draw(seed), {}, dtype, shape=shape, **args)
    return call_for(operator, *made.inputs.values(), cells=shape[2])


def output_of(call: OpCall) -> Array:
    """What the call has written."""
    (name,) = call.outputs
    return call.array(name)


def by_reference(operator: Operator, call: OpCall) -> Array:
    return operator.reference(call).outputs[operator.outputs[0].id]


def by_matrix(operator: Operator, call: OpCall, *, magnitudes: bool = False) -> Array:
    """features · Sᵀ or gradients · S in float64; the dense S[b, n, m] sums the weights of repeated cells."""
    fed, indices, weights = (call.array(name) for name in call.inputs)
    fed, weights = fed.astype(np.float64), weights.astype(np.float64)
    if magnitudes:
        fed, weights = np.abs(fed), np.abs(weights)
    batches, points, _ = indices.shape
    matrix = np.zeros((batches, points, fed.shape[2] if operator is FORWARD else output_of(call).shape[2]))
    b, n, _ = np.ogrid[:batches, :points, :3]
    np.add.at(matrix, (b, n, indices), weights)
    return np.einsum("bcm,bnm->bcn" if operator is FORWARD else "bcn,bnm->bcm", fed, matrix, optimize=True)


def outliers(operator: Operator, call: OpCall, expected: Array) -> int:
    """How many elements are farther off than any order of float32 operations brings them."""
    ((name, result),) = call.outputs.items()
    return element_errors(result.array, expected, result.dtype, operator.bound(call)[name]).beyond
