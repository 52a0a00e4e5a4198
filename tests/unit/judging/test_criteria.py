"""Verdicts on single figures, elements that are too far off by themselves, and the documented order of sums."""

import math

import numpy as np
import pytest

from mluops_gtest.base.errors import ContentError
from mluops_gtest.core.tensor import Array, Criterion, CriterionKind, DType, diff1_and_diff2, exact
from mluops_gtest.judging.blocks import BLOCK, CELL, LANES, SHARED_FROM, cell_sums, sums, total
from mluops_gtest.judging.criteria import Comparison, allowed_error, compare, count_beyond, judge, worst_elements
from tests.support.native_core import NATIVE, NUMPY, going


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


def test_nothing_compared_is_not_judged_nor_is_a_criterion_without_a_formula() -> None:
    assert judge(CriterionKind.DIFF3, 0.0, 0.0, comparison(count=0, moved=0)) is None
    with pytest.raises(ContentError, match="NRMSE has no formula"):
        judge(CriterionKind.NRMSE, 0.0, 1.0, comparison())


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


@pytest.mark.parametrize(
    ("evaluated", "baseline", "dtype", "threshold"),
    [
        pytest.param([1, 1, 1.1, 1e-7], [1, 1, 1, 0], DType.FLOAT, 3e-3, id="a rounding error beside zero is within"),
        pytest.param([0, 1e-9], [0, 0], DType.FLOAT, 3e-3, id="a baseline of zeros has no tolerance"),
        pytest.param([0x3F80, 0x4040], [0x3F80, 0x4000], DType.BFLOAT16, 0.1, id="bfloat16 is seen as numbers"),
    ],
)
def test_one_element_is_beyond_tolerance(evaluated, baseline, dtype, threshold):
    assert count_beyond(*(np.array(side, dtype.storage) for side in (evaluated, baseline)), dtype, threshold) == 1


def test_a_complex_element_counts_once():
    baseline = np.array([1 + 1j, 2 + 2j], "<c8")
    evaluated = np.array([3 + 3j, 2 + 2j], "<c8")
    assert count_beyond(evaluated, baseline, DType.COMPLEX_FLOAT, 3e-3) == 1
    (worst,) = worst_elements(evaluated, baseline, DType.COMPLEX_FLOAT, 5)
    assert (worst.flat, worst.error) == (0, 2.0)


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
    # Where nothing was written every relative error is 1: the larger error comes first.
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


def numbers(count: int) -> list[float]:
    words = np.random.Philox(key=count).random_raw(count)
    return ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53).tolist()


def in_documented_order(cell: list[float]) -> float:
    lanes = [0.0] * 256
    for place, number in enumerate(cell):
        lanes[place % 256] += number
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [lanes[i] + lanes[half + i] for i in range(half)]
    return lanes[0]


@pytest.mark.parametrize("count", [1, LANES, LANES + 1, 5 * LANES + 3, CELL - 1, CELL, CELL + 1, 3 * CELL + 700])
def test_cells_are_added_in_lanes_and_lanes_in_halves(count: int) -> None:
    x = numbers(count)
    cells = [x[start : start + 32768] for start in range(0, count, 32768)]
    assert cell_sums(np.array([x, x])) == [list(map(in_documented_order, cells))] * 2
    squares = [in_documented_order([number * number for number in cell]) for cell in cells]
    assert sums(np.array([x, x]), 1) == [(list(map(in_documented_order, cells)), squares)]


@pytest.mark.parametrize("way", [NUMPY, NATIVE])
def test_diff1_and_diff2_are_quotients_of_such_sums(way: str) -> None:
    count = CELL + 3 * LANES + 5
    e, b = np.array(numbers(count)), np.array(numbers(count)[::-1])
    cells = [slice(start, start + CELL) for start in range(0, count, CELL)]
    difference = [in_documented_order(np.abs(e - b)[cell].tolist()) for cell in cells]
    weight = [in_documented_order((b * b)[cell].tolist()) for cell in cells]
    squared = [in_documented_order(((e - b) * (e - b))[cell].tolist()) for cell in cells]
    with going(way):
        found = compare(e, b, DType.DOUBLE, (CriterionKind.DIFF1, CriterionKind.DIFF2)).readings
    plain = [in_documented_order(b[cell].tolist()) for cell in cells]
    assert found[CriterionKind.DIFF1] == total(difference) / (total(plain) + 1e-9)
    assert found[CriterionKind.DIFF2] == (total(squared) / (total(weight) + 1e-9)) ** 0.5
