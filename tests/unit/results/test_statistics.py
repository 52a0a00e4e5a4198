"""Times: medians, their intervals, shares of a device; the noise between runs; few false alarms and missed changes."""

import math
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from mluops_gtest.base.errors import ContentError
from mluops_gtest.core.result import Perf
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
from mluops_gtest.results.times import (
    DeviceSpec,
    device_spec_text,
    duration,
    read_device_spec,
    timed_results,
    timing_stats,
)
from tests.support.reports import report, result
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
    faster, slower = (answer([before], now, error=0.002) for before, now in ((1.5, 1.0), (1.0, 1.5)))
    assert (faster.answer, slower.answer) == (TimeVerdict.FASTER, TimeVerdict.SLOWER)
    assert faster.ratio == pytest.approx(1 / slower.ratio)
    assert faster.high == pytest.approx(1 / slower.low)


def times(*medians, error=0.001, samples=100):
    return tuple(RunTime(median * 1e6, error, samples) for median in medians)


def pair(before, now, **how):
    """Runs of a build with these medians, and one of another build."""
    return Pair(times(*before, **how), *times(now, **how))


def answer(before, now, min_effect=0.05, **how):
    return compare([pair(before, now, **how)], min_effect).ratios[0]


def test_a_change_below_the_minimum_effect_is_none_however_sure():
    before = [1.0] * 9
    assert answer(before, 1.045).answer is not TimeVerdict.SLOWER
    assert answer(before, 1.045, min_effect=0.01).answer is TimeVerdict.SLOWER
    assert answer(before, 1.2, min_effect=0.25).answer is not TimeVerdict.SLOWER
    assert answer(before, 1.2).answer is TimeVerdict.SLOWER


def test_no_change_is_shown_by_samples_and_inconclusive_without():
    assert answer([1.0] * 3, 1.0).answer is TimeVerdict.UNCHANGED
    assert answer([1.0], 1.0, error=0.05).answer is TimeVerdict.INCONCLUSIVE
    # Where runs differ too much no number of samples is named.
    ratio = answer([1.0], 1.04)
    assert (ratio.answer, ratio.needed) == (TimeVerdict.INCONCLUSIVE, None)


def test_the_number_of_samples_that_is_named_would_do():
    few = answer([1.0], 1.0, error=0.02, samples=20)
    assert few.answer is TimeVerdict.INCONCLUSIVE
    assert few.needed > 20
    error = 0.02 * math.sqrt(20 / few.needed)
    for factor, verdict in ((0.95, TimeVerdict.UNCHANGED), (1.1, TimeVerdict.INCONCLUSIVE)):
        assert answer([1.0], 1.0, error=error * factor, samples=few.needed).answer is verdict


def test_a_case_whose_own_runs_scatter_keeps_its_own_noise():
    steady = [pair([0.99, 1.0, 1.01, 1.0], 1.0)] * 30
    for before, verdict in (([0.8, 1.25, 0.9, 1.1], TimeVerdict.INCONCLUSIVE), ([1.0] * 4, TimeVerdict.SLOWER)):
        assert compare([*steady, pair(before, 1.3)]).ratios[-1].answer is verdict


def test_runs_of_one_build_tell_its_noise():
    rng = np.random.default_rng(8)

    def noise(spread):
        runs = np.exp(rng.normal(0, spread, (15, 4)))
        return compare([pair(row[:3], row[3]) for row in runs]).noise

    assert noise(0.10) > 3 * noise(0.001)
    assert noise(0.001) < PRIOR_NOISE


def test_a_small_shift_that_all_cases_share_is_taken_out():
    rng = np.random.default_rng(9)
    comparison = compare([pair([1.0], 1.03 * x) for x in np.exp(rng.normal(0, 0.004, 40))])
    assert comparison.shift.answer is TimeVerdict.UNCHANGED
    assert comparison.shift.ratio == pytest.approx(1.03, abs=0.003)
    assert np.median([ratio.ratio for ratio in comparison.ratios]) == pytest.approx(1.0, abs=0.003)


