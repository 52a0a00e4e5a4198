"""The times of a run as a person reads them: a row per case, the slowest first where there are many."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from mluops_gtest.cli.consoles import whole_table
from mluops_gtest.model.report import RunReport
from mluops_gtest.reports.tables import LINE, RIGHT, table_of
from mluops_gtest.reports.text import escape
from mluops_gtest.timing.device_spec import TimedResult, timed_results
from mluops_gtest.timing.stats import duration

_MAX_ROWS = 60
_ABSENT = "–"


def print_performance(console: Console, report: RunReport) -> None:
    """The table, and what is missing for a fuller one."""
    device: Mapping[str, Any] | None = report.environment.get("device")
    timed = timed_results(report, device)
    if not timed:
        console.print("No case was timed: only cases that compute and pass are timed.")
        return
    shown = timed
    if len(timed) > _MAX_ROWS:
        shown = tuple(sorted(timed, key=lambda one: -one.latency.median)[:_MAX_ROWS])
    whole_table(console, performance_table(shown, with_device=device is not None))
    if len(shown) < len(timed):
        console.print(f"… and {len(timed) - len(shown)} faster cases; all are in the report.")
    if device is None:
        console.print(
            "No efficiencies: describe the device with --device-spec FILE; "
            "`mluops-test device-spec --measure -o host.yaml` describes this machine.",
            soft_wrap=True,
        )
    console.print()


def performance_table(timed: Sequence[TimedResult], *, with_device: bool) -> Table:
    """Median with its interval, spread, and shares of the device."""
    with_interface = any(one.device is not None for one in timed)
    interface = ("interface",) if with_interface else ()
    device = ("io_eff", "compute_eff", "bottleneck", "verdict") if with_device else ()
    figures = ("median", *interface, "95 % interval", "MAD", "cv", "samples", "workspace", *device)
    table = table_of((("case", "time"), LINE), (figures, RIGHT))
    for one in timed:
        table.add_row(*_row(one, with_interface, with_device))
    return table


def _row(one: TimedResult, with_interface: bool, with_device: bool) -> list[str]:
    figures = one.latency
    assert one.result.perf is not None
    row = [escape(one.result.case), "device" if one.device is not None else "interface", duration(figures.median)]
    if with_interface:
        row.append(duration(one.interface.median))
    row += [
        f"{duration(figures.low)} – {duration(figures.high)}" if figures.low else _ABSENT,
        duration(figures.mad),
        f"{figures.cv:.1%}",
        str(figures.count),
        str(one.result.perf.workspace_bytes),
    ]
    return row + _efficiency(one) if with_device else row


def _efficiency(one: TimedResult) -> list[str]:
    share = one.efficiency
    if share is None:
        return [_ABSENT] * 4
    below = f"[yellow]below {share.wanted:.0%}[/]"
    verdict = {True: "[green]accepted[/]", False: below, None: "too short to judge"}[share.accepted]
    compute = _ABSENT if share.compute is None else _percent(share.compute)
    return [_percent(share.io), compute, share.side, verdict]


def _percent(share: float) -> str:
    return f"{share * 100:.3g}%"
