"""What fuzzing draws."""

from typing import get_args

from .._shared.convolution_space import convolution_space, filter_letters
from .._shared.products import Values
from .recipes import LayoutName

SPACE = convolution_space(
    values=get_args(Values),
    layouts=get_args(LayoutName),
    unmet=True,
    letters=filter_letters,
)
