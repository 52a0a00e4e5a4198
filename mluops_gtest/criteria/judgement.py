"""Whether a measured value is within its threshold."""

from typing import Final

from mluops_gtest.criteria.comparison import Comparison, require_formula
from mluops_gtest.model.criterion import CriterionKind

# Statistics of fewer say nothing: distinct unequal pairs for diff4, elements for diff_kl.
PAIRS_FOR_DIFF4: Final = 100
ELEMENTS_FOR_DIFF_KL: Final = 1000


def judge(kind: CriterionKind, value: float, threshold: float, comparison: Comparison) -> bool | None:
    """True within, False beyond, None not judged (too few elements); equality is within, NaN beyond.

    A non-finite mismatch and a differing integer fail whatever the threshold. diff4 has none of its own: it fails
    at exactly 0 and 1, where every difference goes the same way.
    """
    if comparison.nonfinite_mismatches:
        require_formula(kind)
        return False
    return judge_finite(kind, value, threshold, comparison)


def judge_finite(kind: CriterionKind, value: float, threshold: float, comparison: Comparison) -> bool | None:
    """As `judge`, for the finite positions alone: those that the value was measured on."""
    kind = require_formula(kind)
    if comparison.compared == 0:
        return None
    if comparison.exact:
        return comparison.unequal == 0
    if kind is CriterionKind.DIFF4:
        return 0.0 < value < 1.0 if comparison.pairs >= PAIRS_FOR_DIFF4 else None
    if kind is CriterionKind.DIFF_KL and comparison.compared < ELEMENTS_FOR_DIFF_KL:
        return None
    return value <= threshold
