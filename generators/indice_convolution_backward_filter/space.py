"""What fuzzing draws."""

import math
from typing import get_args

from mluops_gtest.authoring import OpCall
from mluops_gtest.authoring.convolution_space import convolution_space
from mluops_gtest.authoring.factors import Values

from .nonfinite import Kind


def offsets(call: OpCall) -> int | None:
    """K of filters_grad; None where it has no such axes."""
    grad = call.outputs["filters_grad"]
    return None if grad is None or len(grad.dims) < 3 else math.prod(grad.dims[:-2])


SPACE = convolution_space(
    values=(*get_args(Values), "huge"), special=get_args(Kind), kernels=((3, 3), (1, 1), (2, 1)), offsets=offsets
)
