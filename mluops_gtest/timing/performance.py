"""The times of a run as figures: how long, how sure, how much of the device, and whether that is enough."""

from collections.abc import Mapping
from typing import Any

from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult
from mluops_gtest.timing.efficiency import Efficiency, efficiency
from mluops_gtest.timing.stats import TimingStats, timing_stats
from mluops_gtest.value import Value


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
