"""Times: the bootstrap, the noise between runs, few false alarms and few missed changes; two backends compared."""

import math
import random
from collections import Counter

import numpy as np
import pytest

from mluops_gtest.results.statistics import (
    PRIOR_NOISE,
    Pair,
    RunTime,
    TimeVerdict,
    bootstrap_medians,
    compare,
    compare_backends,
    run_time,
    student,
)
from tests.unit.results.synthetic import alarmed, one_slower, synthetic_gate


@pytest.mark.parametrize("count", [5, 6, 31, 200])
def test_drawing_ranks_is_resampling(count):
    rng = np.random.default_rng(1)
    ordered = np.sort(rng.normal(0, 1, count))
    literal = np.median(rng.choice(ordered, (20_000, count)), axis=1)
    drawn = np.concatenate([bootstrap_medians(ordered, seed) for seed in range(20)])
    assert drawn.std() == pytest.approx(literal.std(), rel=0.03)
    for share in (0.05, 0.25, 0.5, 0.75, 0.95):
        assert (drawn <= np.quantile(literal, share)).mean() == pytest.approx(
            (literal <= np.quantile(literal, share)).mean(), abs=0.02
        )


def test_the_error_of_a_median_is_known_and_outliers_do_not_move_it():
    rng = np.random.default_rng(2)
    samples = 1e6 * np.exp(rng.normal(0, 0.05, (300, 101)))
    errors = [run_time(row).error for row in samples]
    medians = [math.log(run_time(row).median_ns) for row in samples]
    assert np.mean(errors) == pytest.approx(np.std(medians), rel=0.1)
    spoiled = samples[0].copy()
    spoiled[:3] = 1e9
    assert run_time(spoiled).median_ns == pytest.approx(run_time(samples[0]).median_ns, rel=0.01)


def test_the_same_samples_give_the_same_figures():
    samples = [1000, 1010, 990, 1005, 1500, 1001]
    assert run_time(samples) == run_time(list(reversed(samples)))
    assert run_time(samples).median_ns == pytest.approx(1003, abs=0.1)
    assert run_time([7] * 9).error == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("tail", "freedom", "value"),
    [
        (0.05, 10, 1.8125),
        (0.025, 5, 2.5706),
        (0.005, 20, 2.8453),
        (1e-4, 30, 4.2340),
        (1e-4, 9, 6.0101),
        (0.025, math.inf, 1.95996),
    ],
)
def test_students_quantiles(tail, freedom, value):
    assert student(tail, freedom) == pytest.approx(value, rel=0.02)


# studies/gate_statistics.py has the full count of gates; here as many as are quick.
GATES = 15


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [{"runs": 1}, {"runs": 3}, {"runs": 1, "shared": True}, {"runs": 1, "samples": 10}],
    ids=["one run", "three runs", "shared shift", "ten samples"],
)
def test_gates_without_a_change_are_quiet(how):
    rng = np.random.default_rng(3)
    assert sum(alarmed(synthetic_gate(rng, np.ones(200), **how)) for _ in range(GATES)) <= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [{"runs": 4, "samples": 300}, {"runs": 1, "shared": True}, {"runs": 1, "shift": 0.015 / math.sqrt(2)}],
    ids=["four runs", "shared shift", "one run, the shift between two runs is 1.5 %"],
)
def test_one_slower_case_of_many_is_named(how):
    rng = np.random.default_rng(4)
    found = [synthetic_gate(rng, one_slower(200), **how).ratios[7] for _ in range(GATES)]
    assert sum(ratio.answer is TimeVerdict.SLOWER for ratio in found) >= 0.8 * GATES
    assert np.median([ratio.ratio for ratio in found]) == pytest.approx(1.10, abs=0.02)
    assert all(ratio.low < ratio.ratio < ratio.high for ratio in found)


def test_one_run_of_a_noisy_build_is_not_enough_for_a_small_change_but_for_a_large_one():
    rng = np.random.default_rng(5)
    assert all(synthetic_gate(rng, one_slower(200, 1.2)).ratios[7].answer is TimeVerdict.SLOWER for _ in range(5))


