"""An OpCall from plain arrays: for recipes that ask an operator, for generation and for tests."""

from collections.abc import Iterable, Mapping

import numpy as np

from mluops_gtest.core.call import Handle, OpCall, Params, TensorArg
from mluops_gtest.core.tensor import Array, DType, Layout, TensorDesc

_BY_STORAGE = {
    np.dtype("<f2"): DType.HALF,
    np.dtype("<f4"): DType.FLOAT,
    np.dtype("<f8"): DType.DOUBLE,
    np.dtype("<i4"): DType.INT32,
    np.dtype("<i8"): DType.INT64,
    np.dtype("<c8"): DType.COMPLEX_FLOAT,
}


def dtype_of(array: Array, among: Iterable[DType] = ()) -> DType:
    """The element type that a recipe's array stands for, where it can be `among` these: uint16 may hold bfloat16."""
    return next((dtype for dtype in among if dtype.storage == array.dtype), None) or _BY_STORAGE[array.dtype]


def argument(array: Array, layout: Layout = Layout.ARRAY, dtype: DType | None = None) -> TensorArg:
    """A tensor argument around an array."""
    return TensorArg(TensorDesc(dtype or dtype_of(array), layout, tuple(array.shape)), array)


def call_of(
    operator: str,
    params: Params,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array] | None = None,
    layouts: Mapping[str, Layout] | None = None,
    handle: Handle | None = Handle(),
    dtypes: Mapping[str, DType] | None = None,
) -> OpCall:
    """A call with these buffers, `dtypes` where arrays do not say them; without `outputs` for a reference alone."""
    layouts, dtypes = layouts or {}, dtypes or {}

    def arguments(arrays: Mapping[str, Array]) -> dict[str, TensorArg | None]:
        return {
            name: argument(array, layouts.get(name, Layout.ARRAY), dtypes.get(name)) for name, array in arrays.items()
        }

    return OpCall(operator, dict(params), arguments(inputs), arguments(outputs or {}), handle)
