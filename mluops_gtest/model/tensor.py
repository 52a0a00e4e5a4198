"""Descriptors and tensors: what is known of a buffer, and the buffer's values."""

import math
from typing import Final

from msgspec.structs import replace

from mluops_gtest.model.dtypes import Array, DType, Layout
from mluops_gtest.value import Value

# A tensor of this many elements or more is "large": every operator answers NOT_SUPPORTED.
LARGE_ELEMENTS: Final = 2**31


class TensorDesc(Value):
    """Element type, layout, dims and (where given) strides, counted in elements."""

    dtype: DType
    layout: Layout
    dims: tuple[int, ...]
    strides: tuple[int, ...] | None = None

    @property
    def count(self) -> int:
        """Number of elements, an exact integer however large."""
        return math.prod(self.dims)

    @property
    def is_empty(self) -> bool:
        """Some axis has length zero."""
        return 0 in self.dims

    @property
    def is_large(self) -> bool:
        """2^31 elements or more."""
        return math.prod(self.dims) >= LARGE_ELEMENTS

    @property
    def is_strided(self) -> bool:
        """Some axis of a length other than 1 has another stride than in a contiguous tensor; never so when empty."""
        if self.strides is None or self.is_empty:
            return False
        dense = contiguous(self.dims)
        # The stride of an axis of length 1 is never taken, so it may be any number.
        return any(d != 1 and s != c for d, s, c in zip(self.dims, self.strides, dense, strict=True))

    @property
    def extent(self) -> int:
        """Elements from the first to the last that the descriptor reaches."""
        if self.strides is None or 0 in self.dims:
            return math.prod(self.dims)
        return 1 + sum((d - 1) * s for d, s in zip(self.dims, self.strides, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer behind the descriptor."""
        return self.extent * self.dtype.itemsize

    def view(self, flat: Array) -> Array:
        """The tensor's elements in `flat`, a buffer of `extent` elements, as an array of shape `dims`."""
        if self.strides is None or not self.is_strided:
            return flat.reshape(self.dims)
        from numpy.lib.stride_tricks import as_strided  # late, as all of numpy in the model

        size = flat.itemsize
        # numpy would multiply also the stride that is never taken, and overflow.
        steps = tuple(s * size if d > 1 else 0 for d, s in zip(self.dims, self.strides, strict=True))
        return as_strided(flat, self.dims, steps)

    def resized(self, dims: tuple[int, ...]) -> "TensorDesc":
        """The same type and layout with other dims, contiguous."""
        return replace(self, dims=dims, strides=None)


def contiguous(dims: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a dense row-major tensor."""
    strides = []
    step = 1
    for dim in reversed(dims):
        strides.append(step)
        step *= dim
    return tuple(reversed(strides))


class Tensor(Value):
    """A named descriptor with its values: a flat array of `extent` storage elements, or None."""

    id: str
    desc: TensorDesc
    data: Array | None = None

    def holding(self, array: Array) -> "Tensor":
        """The tensor with these values, an array of shape `dims`, laid out as its descriptor says; 0 between them."""
        import numpy as np

        if not self.desc.is_strided:
            return replace(self, data=np.ascontiguousarray(array, self.desc.dtype.storage).reshape(-1))
        data = np.zeros(self.desc.extent, self.desc.dtype.storage)
        self.desc.view(data)[...] = array
        return replace(self, data=data)

    @property
    def values(self) -> Array:
        """The elements as an array of shape `dims`; only for a tensor that has data."""
        if self.data is None:
            raise ValueError(f"tensor {self.id!r} carries no values")
        return self.desc.view(self.data)
