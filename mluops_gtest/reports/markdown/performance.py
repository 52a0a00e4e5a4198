"""Section 3: times, efficiencies, workspace of every case that was timed."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult, Perf
from mluops_gtest.reports.efficiency import Efficiency, efficiency
from mluops_gtest.reports.markdown.facts import dtype_of, shape_of
from mluops_gtest.reports.markdown.syntax import code, table, text
from mluops_gtest.reports.markdown.words import Words

_ABSENT = "–"


def timed(report: RunReport) -> tuple[tuple[CaseResult, Perf], ...]:
    """The results with samples."""
    return tuple(
        (result, result.perf) for result in report.results if result.perf is not None and result.perf.samples_ns
    )


def performance(report: RunReport, device: Mapping[str, Any] | None, say: Words) -> Iterator[str]:
    """A row per case that was timed."""
    measured = timed(report)
    if not measured:
        yield say("no_performance")
        yield ""
        return
    if device is None:
        yield say("no_device")
    else:
        yield say("device", device=text(str(device.get("name", ""))))
    yield ""
    keys = ("hardware_time", "interface_time", "io_efficiency", "compute_efficiency", "workspace")
    head = [say(key) for key in ("operator", *keys, "dtype", "shape", "accepted", "case")]
    yield from table(head, (_row(result, perf, device, say) for result, perf in measured), right=range(1, 6))


def _row(result: CaseResult, perf: Perf, device: Mapping[str, Any] | None, say: Words) -> list[str]:
    share = efficiency(result, device)
    return [
        code(result.operator),
        _microseconds(perf.device_samples_ns),
        _microseconds(perf.samples_ns),
        _ABSENT if share is None else percent(share.io),
        _ABSENT if share is None or share.compute is None else percent(share.compute),
        str(perf.workspace_bytes),
        dtype_of(result),
        code(shape_of(result)),
        _accepted(share, say),
        code(result.case),
    ]


def _accepted(share: Efficiency | None, say: Words) -> str:
    if share is None:
        return _ABSENT
    return say("yes") if share.accepted else say("no")


def percent(share: float) -> str:
    """A share with as many digits as a reader needs."""
    return f"{share * 100:.1f} %"


def _microseconds(samples_ns: Sequence[int]) -> str:
    return f"{statistics.median(samples_ns) / 1000:.1f}" if samples_ns else _ABSENT
