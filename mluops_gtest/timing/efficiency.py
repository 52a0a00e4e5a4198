"""How much of the device a case used, and whether that is enough to accept it."""

import statistics
from collections.abc import Mapping
from typing import Any

from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult
from mluops_gtest.timing.stats import MIN_EFFECT, TimingStats, timing_stats, too_short
from mluops_gtest.value import Value

# The share of the device that the bottleneck side should reach.
NETWORK_SHARE = 0.6
OTHER_SHARE = 0.3
# A launch takes two or three microseconds, whatever it computes: a kernel of this length at best still reaches 60 %
# beside it.
_LEAST_NANOSECONDS = 4_000


class Efficiency(Value):
    """Shares of the device's bandwidth and peak; `compute` is None for operators that only move data."""

    io: float
    compute: float | None
    wanted: float
    # Most of the time may be the way to the kernel: that of an interface, or the launch of a tiny one.
    too_short: bool = False

    @property
    def side(self) -> str:
        """The bottleneck: io or compute, whichever is used more."""
        return "compute" if self.compute is not None and self.compute > self.io else "io"

    @property
    def reached(self) -> float:
        """The share that the bottleneck side reached."""
        return max(self.io, self.compute or 0.0)

    @property
    def accepted(self) -> bool | None:
        """The bottleneck side reached what is asked; None where it did not and the call is too short to blame it."""
        return True if self.reached >= self.wanted else None if self.too_short else False


def efficiency(result: CaseResult, device: Mapping[str, Any] | None) -> Efficiency | None:
    """The efficiencies of a measured case; None where the device or the case does not say enough."""
    perf, info = result.perf, result.info
    samples = (perf.device_samples_ns or perf.samples_ns) if perf is not None else ()
    if device is None or perf is None or not samples or info.theory_io_bytes is None:
        return None
    nanoseconds = statistics.median(samples)
    bandwidth, peak = device.get("bandwidth"), _peak(result, device)
    operations = info.theory_ops or 0.0
    if nanoseconds <= 0 or not bandwidth or (operations and not peak):
        return None
    # One division: a share that is exactly what is asked must not fall below it by rounding.
    io = info.theory_io_bytes * 1e9 / (nanoseconds * bandwidth)
    compute = operations * 1e9 / (nanoseconds * peak) if operations and peak else None
    is_tiny = max(io, compute or 0.0) * nanoseconds < _LEAST_NANOSECONDS
    is_overhead = not perf.device_samples_ns and too_short(nanoseconds, nanoseconds, perf.overhead_ns, MIN_EFFECT)
    wanted = NETWORK_SHARE if "network" in result.tags else OTHER_SHARE
    return Efficiency(io, compute, wanted, too_short=is_tiny or is_overhead)


def _peak(result: CaseResult, device: Mapping[str, Any]) -> float | None:
    """Operations per second; of the output's data type where the device has several peaks."""
    peak = device.get("peak")
    if isinstance(peak, Mapping):
        return next((float(peak[t.dtype]) for t in result.info.outputs if t.dtype in peak), None)
    return None if peak is None else float(peak)


class TimedResult(Value):
    """One case that was timed; `device` is None where the backend tells no device time."""

    result: CaseResult
    interface: TimingStats
    device: TimingStats | None
    efficiency: Efficiency | None

    @property
    def latency(self) -> TimingStats:
        """The time that efficiencies are of: the device's own where it is told."""
        return self.device or self.interface


def timed_results(report: RunReport, device: Mapping[str, Any] | None) -> tuple[TimedResult, ...]:
    """Every case with samples, in the order of the report; `device` has name, bandwidth and peak."""
    return tuple(
        TimedResult(
            result,
            timing_stats(result.perf.samples_ns),
            timing_stats(result.perf.device_samples_ns) if result.perf.device_samples_ns else None,
            efficiency(result, device),
        )
        for result in report.results
        if result.perf is not None and result.perf.samples_ns
    )
