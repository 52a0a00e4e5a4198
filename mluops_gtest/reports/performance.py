"""The times of a run as figures: how long, how sure, how much of the device, and whether that is enough."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult
from mluops_gtest.model.timing import Figures, figures_of
from mluops_gtest.reports.efficiency import Efficiency, efficiency


@dataclass(frozen=True, slots=True)
class TimedResult:
    """One case that was timed; `device` is None where the backend tells no device time."""

    result: CaseResult
    interface: Figures
    device: Figures | None
    efficiency: Efficiency | None

    @property
    def latency(self) -> Figures:
        """The time that efficiencies are of: the device's own where it is told."""
        return self.device or self.interface


def timed_results(report: RunReport, device: Mapping[str, Any] | None) -> tuple[TimedResult, ...]:
    """Every case with samples, in the order of the report; `device` has name, bandwidth and peak."""
    return tuple(
        TimedResult(
            result,
            figures_of(result.perf.samples_ns),
            figures_of(result.perf.device_samples_ns) if result.perf.device_samples_ns else None,
            efficiency(result, device),
        )
        for result in report.results
        if result.perf is not None and result.perf.samples_ns
    )
