"""A report as the data that the page's script reads: each distinct value once, what is empty left out."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from mluops_gtest.errors import ExitCode
from mluops_gtest.model.outcome import GRAVEST_FIRST
from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.reports.html.case_record import facts, listed, opened
from mluops_gtest.reports.html.causes import cause_records
from mluops_gtest.reports.html.compact import Pool, kept, number
from mluops_gtest.reports.html.embedding import json_line
from mluops_gtest.reports.html.timing import timing_record
from mluops_gtest.reports.html.trends import HistoryTrends, commits_of, latest_runs, trend_text

_VERDICTS: Final = {
    ExitCode.OK: "clear",
    ExitCode.EMPTY: "empty",
    ExitCode.INTERRUPTED: "interrupted",
}


def verdict(report: RunReport) -> str:
    """clear, blocked, empty or interrupted."""
    return _VERDICTS.get(report.exit_code, "blocked")


def payload(
    report: RunReport,
    transitions: Mapping[str, str] | None,
    history: HistoryTrends | None,
    device: Mapping[str, Any] | None,
    lang: str = "en",
) -> tuple[dict[str, Any], list[bytes]]:
    """Everything the page shows but its own words, reasons in that language; and beside it a line of JSON per case.

    The columns have what the list, its filters and the overview need of all cases; the line of a case has what is shown
    of it when it is opened, and is read no earlier.
    """
    pool, past = Pool(), history or {}
    moved = {case: word.replace("_", " ") for case, word in (transitions or {}).items()}
    runs = latest_runs(past)
    # First, so that what it takes is gone before the lines come.
    causes = cause_records(report, lang)
    columns: dict[str, list[Any]] = defaultdict(list)
    lines, timed = [], {}
    for place, result in enumerate(report.results):
        row = listed(result, pool, lang)
        row["moved"] = pool.number(moved[result.case]) if result.case in moved else None
        row["trend"] = [pool.number(text) for text in trend_text(past.get(result.case, ()), runs)] if runs else None
        for name, value in row.items():
            columns[name].append(value)
        perf = timing_record(result, device)
        if perf is not None:
            timed[place] = _roof(perf.pop("roof", None), result)
        lines.append(json_line(kept(opened(result, pool, lang) | {"perf": perf})))
    present = {case: place for place, case in enumerate(columns["id"])}
    for cause in causes:
        cause["rows"] = [present[case] for case in cause["rows"]]
    return {
        "verdict": verdict(report),
        "run": _run(report, device),
        "outcomes": [[outcome.value, outcome.blocks, outcome.sign] for outcome in Outcome],
        "gravest": [outcome.value for outcome in GRAVEST_FIRST],
        "against": transitions is not None,
        "missing": [[case, word] for case, word in sorted(moved.items()) if case not in present],
        "runs": runs,
        "commits": commits_of(past, runs),
        "causes": causes,
        "cases": len(lines),
        "columns": {name: column for name, column in columns.items() if any(value is not None for value in column)},
        "timed": timed,
        "pool": pool.values,
    }, lines


def _roof(attained: Mapping[str, Any] | None, result: CaseResult) -> dict[str, Any] | None:
    """What the roofline of all cases shows of one: attained rates, shares, and operations per byte."""
    info = result.info
    if attained is None or not info.theory_io_bytes:
        return None
    return {**attained, "intensity": number((info.theory_ops or 0.0) / info.theory_io_bytes)}


def _run(report: RunReport, device: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "version": report.tool_version,
        "started": report.started,
        "seconds": number(report.seconds),
        "timing": {phase: number(seconds) for phase, seconds in report.timing.items()},
        "labels": facts(report.labels),
        "backend": facts(report.backend),
        "environment": facts({name: value for name, value in report.environment.items() if name != "device"}),
        "selection": facts({**report.selection, **({} if report.reseed is None else {"fixed": report.fixed})}),
        "device": None if device is None else dict(device),
    }
