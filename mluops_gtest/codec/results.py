"""Results to JSON and back: one line per result while running, one report at the end."""

import math
from dataclasses import asdict
from typing import Any

from mluops_gtest.model.report import FORMAT, RunReport
from mluops_gtest.model.reseed import Reseeded
from mluops_gtest.model.result import Attempt, CaseInfo, CaseResult, Outcome, Perf, Profile, Reading, TensorInfo, Worst
from mluops_gtest.model.status import Status


def result_to_json(result: CaseResult) -> dict[str, Any]:
    """A result as plain JSON values; NaN and infinities are words, which JSON lacks as numbers."""
    return {
        "case": result.case,
        "operator": result.operator,
        "tags": list(result.tags),
        "outcome": result.outcome.value,
        "status": None if result.status is None else result.status.name,
        "expected_status": None if result.expected_status is None else result.expected_status.name,
        "readings": [_reading(reading) for reading in result.readings],
        "worst": None if result.worst is None else _worst(result.worst),
        "seconds": round(result.seconds, 9),
        "reason": result.reason,
        "repro": result.repro,
        "notes": list(result.notes),
        "output": result.output,
        "attempts": [{"outcome": a.outcome.value, "reason": a.reason} for a in result.attempts],
        "fingerprint": result.fingerprint,
        "profile": None if result.profile is None else _profile(result.profile),
        "perf": None if result.perf is None else asdict(result.perf),
        "info": _info(result.info),
        "content_error": result.content_error,
        "bug": result.bug,
        "compared": result.compared,
    }


def report_to_json(report: RunReport) -> dict[str, Any]:
    """The whole report as plain JSON values."""
    return {
        "format": FORMAT,
        "tool_version": report.tool_version,
        "backend": dict(report.backend),
        "environment": dict(report.environment),
        "selection": dict(report.selection),
        "started": report.started,
        "seconds": round(report.seconds, 6),
        "timing": {phase: round(seconds, 6) for phase, seconds in report.timing.items()},
        "interrupted": report.interrupted,
        "summary": report.summary,
        "results": [result_to_json(result) for result in report.results],
    }


def _profile(profile: Profile) -> dict[str, Any]:
    return {**asdict(profile), "cells": [_number(cell) for cell in profile.cells]}


def _info(info: CaseInfo) -> dict[str, Any]:
    return {
        "inputs": [asdict(tensor) for tensor in info.inputs],
        "outputs": [asdict(tensor) for tensor in info.outputs],
        "params": dict(info.params),
        "doc": info.doc,
        "theory_io_bytes": info.theory_io_bytes,
        "theory_ops": info.theory_ops,
        "reseeded": None if info.reseeded is None else asdict(info.reseeded),
    }


def _reading(reading: Reading) -> dict[str, Any]:
    return {
        "output": reading.output,
        "criterion": reading.criterion,
        "value": _number(reading.value),
        "threshold": _number(reading.threshold),
        "within": reading.within,
    }


def _worst(worst: Worst) -> dict[str, Any]:
    return {
        "output": worst.output,
        "index": list(worst.index),
        "evaluated": worst.evaluated,
        "baseline": worst.baseline,
        "unequal": worst.unequal,
        "compared": worst.compared,
        "max_ulp": worst.max_ulp,
    }


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def result_from_json(record: dict[str, Any]) -> CaseResult:
    """The result that `result_to_json` wrote; ValueError or KeyError where it is not one."""
    status, expected, worst = record["status"], record["expected_status"], record["worst"]
    return CaseResult(
        case=record["case"],
        operator=record["operator"],
        tags=tuple(record["tags"]),
        outcome=Outcome.named(record["outcome"]),
        status=None if status is None else Status[status],
        expected_status=None if expected is None else Status[expected],
        readings=tuple(
            Reading(r["output"], r["criterion"], float(r["value"]), float(r["threshold"]), r["within"])
            for r in record["readings"]
        ),
        worst=None if worst is None else Worst(**{**worst, "index": tuple(worst["index"])}),
        seconds=record["seconds"],
        reason=record["reason"],
        repro=record["repro"],
        notes=tuple(record["notes"]),
        output=record["output"],
        attempts=tuple(Attempt(Outcome.named(a["outcome"]), a["reason"]) for a in record["attempts"]),
        fingerprint=record["fingerprint"],
        profile=_read_profile(record["profile"]),
        perf=_read_perf(record["perf"]),
        info=_read_info(record["info"]),
        content_error=record["content_error"],
        bug=record.get("bug", False),
        compared=record["compared"],
    )


def _read_profile(record: dict[str, Any] | None) -> Profile | None:
    if record is None:
        return None
    cells = tuple(float(cell) for cell in record["cells"])
    return Profile(record["output"], tuple(record["histogram"]), record["rows"], record["columns"], cells)


def _read_perf(record: dict[str, Any] | None) -> Perf | None:
    if record is None:
        return None
    return Perf(tuple(record["samples_ns"]), tuple(record["device_samples_ns"]), record["workspace_bytes"])


def _read_info(record: dict[str, Any]) -> CaseInfo:
    def tensors(lines: list[dict[str, Any]]) -> tuple[TensorInfo, ...]:
        return tuple(TensorInfo(t["id"], t["dtype"], t["layout"], tuple(t["dims"])) for t in lines)

    reseeded = record.get("reseeded")
    return CaseInfo(
        tensors(record["inputs"]),
        tensors(record["outputs"]),
        record["params"],
        record["doc"],
        record["theory_io_bytes"],
        record["theory_ops"],
        None if reseeded is None else Reseeded(**reseeded),
    )


def report_from_json(record: dict[str, Any]) -> RunReport:
    """The report that `report_to_json` wrote; the summary is recomputed from the results."""
    if record["format"] != FORMAT:
        raise ValueError(f"format {record['format']!r}; this version reads format {FORMAT}")
    return RunReport(
        tool_version=record["tool_version"],
        backend=record["backend"],
        environment=record["environment"],
        selection=record["selection"],
        started=record["started"],
        seconds=record["seconds"],
        results=tuple(result_from_json(result) for result in record["results"]),
        timing=record["timing"],
        interrupted=record["interrupted"],
    )
