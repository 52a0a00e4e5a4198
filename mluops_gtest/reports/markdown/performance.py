"""Section 3: times, efficiencies, workspace of every case that was timed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mluops_gtest.reports.markdown.operator_summary import dtype_of, shape_of
from mluops_gtest.reports.markdown.syntax import code, table, text
from mluops_gtest.reports.markdown.translations import Words
from mluops_gtest.timing.efficiency import Efficiency
from mluops_gtest.timing.performance import TimedResult
from mluops_gtest.timing.stats import TimingStats

_ABSENT = "–"


def performance(timed: Sequence[TimedResult], device: Mapping[str, Any] | None, say: Words) -> Iterator[str]:
    """A row per case that was timed."""
    if not timed:
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
    yield from table(head, (_row(one, say) for one in timed), right=range(1, 6))


def _row(one: TimedResult, say: Words) -> list[str]:
    result, share = one.result, one.efficiency
    assert result.perf is not None, "a timed result has samples"
    return [
        code(result.operator),
        _microseconds(one.device),
        _microseconds(one.interface),
        _ABSENT if share is None else percent(share.io),
        _ABSENT if share is None or share.compute is None else percent(share.compute),
        str(result.perf.workspace_bytes),
        dtype_of(result),
        code(shape_of(result)),
        _accepted(share, say),
        code(result.case),
    ]


def _accepted(share: Efficiency | None, say: Words) -> str:
    if share is None:
        return _ABSENT
    return say({True: "yes", False: "no", None: "too_short"}[share.accepted])


def percent(share: float) -> str:
    """A share with as many digits as a reader needs."""
    return f"{share * 100:.1f} %"


def _microseconds(figures: TimingStats | None) -> str:
    return _ABSENT if figures is None else f"{figures.median / 1000:.1f}"
