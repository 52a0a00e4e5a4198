"""How calls are sampled: warm-up, turns, when it is enough, and what ends it early."""

import itertools

import pytest

from mluops_gtest.core.call import Status
from mluops_gtest.core.cause import Killed
from mluops_gtest.results.statistics import MIN_SAMPLES, measure_bandwidth, measure_peak
from mluops_gtest.running import timing as perf
from mluops_gtest.running.caller import Ending, Reply
from mluops_gtest.running.timing import MAX_SAMPLES, CacheSweeper, Sampling, last_level_bytes, measure

STEADY = 1e-3


def calls_of(seconds, device=None, log=None, name=""):
    """A call that takes the given seconds one after the other."""
    times = iter(seconds)
    devices = itertools.repeat(None) if device is None else iter(device)

    def call():
        if log is not None:
            log.append(name)
        return Reply(Status.SUCCESS, next(times), next(devices))

    return call


def clock(step=0.0):
    """Stands still, or moves by a step each time that it is read."""
    return itertools.count(step, step).__next__


def test_warm_up_calls_are_not_samples():
    seconds = [9.0, 9.0, *([STEADY] * 5)]
    (samples,) = measure([calls_of(seconds)], Sampling(warmup=2, samples=5), clock())
    assert samples.interface_ns == [1_000_000] * 5


def test_noisy_times_are_sampled_until_the_median_is_known():
    noisy = itertools.cycle([1.0, 1.1, 0.9, 1.05, 0.95, 1.02, 0.98])
    (samples,) = measure([calls_of(noisy)], Sampling(), clock())
    assert 10 < len(samples.interface_ns) < MAX_SAMPLES
    assert samples.tight


WILD = (1.0, 2.0)


@pytest.mark.parametrize(
    ("seconds", "sampling", "step", "count"),
    [
        pytest.param((STEADY,), Sampling(), 0.0, 10, id="steady times need few samples"),
        pytest.param(WILD, Sampling(), 0.0, MAX_SAMPLES, id="times that never settle end by their number"),
        pytest.param(
            WILD, Sampling(), perf.BUDGET_SECONDS, MIN_SAMPLES, id="or by the budget, but not below the least"
        ),
        pytest.param((STEADY,), Sampling(samples=123), 1e9, 123, id="a number is kept whatever the clock says"),
    ],
)
def test_how_many_samples_are_taken(seconds, sampling, step, count):
    (samples,) = measure([calls_of(itertools.cycle(seconds))], sampling, clock(step))
    assert len(samples.interface_ns) == count


def test_backends_take_turns_and_none_always_follows_the_other():
    log = []
    pair = [calls_of(itertools.repeat(STEADY), log=log, name=name) for name in "ab"]
    measured = measure(pair, Sampling(warmup=1, samples=3), clock())
    assert "".join(log) == "ab" + "ab" + "ba" + "ab"
    assert [len(samples.interface_ns) for samples in measured] == [3, 3]


def test_two_backends_go_on_until_both_are_known():
    calm, other = measure([calls_of(itertools.repeat(STEADY)), calls_of(itertools.cycle(WILD))], Sampling(), clock())
    assert len(calm.interface_ns) == len(other.interface_ns) == MAX_SAMPLES


def test_device_times_decide_where_every_call_has_one_and_are_left_out_with_gaps():
    (samples,) = measure([calls_of(itertools.cycle(WILD), itertools.repeat(5e-6))], Sampling(), clock())
    assert samples.perf(64).device_samples_ns == (5000,) * 10
    assert samples.perf(64).workspace_bytes == 64
    (samples,) = measure([calls_of(itertools.repeat(1.0), [1.0, 1.0, None, 1.0])], Sampling(0, 4), clock())
    assert samples.perf(0).device_samples_ns == ()
    assert len(samples.perf(0).samples_ns) == 4


@pytest.mark.parametrize("warmup", [0, 3])
def test_a_call_that_does_not_succeed_ends_it_for_all(warmup):
    def dies():
        return Reply(ended=Ending.CRASHED, causes=(Killed("SIGSEGV", 11),))

    log = []
    first, second = measure([dies, calls_of([], log=log)], Sampling(warmup, 10), clock())
    assert first.last.ended is Ending.CRASHED
    assert (second.last, log) == (None, [])


def test_caches_are_swept_before_each_sample_and_only_if_asked():
    for cold in (True, False):
        log = []
        call = calls_of(itertools.repeat(STEADY), log=log, name="call")
        measure([call], Sampling(1, 2, cold_cache=cold), clock(), sweep=lambda log=log: log.append("sweep"))
        assert log == (["call", "sweep", "call", "sweep", "call"] if cold else ["call"] * 3)


def test_the_sweeper_takes_twice_the_largest_cache(tmp_path):
    for number, size in enumerate(["32K", "1M", "nonsense"]):
        (tmp_path / f"index{number}").mkdir()
        (tmp_path / f"index{number}" / "size").write_text(f"{size}\n")
    assert last_level_bytes(tmp_path) == 1 << 20
    sweeper = CacheSweeper(tmp_path)
    sweeper.sweep()
    assert sweeper._lines.size * 64 == 2 << 20
    assert set(sweeper._lines.tolist()) == {1}
    assert last_level_bytes(tmp_path / "unknown") == 64 << 20


def test_this_machine_is_measured_by_the_best_round():
    """A clock that moves by 1 s between two readings, once by half of that."""
    readings = iter([0, 1, 2, 3, 10, 10.5, *range(20, 40)])
    assert measure_bandwidth(lambda: next(readings), 4096) == 2 * 4096 / 0.5
    readings = iter([0, 1, 2, 3, 10, 10.5, *range(20, 40)])
    assert measure_peak(lambda: next(readings), 8) == 2 * 8**3 / 0.5