def test_runs_that_agree_do_not_hide_that_this_one_scatters():
    rng = np.random.default_rng(10)
    now = np.exp(rng.normal(0, 0.04, 60))
    assert compare([pair([1.0, 1.001, 0.999], x) for x in now]).noise > 0.025


def test_the_more_cases_the_more_a_change_has_to_be():
    slower, same = pair([1.0], 1.08), pair([1.0], 1.0)
    assert compare([slower]).ratios[0].answer is TimeVerdict.SLOWER
    assert compare([slower, *[same] * 18]).ratios[0].answer is TimeVerdict.INCONCLUSIVE


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
    assert sum(set(bench) != {TimeVerdict.INCONCLUSIVE} for bench in answers) <= 5


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


def test_the_figures_of_a_small_sample_one_of_which_has_no_interval():
    figures = timing_stats([30, 10, 20, 1000])
    assert (figures.count, figures.median, figures.mad) == (4, 25, 10)
    assert figures.cv == pytest.approx(1.8509, rel=1e-3)
    figures = timing_stats([7])
    assert (figures.median, figures.mad, figures.cv) == (7, 0, 0)
    assert (figures.low, figures.high, figures.half_width) == (0, math.inf, math.inf)
    assert timing_stats([0] * 20).half_width == math.inf, "times of nothing are never tight"


@pytest.mark.parametrize(("count", "rank"), [(5, 0), (6, 1), (9, 2), (10, 2), (20, 6), (30, 10), (100, 40)])
def test_ranks_are_those_of_the_tables(count, rank):
    figures = timing_stats(range(1, count + 1))
    assert (figures.low, figures.high) == ((rank, count + 1 - rank) if rank else (0, math.inf))


def test_an_outlier_moves_neither_median_nor_interval():
    samples = [100, 101, 99, 100, 102, 98, 100, 101, 99, 100]
    calm, wild = timing_stats([*samples, 110]), timing_stats([*samples, 10**9])
    assert (calm.median, calm.low, calm.high) == (wild.median, wild.low, wild.high)


@pytest.mark.parametrize("count", [6, 17, 40])
def test_the_interval_holds_the_true_median_at_least_95_times_in_100(count):
    draw = random.Random(count)
    held = 0
    for _ in range(1000):
        # Skewed as times are; the median of this distribution is 1000.
        figures = timing_stats([round(1000 * math.exp(draw.gauss(0, 0.3))) for _ in range(count)])
        held += figures.low <= 1000 <= figures.high
    assert held >= 935


# 1 GB/s and 1 Gop/s: 1000 bytes or operations are one microsecond.
DEVICE = {"name": "toy", "bandwidth": 1e9, "peak": 1e9}


def timed(io_bytes, ops, microseconds, *, tags=("random",), device=(), figures=DEVICE):
    one = result(tags=tags)
    one = replace(
        one,
        info=replace(one.info, theory_io_bytes=io_bytes, theory_ops=ops),
        perf=Perf((int(microseconds * 1000),) * 10, tuple(int(d * 1000) for d in device)),
    )
    (found,) = timed_results(report(one), figures)
    return found


@pytest.mark.parametrize(
    ("io_bytes", "ops", "side", "share"),
    [(500, 400, "io", 0.5), (400, 500, "compute", 0.5), (500, 0, "io", 0.5), (500, None, "io", 0.5)],
)
def test_the_larger_share_names_the_bottleneck(io_bytes, ops, side, share):
    found = timed(io_bytes, ops, 1).efficiency
    assert (found.side, found.reached) == (side, pytest.approx(share))


@pytest.mark.parametrize(
    ("tags", "io_bytes", "accepted"),
    [
        (("random",), 30_100, True),
        (("random",), 29_900, False),
        (("network",), 60_100, True),
        (("network",), 59_900, False),
    ],
)
def test_network_scale_has_to_reach_60_percent_and_others_30(tags, io_bytes, accepted):
    assert timed(io_bytes, 0, 100, tags=tags).efficiency.accepted is accepted


