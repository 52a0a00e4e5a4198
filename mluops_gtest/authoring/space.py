"""What fuzzing may draw, for `space.py` of an operator."""

from mluops_gtest.model.space import Choice, Drawn, InStep, Sizes, Space

__all__ = ["Choice", "Drawn", "InStep", "Sizes", "Space"]
