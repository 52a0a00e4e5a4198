"""The accuracy criteria: arrays in, figures out, and the verdict on one figure."""

from mluops_gtest.criteria.comparison import Comparison, compare
from mluops_gtest.criteria.judgement import judge, judge_finite

__all__ = ["Comparison", "compare", "judge", "judge_finite"]
