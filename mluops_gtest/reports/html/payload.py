"""A report as the data that the page's script reads: each distinct value once, what is empty left out."""

import json
from collections.abc import Mapping
from typing import Any

from mluops_gtest.errors import ExitCode
from mluops_gtest.model.difference import told_ulp
from mluops_gtest.model.outcome import GRAVEST_FIRST
from mluops_gtest.model.reasons import reason_of
from mluops_gtest.model.reasons.arbitrated import arbitration_words
from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import (
    CaseInfo,
    CaseResult,
    ElementReading,
    Outcome,
    Reading,
    StressReading,
    TensorInfo,
    Worst,
)
from mluops_gtest.reports.html.causes import cause_records
from mluops_gtest.reports.html.compact import Pool, kept, number, profile_record, shortened
from mluops_gtest.reports.html.timing import timing_record
from mluops_gtest.reports.html.trends import HistoryTrends, commits_of, latest_runs, trend_text

# The page explains; the whole text of a chatty backend is in report.json.
_MAX_PRINTED = 2000
_MAX_VALUE = 240
_VERDICTS = {
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
) -> dict[str, Any]:
    """Everything the page shows but its own words; reasons are in that language."""
    pool = Pool()
    moved = {case: word.replace("_", " ") for case, word in (transitions or {}).items()}
    runs = latest_runs(history or {})
    rows = []
    for result in report.results:
        past = trend_text((history or {}).get(result.case, ()), runs)
        beside = {
            "perf": timing_record(result, device),
            "moved": pool.number(moved[result.case]) if result.case in moved else None,
            "trend": [pool.number(text) for text in past] if runs else None,
        }
        rows.append(kept(_row(result, pool, lang) | beside))
    present = {result.case for result in report.results}
    return {
        "verdict": verdict(report),
        "run": _run(report, device),
        "outcomes": [[outcome.value, outcome.blocks, outcome.sign] for outcome in Outcome],
        "gravest": [outcome.value for outcome in GRAVEST_FIRST],
        "against": transitions is not None,
        "missing": [[case, word] for case, word in sorted(moved.items()) if case not in present],
        "runs": runs,
        "commits": commits_of(history or {}, runs),
        "causes": cause_records(report, lang),
        "rows": rows,
        "pool": pool.values,
    }


def _run(report: RunReport, device: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "version": report.tool_version,
        "started": report.started,
        "seconds": number(report.seconds),
        "timing": {phase: number(seconds) for phase, seconds in report.timing.items()},
        "labels": _facts(report.labels),
        "backend": _facts(report.backend),
        "environment": _facts({name: value for name, value in report.environment.items() if name != "device"}),
        "selection": _facts({**report.selection, **({} if report.reseed is None else {"fixed": report.fixed})}),
        "device": None if device is None else dict(device),
    }


def _facts(mapping: Mapping[str, Any]) -> list[list[str]]:
    """Name and value of what is set, as text."""
    return [[name, _text(value)] for name, value in mapping.items() if value not in (None, "", [], {})]


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_VALUE else text[:_MAX_VALUE] + " …"


def _row(result: CaseResult, pool: Pool, lang: str) -> dict[str, Any]:
    reason = reason_of(result.causes, lang)
    statuses = (result.status, result.expected_status)
    return {
        "id": result.case,
        "op": pool.number(result.operator or "?"),
        "tags": pool.number(list(result.tags)),
        "outcome": list(Outcome).index(result.outcome),
        "status": pool.number([None if status is None else status.name for status in statuses]),
        "readings": [_reading(reading, pool) for reading in result.readings],
        "worst": None if result.worst is None else _worst(result.worst, pool),
        "elements": [_elements(seen, pool) for seen in result.elements],
        "exact": [arbitration_words(found, lang) for found in result.arbitrated],
        "stress": None if result.stress is None else _stress(result.stress),
        "ms": number(result.seconds * 1e3),
        "why": pool.number(shortened(reason, _MAX_PRINTED)) if reason else None,
        # What stands around the case's own name, so that lines which differ by it alone are one value.
        "repro": pool.number(result.repro.split(result.case)) if result.repro else None,
        "debug": pool.number(result.debug.split(result.case)) if result.debug else None,
        "notes": [*_host(result), *(shortened(note, _MAX_PRINTED) for note in result.notes)],
        "printed": shortened(result.output, _MAX_PRINTED),
        "attempts": [[list(Outcome).index(a.outcome), pool.number(reason_of(a.causes, lang))] for a in result.attempts],
        "mark": pool.number(result.fingerprint) if result.fingerprint else None,
        "profile": None if result.profile is None else profile_record(result.profile),
        **_info(result.info, pool),
    }


def _host(result: CaseResult) -> list[str]:
    """Where the case ran, of a run on a cluster."""
    if not result.host:
        return []
    return [f"{result.host}" + ("" if result.device is None else f" #{result.device}")]


def _reading(reading: Reading, pool: Pool) -> list[Any]:
    what = pool.number([reading.output, reading.criterion, number(reading.threshold, 6)])
    return [what, number(reading.value), int(reading.within)]


def _elements(seen: ElementReading, pool: Pool) -> list[Any]:
    what = pool.number([seen.output, seen.precision])
    place = f"[{', '.join(map(str, seen.index))}]"
    allowed = number(seen.allowed, 3)
    return [what, seen.beyond, seen.compared, number(seen.ratio), place, seen.evaluated, seen.baseline, allowed]


def _stress(stress: StressReading) -> list[list[int]]:
    return [[row.threads, row.repetitions, row.failed, row.differing] for row in stress.by_threads]


def _worst(worst: Worst, pool: Pool) -> list[Any]:
    place = f"[{', '.join(map(str, worst.index))}]"
    return [
        pool.number(worst.output),
        place,
        worst.evaluated,
        worst.baseline,
        worst.unequal,
        worst.compared,
        told_ulp(worst),
        worst.beyond,
        worst.bits_unequal,
    ]


def _info(info: CaseInfo, pool: Pool) -> dict[str, Any]:
    params = [pool.number(list(info.params)), *map(_text, info.params.values())]
    return {
        "inputs": [_tensor(tensor, pool) for tensor in info.inputs],
        "outputs": [_tensor(tensor, pool) for tensor in info.outputs],
        "params": params if info.params else None,
        "doc": pool.number(info.doc) if info.doc else None,
        "io": None if info.theory_io_bytes is None else number(info.theory_io_bytes),
        "ops": None if info.theory_ops is None else number(info.theory_ops),
    }


def _tensor(tensor: TensorInfo, pool: Pool) -> list[int]:
    """What an operator's tensors have in common is pooled; the dimensions follow."""
    return [pool.number([tensor.id, tensor.dtype, tensor.layout]), *tensor.dims]
