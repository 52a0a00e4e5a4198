"""A report as the data that the page's script reads: each distinct value once, what is empty left out."""

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mluops_gtest.errors import ExitCode
from mluops_gtest.model.explanation import Explanation
from mluops_gtest.model.outcome import GRAVEST_FIRST
from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.reports.html.case_record import facts, listed, opened
from mluops_gtest.reports.html.compact import ABSENT, NON_FINITE, Pool, digit, kept, number
from mluops_gtest.reports.html.embedding import json_line
from mluops_gtest.timing.device_spec import efficiency
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
            "roof": _roof_of(result, perf.device_samples_ns or perf.samples_ns, device),
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


def _roof_of(result: CaseResult, samples_ns: Sequence[int], device: Mapping[str, Any] | None) -> dict[str, Any] | None:
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


# Case → (start of the run, outcome, largest reading as a multiple of its threshold, if any was read, and the run's
# commit), in any order.
HistoryTrends = Mapping[str, Sequence[tuple[str, str, float | None, str]]]

_MAX_RUNS = 40
_ORDER = {outcome.value: place for place, outcome in enumerate(Outcome)}


def latest_runs(history: HistoryTrends) -> list[str]:
    """The starts of the runs that the page shows, from old to new."""
    return sorted({started for points in history.values() for started, *_ in points})[-_MAX_RUNS:]


def commits_of(history: HistoryTrends, starts: Sequence[str]) -> list[str]:
    """The commit of each of these runs; empty where none is known."""
    known = {started: commit for points in history.values() for started, _, _, commit in points}
    return [known[started] for started in starts]


def trend_text(points: Sequence[tuple[str, str, float | None, str]], starts: Sequence[str]) -> list[str]:
    """One character per run for the outcome of a case, and one for its reading."""
    outcomes, ratios = dict.fromkeys(starts, ABSENT), dict.fromkeys(starts, ABSENT)
    for started, outcome, ratio, _ in points:
        if started in outcomes:
            outcomes[started] = digit(_ORDER[outcome])
            ratios[started] = _ratio_class(ratio)
    return ["".join(outcomes.values()), "".join(ratios.values())]


def _ratio_class(ratio: float | None) -> str:
    """One character per factor of two: 0 is exact, o is at the threshold."""
    if ratio is None:
        return ABSENT
    if not math.isfinite(ratio):
        return NON_FINITE
    if ratio <= 0.0:
        return "0"
    return digit(min(max(math.frexp(ratio)[1] + 23, 1), 35))


# A map of fewer elements shows little.
_TELLING: Final = 64


def cause_records(report: RunReport, lang: str) -> list[dict[str, Any]]:
    """The causes that have a headline, those of most cases first, with the names of their cases as rows."""
    failing = report.failing
    if not failing:
        return []
    # Late: the page of a run that passed needs none of it.
    from mluops_gtest.explain.groups import cause_groups
    from mluops_gtest.model.reasons.explained import explanation_words, headline_words, support_words

    groups = cause_groups(failing, report.results, report.shapes)
    records = []
    for group in groups:
        if group.headline is None:
            continue
        case, example = _example(group.examples, group.headline.output)
        seen = example.map
        records.append(
            {
                "mark": group.mark,
                "head": headline_words(group.headline, lang),
                "support": list(support_words(group.headline, lang)),
                "rows": [result.case for result in group.members],
                "case": case,
                "example": explanation_words(example, lang),
                "dims": list(example.dims),
                "map": None if seen is None else [seen.rows, seen.columns, seen.cells, seen.width],
            }
        )
    return records


def _example(examples: Sequence[CaseResult], output: str) -> tuple[str, Explanation]:
    """The smallest case whose map tells something, else the largest, with how that output is wrong there."""
    known = [(result.case, one) for result in examples for one in result.explained if one.output == output]
    return next(((case, one) for case, one in known if one.size >= _TELLING and one.map is not None), known[-1])


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
