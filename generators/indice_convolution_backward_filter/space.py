"""What fuzzing draws."""

from typing import get_args

from mluops_gtest.authoring import TensorArg

from .._shared.convolution_space import convolution_space
from .._shared.products import Values


def letters(grad: TensorArg) -> str:
    """Ci and Co are the last two axes, whatever the layout; none where no axis is left for the kernel."""
    kernel = len(grad.dims) - 2
    return "K" * kernel + "CN" if kernel > 0 else ""


SPACE = convolution_space(
    values=(*get_args(Values), "huge"),
    kernels=((3, 3), (1, 1), (2, 1)),
    filters="filters_grad",
    letters=letters,
)
