"""The verdict on one figure: limits, too few elements, and what fails whatever the threshold."""

import math

import numpy as np
import pytest

from mluops_gtest.base.errors import ContentError
from mluops_gtest.core.tensor import Array, CriterionKind, DType
from mluops_gtest.judging.criteria import Comparison, compare, judge


def comparison(count: int = 10, moved: int = 1, pairs: int = 0) -> Comparison:
    """`count` float elements, `moved` of which differ; distinct pairs as told."""
    baseline = np.ones(count, np.float32)
    evaluated = baseline.copy()
    evaluated[:moved] += np.arange(1, moved + 1, dtype=np.float32)
    found = compare(evaluated, baseline, DType.FLOAT, (CriterionKind.DIFF4,))
    assert pairs in (0, found.pairs)
    return found


@pytest.mark.parametrize("kind", [CriterionKind.DIFF1, CriterionKind.DIFF2, CriterionKind.DIFF3, CriterionKind.MAPE])
def test_equality_is_within_and_the_next_number_is_not(kind: CriterionKind) -> None:
    found = comparison()
    assert judge(kind, 3e-3, 3e-3, found) is True
    assert judge(kind, math.nextafter(3e-3, 1), 3e-3, found) is False
    assert judge(kind, 0.0, 0.0, found) is True


def test_nan_is_never_within() -> None:
    for kind in (CriterionKind.DIFF1, CriterionKind.DIFF_KL):
        assert judge(kind, math.nan, math.inf, comparison(count=2000)) is False
        assert judge(kind, 0.0, math.nan, comparison(count=2000)) is False
    assert judge(CriterionKind.DIFF4, math.nan, 1.0, comparison(count=200, moved=100, pairs=100)) is False


@pytest.mark.parametrize(("pairs", "judged"), [(99, False), (100, True)])
def test_diff4_is_judged_from_100_pairs_on(pairs: int, judged: bool) -> None:
    found = comparison(count=200, moved=pairs, pairs=pairs)
    assert judge(CriterionKind.DIFF4, 0.5, 0.0, found) is (True if judged else None)
    for one_sided in (0.0, 1.0):
        assert judge(CriterionKind.DIFF4, one_sided, 1.0, found) is (False if judged else None)


@pytest.mark.parametrize(("count", "verdict"), [(999, None), (1000, False)])
def test_diff_kl_is_judged_from_1000_elements_on(count: int, verdict: bool | None) -> None:
    assert judge(CriterionKind.DIFF_KL, 0.2, 0.1, comparison(count)) is verdict


@pytest.mark.parametrize("kind", [kind for kind in CriterionKind if kind.has_formula], ids=lambda kind: kind.value)
def test_a_nonfinite_mismatch_fails_whatever_the_threshold(kind: CriterionKind) -> None:
    baseline = np.ones(5, np.float32)
    evaluated = baseline.copy()
    evaluated[3] = np.inf
    assert judge(kind, 0.0, math.inf, compare(evaluated, baseline, DType.FLOAT, (kind,))) is False


@pytest.mark.parametrize("kind", [kind for kind in CriterionKind if kind.has_formula], ids=lambda kind: kind.value)
def test_integers_are_exact_whatever_the_criterion(kind: CriterionKind) -> None:
    def verdict(evaluated: Array) -> bool | None:
        found = compare(evaluated, baseline, DType.INT32, (kind,))
        return judge(kind, found.readings[kind.canonical], 100.0, found)

    baseline = np.arange(50, dtype=np.int32)
    assert verdict(baseline.copy()) is True
    assert verdict(baseline + np.int32(baseline == 7)) is False


def test_nothing_compared_is_not_judged() -> None:
    empty = np.empty(0, np.float32)
    found = compare(empty, empty, DType.FLOAT, (CriterionKind.DIFF3,))
    assert judge(CriterionKind.DIFF3, 0.0, 0.0, found) is None


def test_a_criterion_without_a_formula_is_an_error() -> None:
    with pytest.raises(ContentError, match="NRMSE has no formula"):
        judge(CriterionKind.NRMSE, 0.0, 1.0, comparison())
