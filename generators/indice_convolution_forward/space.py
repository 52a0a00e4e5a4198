"""What fuzzing draws."""

from typing import get_args

from mluops_gtest.authoring import OpCall
from mluops_gtest.authoring.convolution_space import convolution_space
from mluops_gtest.authoring.factors import Values
from mluops_gtest.authoring.filters import extents

from .nonfinite import Kind
from .recipes import LayoutName


def offsets(call: OpCall) -> int | None:
    """Kd·Kh·Kw; None where filters has no such axes."""
    filters = call.inputs["filters"]
    return None if filters is None or len(filters.dims) != 5 else extents(filters.desc).offsets


SPACE = convolution_space(
    values=get_args(Values), special=get_args(Kind), layouts=get_args(LayoutName), unmet=True, offsets=offsets
)
