"""The accuracy criteria: arrays in, figures out, and the verdict on one figure."""

from mluops_gtest.criteria.comparison import Comparison, compare, judge, judge_finite
from mluops_gtest.criteria.tolerance import allowed_error, beyond_tolerance, count_beyond, worst_elements

__all__ = [
    "Comparison",
    "allowed_error",
    "beyond_tolerance",
    "compare",
    "count_beyond",
    "judge",
    "judge_finite",
    "worst_elements",
]
