"""Figures of times: medians that outliers do not move, intervals that hold, shares of a device."""

import math
import random
from dataclasses import replace

import pytest

from mluops_gtest.base.errors import ContentError
from mluops_gtest.core.result import Perf
from mluops_gtest.results.times import (
    DeviceSpec,
    device_spec_text,
    duration,
    read_device_spec,
    timed_results,
    timing_stats,
)
from tests.support.reports import report, result


def test_the_figures_of_a_small_sample():
    figures = timing_stats([30, 10, 20, 1000])
    assert (figures.count, figures.median, figures.mad) == (4, 25, 10)
    assert figures.cv == pytest.approx(1.8509, rel=1e-3)


def test_one_sample_has_a_median_and_no_interval():
    figures = timing_stats([7])
    assert (figures.median, figures.mad, figures.cv) == (7, 0, 0)
    assert (figures.low, figures.high, figures.half_width) == (0, math.inf, math.inf)


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


def test_times_of_nothing_are_never_tight():
    assert timing_stats([0] * 20).half_width == math.inf


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


def test_results_without_samples_are_left_out():
    assert timed_results(report(result(), result("b", perf=Perf(()))), DEVICE) == ()


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


def test_without_a_device_or_theory_there_is_no_verdict():
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
