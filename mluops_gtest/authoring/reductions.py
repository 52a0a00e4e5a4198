"""How calls become smaller, for `reductions.py` of an operator."""

from mluops_gtest.model.reduction import Reduction

__all__ = ["Reduction"]
