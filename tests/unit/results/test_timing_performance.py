"""Figures, efficiencies and verdicts by operators' own theory, and descriptions of devices that are checked."""

from dataclasses import replace

import pytest

from mluops_gtest.base.errors import ContentError
from mluops_gtest.core.result import Perf
from mluops_gtest.results.times import DeviceSpec, device_spec_text, duration, read_device_spec, timed_results
from tests.support.reports import report, result

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


def test_a_pure_io_operator_is_judged_by_io_alone():
    found = timed(10_000, 0, 100).efficiency
    assert (found.compute, found.side, found.accepted) == (None, "io", False)


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
