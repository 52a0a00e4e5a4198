"""What fuzzing draws."""

from typing import get_args

from mluops_gtest.authoring import OpCall
from mluops_gtest.authoring.convolution_space import convolution_space
from mluops_gtest.authoring.factors import Values
from mluops_gtest.authoring.filters import axis_letters, extents

from .nonfinite import Kind
from .recipes import LayoutName


def offsets(call: OpCall) -> int | None:
    """K of filters; None where the layout has no such axes."""
    filters = call.inputs["filters"]
    if filters is None or len(axis_letters(filters.layout, len(filters.dims))) != len(filters.dims):
        return None
    return extents(filters.desc).offsets


SPACE = convolution_space(
    values=get_args(Values),
    special=get_args(Kind),
    layouts=get_args(LayoutName),
    kernels=((3, 3), (1, 1), (2, 1)),
    offsets=offsets,
)