def test_a_change_that_all_cases_share_is_not_taken_for_noise():
    comparison = synthetic_gate(np.random.default_rng(6), np.full(100, 1.12))
    assert comparison.shift.answer is TimeVerdict.SLOWER
    assert comparison.shift.ratio == pytest.approx(1.12, abs=0.02)
    assert Counter(ratio.answer for ratio in comparison.ratios)[TimeVerdict.SLOWER] > 50


def test_half_of_the_cases_may_change_without_hiding_each_other():
    factors = np.where(np.arange(100) % 2, 1.3, 1.0)
    comparison = synthetic_gate(np.random.default_rng(7), factors)
    assert {ratio.answer for ratio in comparison.ratios[1::2]} == {TimeVerdict.SLOWER}
    assert TimeVerdict.SLOWER not in {ratio.answer for ratio in comparison.ratios[::2]}
    assert comparison.noise == pytest.approx(PRIOR_NOISE, rel=0.5)


def test_faster_is_slower_the_other_way_round():
    now, before = RunTime(1.0e6, 0.002, 100), RunTime(1.5e6, 0.002, 100)
    (faster,) = compare([Pair((before,), now)]).ratios
    (slower,) = compare([Pair((now,), before)]).ratios
    assert (faster.answer, slower.answer) == (TimeVerdict.FASTER, TimeVerdict.SLOWER)
    assert faster.ratio == pytest.approx(1 / slower.ratio)
    assert faster.high == pytest.approx(1 / slower.low)


def times(*medians, error=0.001, samples=100):
    return tuple(RunTime(median * 1e6, error, samples) for median in medians)


def answer(pair, min_effect=0.05):
    return compare([pair], min_effect).ratios[0]


def test_a_change_below_the_minimum_effect_is_none_however_sure():
    pair = Pair(times(*[1.0] * 9), times(1.045)[0])
    assert answer(pair).answer is not TimeVerdict.SLOWER
    assert answer(pair, min_effect=0.01).answer is TimeVerdict.SLOWER
    assert answer(Pair(times(*[1.0] * 9), times(1.2)[0]), min_effect=0.25).answer is not TimeVerdict.SLOWER
    assert answer(Pair(times(*[1.0] * 9), times(1.2)[0])).answer is TimeVerdict.SLOWER


def test_no_change_is_shown_by_samples_and_inconclusive_without():
    assert answer(Pair(times(1.0, 1.0, 1.0), times(1.0)[0])).answer is TimeVerdict.UNCHANGED
    assert answer(Pair(times(1.0, error=0.05), times(1.0, error=0.05)[0])).answer is TimeVerdict.INCONCLUSIVE


def test_the_number_of_samples_that_is_named_would_do():
    few = answer(Pair(times(1.0, error=0.02, samples=20), times(1.0, error=0.02, samples=20)[0]))
    assert few.answer is TimeVerdict.INCONCLUSIVE
    assert few.needed > 20
    error = 0.02 * math.sqrt(20 / few.needed)
    enough = Pair(
        times(1.0, error=error * 0.95, samples=few.needed), times(1.0, error=error * 0.95, samples=few.needed)[0]
    )
    assert answer(enough).answer is TimeVerdict.UNCHANGED
    fewer = Pair(
        times(1.0, error=error * 1.1, samples=few.needed), times(1.0, error=error * 1.1, samples=few.needed)[0]
    )
    assert answer(fewer).answer is TimeVerdict.INCONCLUSIVE


def test_where_runs_differ_too_much_no_number_of_samples_is_named():
    ratio = answer(Pair(times(1.0), times(1.04)[0]))
    assert ratio.answer is TimeVerdict.INCONCLUSIVE
    assert ratio.needed is None


def test_a_case_whose_own_runs_scatter_keeps_its_own_noise():
    steady = [Pair(times(0.99, 1.0, 1.01, 1.0), times(1.0)[0])] * 30
    wild = Pair(times(0.8, 1.25, 0.9, 1.1), times(1.3)[0])
    tame = Pair(times(1.0, 1.0, 1.0, 1.0), times(1.3)[0])
    assert compare([*steady, wild]).ratios[-1].answer is TimeVerdict.INCONCLUSIVE
    assert compare([*steady, tame]).ratios[-1].answer is TimeVerdict.SLOWER


def test_runs_of_one_build_tell_its_noise():
    rng = np.random.default_rng(8)

    def noise(spread):
        runs = np.exp(rng.normal(0, spread, (15, 4)))
        return compare([Pair(times(*row[:3]), times(row[3])[0]) for row in runs]).noise

    assert noise(0.10) > 3 * noise(0.001)
    assert noise(0.001) < PRIOR_NOISE


