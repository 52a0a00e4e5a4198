"""Elements that are too far from their baseline by themselves, against the definition written as a loop."""

import math

import numpy as np
import pytest

from mluops_gtest.core.tensor import Criterion, CriterionKind, DType, diff1_and_diff2, exact
from mluops_gtest.judging.blocks import BLOCK, SHARED_FROM
from mluops_gtest.judging.criteria import allowed_error, count_beyond, worst_elements


def literal(evaluated, baseline, threshold):
    finite = [float(b) for b in baseline if math.isfinite(b)]
    rms = math.sqrt(sum(b * b for b in finite) / len(finite))
    beyond = 0
    for e, b in zip(map(float, evaluated), map(float, baseline), strict=True):
        if math.isfinite(e) and math.isfinite(b):
            beyond += abs(e - b) > threshold * max(abs(b), rms)
        else:
            beyond += not (e == b or (math.isnan(e) and math.isnan(b)))
    return beyond


@pytest.mark.parametrize("threshold", [1e-5, 3e-3, 0.5])
def test_the_count_is_that_of_the_definition(threshold):
    draw = np.random.default_rng(1)
    baseline = draw.standard_normal(500).astype("<f4")
    evaluated = (baseline * (1 + 10.0 ** draw.uniform(-8, 1, 500))).astype("<f4")
    evaluated[::3] = baseline[::3]
    evaluated[7], baseline[8], baseline[9], evaluated[9] = np.nan, np.inf, np.nan, np.nan
    assert 0 < count_beyond(evaluated, baseline, DType.FLOAT, threshold) == literal(evaluated, baseline, threshold)


def test_a_rounding_error_beside_zero_is_within_tolerance():
    baseline = np.array([1, 1, 1, 0], "<f4")
    evaluated = np.array([1, 1, 1.1, 1e-7], "<f4")
    assert count_beyond(evaluated, baseline, DType.FLOAT, 3e-3) == 1


def test_a_baseline_of_zeros_has_no_tolerance():
    assert count_beyond(np.array([0, 1e-9], "<f4"), np.zeros(2, "<f4"), DType.FLOAT, 3e-3) == 1


def test_a_complex_element_counts_once():
    baseline = np.array([1 + 1j, 2 + 2j], "<c8")
    evaluated = np.array([3 + 3j, 2 + 2j], "<c8")
    assert count_beyond(evaluated, baseline, DType.COMPLEX_FLOAT, 3e-3) == 1
    (worst,) = worst_elements(evaluated, baseline, DType.COMPLEX_FLOAT, 5)
    assert (worst.flat, worst.error) == (0, 2.0)


def test_bfloat16_is_seen_as_numbers():
    baseline = np.array([0x3F80, 0x4000], "<u2")
    assert count_beyond(np.array([0x3F80, 0x4040], "<u2"), baseline, DType.BFLOAT16, 0.1) == 1


@pytest.mark.parametrize("size", [BLOCK + 2, SHARED_FROM + 1])
def test_blocks_and_threads_change_nothing(size):
    baseline = np.ones(size, "<f4")
    evaluated = baseline.copy()
    evaluated[[0, BLOCK, size - 1]] = 2, 5, 3
    assert count_beyond(evaluated, baseline, DType.FLOAT, 0.1) == 3
    assert [w.flat for w in worst_elements(evaluated, baseline, DType.FLOAT, 2)] == [BLOCK, size - 1]


def test_the_worst_come_first_and_equal_ones_not_at_all():
    baseline = np.array([100, 1, 0, 50], "<f4")
    evaluated = np.array([101, 1, np.nan, 90], "<f4")
    worst = worst_elements(evaluated, baseline, DType.FLOAT, 10)
    assert [w.flat for w in worst] == [2, 3, 0]
    assert [w.error for w in worst] == [math.inf, 40.0, 1.0]


def test_of_equal_relative_errors_the_larger_error_comes_first():
    """Where nothing was written every relative error is 1."""
    assert [w.flat for w in worst_elements(np.zeros(3, "<f4"), np.array([2, 4, 3], "<f4"), DType.FLOAT, 2)] == [1, 2]


def test_integers_of_64_bits_have_their_true_distance():
    evaluated, baseline = np.array([2**63 - 1, 5], "<i8"), np.array([-(2**63), 5], "<i8")
    assert worst_elements(evaluated, baseline, DType.INT64, 3)[0].error == 2.0**64


@pytest.mark.parametrize(
    ("criteria", "threshold"),
    [
        (diff1_and_diff2(3e-3), 3e-3),
        (exact(), 0.0),
        ((*diff1_and_diff2(3e-3), *exact()), 0.0),
        ((Criterion(CriterionKind.MAPE, 1e-3), Criterion(CriterionKind.DIFF2, 1e-2)), 1e-3),
        ((Criterion(CriterionKind.DIFF4, 0.5),), 0.0),
        ((Criterion(CriterionKind.DIFF1, -1.0),), 0.0),
    ],
)
def test_an_element_is_held_to_the_smallest_relative_threshold(criteria, threshold):
    assert allowed_error(criteria) == threshold
