"""What fuzzing may draw, for `space.py` of an operator."""

from mluops_gtest.model.space import Choice, Drawn, Sizes, Space

__all__ = ["Choice", "Drawn", "Sizes", "Space"]
