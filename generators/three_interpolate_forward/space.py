"""What fuzzing draws."""

from typing import get_args

from .._shared.interpolation import interpolation_space
from .special import Kind

# A device may take subnormal operands for 0.
SPACE = interpolation_space(special=tuple(kind for kind in get_args(Kind) if kind != "subnormal"))
