"""What fuzzing draws."""

from typing import get_args

from mluops_gtest.authoring.interpolation_space import interpolation_space

from .special import Kind

SPACE = interpolation_space(special=get_args(Kind))