@pytest.mark.parametrize("device", [(), (100,) * 10])
@pytest.mark.parametrize(("io_bytes", "ops", "accepted"), [(3_999, 0, None), (4_001, 0, False), (1, 3_999, None)])
def test_a_kernel_that_is_over_in_4_microseconds_at_best_is_not_blamed(io_bytes, ops, accepted, device):
    assert timed(io_bytes, ops, 100, device=device).efficiency.accepted is accepted


def test_the_devices_own_time_counts_where_it_is_told():
    found = timed(500, 0, 100, device=(1,) * 10)
    assert found.latency.median == 1000
    assert found.interface.median == 100_000
    assert found.efficiency.io == pytest.approx(0.5)


def test_without_a_device_or_theory_there_is_no_verdict_and_without_samples_no_time():
    assert timed_results(report(result(), result("b", perf=Perf(()))), DEVICE) == ()
    assert timed(500, 0, 1, figures=None).efficiency is None
    assert timed(None, None, 1).efficiency is None


def test_the_peak_of_the_outputs_type_counts():
    figures = DeviceSpec("x", 1e9, {"half": 1e3, "float": 1e9}).figures
    assert timed(1, 900, 1, figures=figures).efficiency.compute == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("nanoseconds", "words"),
    [(7, "7 ns"), (999, "999 ns"), (1000, "1 µs"), (123456, "123.5 µs"), (5e6, "5 ms"), (2.5e9, "2.5 s")],
)
def test_durations_are_readable(nanoseconds, words):
    assert duration(nanoseconds) == words


@pytest.mark.parametrize("peak", [2e9, {"float": 1e9, "half": 2e9}])
def test_a_description_is_read_as_it_was_written(tmp_path, peak):
    spec = DeviceSpec('a "quoted": name', 1.25e12, peak)
    path = tmp_path / "device.yaml"
    path.write_text(device_spec_text(spec, "two\nlines"))
    assert read_device_spec(path) == spec


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ":1: describe a device by a mapping"),
        ("- 1", ":1: describe a device by a mapping"),
        ("name: x", "the key 'bandwidth_bytes_per_s' is missing"),
        ("name: x\nbandwith_bytes_per_s: 1", ":2: unknown key 'bandwith_bytes_per_s'. Did you mean"),
        ("name: 7\nbandwidth_bytes_per_s: 1\npeak_ops_per_s: 1", ":1: name is 7"),
        ("name: x\nbandwidth_bytes_per_s: 0\npeak_ops_per_s: 1", ":2: bandwidth_bytes_per_s is 0; it must be"),
        ("name: x\nbandwidth_bytes_per_s: 1\npeak_ops_per_s: -1", ":3: peak_ops_per_s is -1"),
        ("name: x\nbandwidth_bytes_per_s: .nan\npeak_ops_per_s: 1", "is nan"),
        ("name: x\nbandwidth_bytes_per_s: true\npeak_ops_per_s: 1", "is True"),
        ("name: x\nbandwidth_bytes_per_s: 1 GB\npeak_ops_per_s: 1", "without a unit"),
        ("name: x\nbandwidth_bytes_per_s: [1]\npeak_ops_per_s: 1", "is [1]"),
        ("name: x\nbandwidth_bytes_per_s: 1\npeak_ops_per_s: {flaot: 1}", "unknown data type 'flaot'. Did you mean"),
        ("name: x\nbandwidth_bytes_per_s: 1\npeak_ops_per_s: {}", "peak_ops_per_s is empty"),
        ("name: x\nbandwidth_bytes_per_s: 1\npeak_ops_per_s: {half: no}", "half is False"),
        ("name: [", "not valid YAML"),
    ],
)
def test_a_wrong_description_is_told_with_its_line(tmp_path, text, words):
    path = tmp_path / "device.yaml"
    path.write_text(text)
    with pytest.raises(ContentError) as caught:
        read_device_spec(path)
    assert words in str(caught.value)
    assert str(caught.value).startswith(str(path))