def test_a_small_shift_that_all_cases_share_is_taken_out():
    rng = np.random.default_rng(9)
    comparison = compare([Pair(times(1.0), times(1.03 * x)[0]) for x in np.exp(rng.normal(0, 0.004, 40))])
    assert comparison.shift.answer is TimeVerdict.UNCHANGED
    assert comparison.shift.ratio == pytest.approx(1.03, abs=0.003)
    assert np.median([ratio.ratio for ratio in comparison.ratios]) == pytest.approx(1.0, abs=0.003)


def test_runs_that_agree_do_not_hide_that_this_one_scatters():
    rng = np.random.default_rng(10)
    now = np.exp(rng.normal(0, 0.04, 60))
    comparison = compare([Pair(times(1.0, 1.001, 0.999), times(x)[0]) for x in now])
    assert comparison.noise > 0.025


def test_the_more_cases_the_more_a_change_has_to_be():
    pair = Pair(times(1.0), times(1.08)[0])
    same = Pair(times(1.0), times(1.0)[0])
    assert compare([pair]).ratios[0].answer is TimeVerdict.SLOWER
    assert compare([pair, *[same] * 18]).ratios[0].answer is TimeVerdict.INCONCLUSIVE


def draw_times(draw, count, scale=1.0):
    """Log-normal with 5 %, and now and then a sample three times as long."""
    one = [1e5 * scale * math.exp(draw.gauss(0, 0.05)) for _ in range(count)]
    return [round(ns * 3) if draw.random() < 0.02 else round(ns) for ns in one]


@pytest.mark.slow
@pytest.mark.parametrize("count", [10, 40])
def test_equal_backends_are_seldom_told_apart(count):
    draw = random.Random(count)
    answers = [
        [compare_backends(draw_times(draw, count), draw_times(draw, count), 30).answer for _ in range(30)]
        for _ in range(50)
    ]
    alarms = sum(set(bench) != {TimeVerdict.INCONCLUSIVE} for bench in answers)
    assert alarms <= 5


@pytest.mark.parametrize(("scale", "answer"), [(1.1, TimeVerdict.SLOWER), (0.9, TimeVerdict.FASTER)])
def test_ten_percent_are_found_with_enough_samples(scale, answer):
    draw = random.Random(7)
    found = sum(
        compare_backends(draw_times(draw, 60), draw_times(draw, 60, scale), 30).answer is answer for _ in range(100)
    )
    assert found >= 90


def test_what_is_sure_but_small_is_no_answer():
    said = compare_backends([100_000, 100_001] * 50, [103_000, 103_001] * 50)
    assert said.answer is TimeVerdict.INCONCLUSIVE
    assert said.remark == "they differ by less than 5%"
    assert said.low <= said.ratio <= said.high


def test_the_number_of_samples_that_it_names_would_do():
    draw = random.Random(3)
    said = compare_backends(draw_times(draw, 8), draw_times(draw, 8, 1.12), 30)
    assert said.answer is TimeVerdict.INCONCLUSIVE
    needed = int(said.remark.split()[1])
    assert 8 < needed < 200
    pairs = [(draw_times(draw, 2 * needed), draw_times(draw, 2 * needed, 1.12)) for _ in range(50)]
    assert sum(compare_backends(*pair, 30).answer is TimeVerdict.SLOWER for pair in pairs) >= 45


def test_a_number_that_nobody_takes_is_not_named():
    noisy = [90_000, 100_000, 110_000] * 10
    said = compare_backends(noisy, [round(ns * 1.04999) for ns in noisy])
    assert said.remark == "too close to 5% to tell"


def test_calls_that_may_be_overhead_alone_are_neither_faster_nor_slower():
    first, second = [100_000] * 20, [200_000] * 20
    said = compare_backends(first, second, overhead_ns=21_000)
    assert said.answer is TimeVerdict.TOO_SHORT
    assert said.remark.startswith("the call takes 200 µs, an empty one 21 µs; from 210 µs on it can be judged")
    assert compare_backends(first, second, overhead_ns=20_000).answer is TimeVerdict.SLOWER
    assert compare_backends(first, second).answer is TimeVerdict.SLOWER
