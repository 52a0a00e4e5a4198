"""Times of repeated calls as the page draws them: a distribution, its figures, and how near the device's roofs."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from mluops_gtest.model.result import CaseResult
from mluops_gtest.reports.html.compact import kept, number
from mluops_gtest.timing.efficiency import efficiency
from mluops_gtest.timing.stats import timing_stats

_BINS = 24
# Quartile distances above the third quartile beyond which a sample is the far tail.
_TAIL = 3


def timing_record(result: CaseResult, device: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The distributions of interface and device time with the efficiencies that follow; None without samples."""
    perf = result.perf
    if perf is None or not perf.samples_ns:
        return None
    return kept(
        {
            "interface": distribution(perf.samples_ns),
            "device": distribution(perf.device_samples_ns) if perf.device_samples_ns else None,
            "workspace": perf.workspace_bytes,
            "roof": _roof(result, perf.device_samples_ns or perf.samples_ns, device),
        }
    )


def distribution(samples_ns: Sequence[int]) -> list[Any]:
    """Number, smallest, edge, largest, median, its interval, median deviation, variation, bins from smallest to edge.

    The last bin also holds what lies beyond the edge: a far tail would flatten all the rest.
    """
    ordered = sorted(samples_ns)
    low, high = ordered[0], ordered[-1]
    first, third = ordered[len(ordered) // 4], ordered[3 * len(ordered) // 4]
    edge = min(high, third + _TAIL * (third - first))
    bins = [0] * (_BINS if edge > low else 1)
    for sample in ordered:
        bins[min((sample - low) * _BINS // max(edge - low, 1), len(bins) - 1)] += 1
    figures = timing_stats(ordered)
    interval = [number(figures.low, 5), number(figures.high, 5)]
    return [
        len(ordered),
        low,
        edge,
        high,
        number(figures.median, 5),
        *interval,
        number(figures.mad),
        number(figures.cv, 3),
        bins,
    ]


def _roof(result: CaseResult, samples_ns: Sequence[int], device: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What the case attained, and its shares of the device where that is described."""
    io_bytes, operations = result.info.theory_io_bytes, result.info.theory_ops or 0.0
    seconds = statistics.median(samples_ns) * 1e-9
    if not io_bytes or seconds <= 0:
        return None
    attained = {"io_rate": number(io_bytes / seconds), "op_rate": number(operations / seconds)}
    share = efficiency(result, device)
    if share is None:
        return attained
    return attained | kept(
        {
            "io": number(share.io),
            "compute": None if share.compute is None else number(share.compute),
            "side": share.side,
            "wanted": share.wanted,
            "accepted": share.accepted,
        }
    )
