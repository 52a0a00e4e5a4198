"""Filters of convolutions: which axis carries what in every layout, and the same weights in all of them."""

import math
from typing import Final, NamedTuple

import numpy as np

from mluops_gtest.core.call import OpCall, SizedAxis
from mluops_gtest.core.tensor import Array, Layout, TensorDesc

# N counts output channels, C input channels, D, H and W are the kernel's own axes.
_KERNEL_AXES: Final = "DHW"
# ARRAY gives no names to its axes: they are [Kd,]Kh,Kw,Ci,Co.
_ARRAY_AXES: Final = "DHWCN"


class Extents(NamedTuple):
    """Kernel offsets K, input channels Ci and output channels Co of a filter."""

    offsets: int
    channels_in: int
    channels_out: int


def axis_letters(layout: Layout, rank: int) -> str:
    """One letter per axis of a filter of that rank; their number differs from `rank` where the two do not fit."""
    return _ARRAY_AXES[-rank:] if layout is Layout.ARRAY else layout.value


def extents(filters: TensorDesc) -> Extents:
    """K, Ci and Co of a filter whose layout fits its rank."""
    lengths = dict(zip(axis_letters(filters.layout, len(filters.dims)), filters.dims, strict=True))
    return Extents(math.prod(lengths.get(axis, 1) for axis in _KERNEL_AXES), lengths["C"], lengths["N"])


def weights_by_offset(filters: Array, layout: Layout) -> Array:
    """The weights as [K, Ci, Co], whatever the layout."""
    letters = axis_letters(layout, filters.ndim)
    canonical = filters.transpose([letters.index(axis) for axis in _ARRAY_AXES[-filters.ndim :]])
    return canonical.reshape(-1, *canonical.shape[-2:])


def without_offset(filters: Array, layout: Layout, index: int) -> Array:
    """The filter with weights of 0 at that kernel offset."""
    letters = axis_letters(layout, filters.ndim)
    kernel = [axis for axis in _KERNEL_AXES if axis in letters]
    others = filters.copy()
    by_kernel = np.moveaxis(others, [letters.index(axis) for axis in kernel], range(len(kernel)))
    by_kernel[np.unravel_index(index, by_kernel.shape[: len(kernel)])] = 0
    return others


def offsets_size() -> SizedAxis:
    """For `sizes`: the kernel offsets. A kernel that loses one sees weights of 0 there."""

    def without(call: OpCall, index: int) -> dict[str, Array]:
        filters = call.tensor("filters")
        return {"filters": without_offset(call.array("filters"), filters.layout, index)}

    return SizedAxis("indice_pairs", 0, without=without)


def laid_out(weights: Array, kernel: tuple[int, ...], layout: Layout) -> Array:
    """The filter tensor of weights [K, Ci, Co] in that layout; `kernel` is (Kh, Kw) or (Kd, Kh, Kw)."""
    canonical = weights.reshape(*kernel, *weights.shape[1:])
    letters = axis_letters(layout, canonical.ndim)
    if len(letters) != canonical.ndim:
        raise ValueError(f"layout {layout.value} has {len(letters)} axes, kernel {kernel} makes {canonical.ndim}")
    return canonical.transpose([_ARRAY_AXES[-canonical.ndim :].index(axis) for axis in letters]).copy()
