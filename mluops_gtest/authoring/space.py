"""What fuzzing may draw, for `space.py` of an operator."""

from mluops_gtest.core.call import Choice, Drawn, InStep, Sizes, Space

__all__ = ["Choice", "Drawn", "InStep", "Sizes", "Space"]
