"""An OpCall from plain arrays: for recipes that ask an operator, for generation and for tests."""

from collections.abc import Mapping

import numpy as np

from mluops_gtest.core.call import Handle, OpCall, Params, TensorArg
from mluops_gtest.core.tensor import Array, DType, Layout, TensorDesc

_BY_STORAGE = {
    np.dtype("<f2"): DType.HALF,
    np.dtype("<f4"): DType.FLOAT,
    np.dtype("<f8"): DType.DOUBLE,
    np.dtype("<i4"): DType.INT32,
    np.dtype("<i8"): DType.INT64,
}


def dtype_of(array: Array) -> DType:
    """The element type that a recipe's array stands for."""
    return _BY_STORAGE[array.dtype]


def argument(array: Array, layout: Layout = Layout.ARRAY) -> TensorArg:
    """A tensor argument around an array."""
    return TensorArg(TensorDesc(dtype_of(array), layout, tuple(array.shape)), array)


def call_of(
    operator: str,
    params: Params,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array] | None = None,
    layouts: Mapping[str, Layout] | None = None,
    handle: Handle | None = Handle(),
) -> OpCall:
    """A call with these buffers; without `outputs` one that only a reference can answer."""
    layouts = layouts or {}
    return OpCall(
        operator,
        dict(params),
        {name: argument(array, layouts.get(name, Layout.ARRAY)) for name, array in inputs.items()},
        {name: argument(array, layouts.get(name, Layout.ARRAY)) for name, array in (outputs or {}).items()},
        handle,
    )
