"""The reports of all shards of one run made one report again."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from mluops_gtest.errors import ContentError
from mluops_gtest.model.labels import merged_labels
from mluops_gtest.model.report import PickedResults, RunReport, Tally
from mluops_gtest.model.result import CaseResult


def merge(reports: Mapping[str, RunReport]) -> RunReport:
    """One report of all; refused where cases are doubled, shards are missing or the runs differ."""
    first = next(iter(reports.values()))
    _refuse_differences(reports, first)
    _refuse_missing_shards([report.selection.get("shard") for report in reports.values()])
    seen: dict[str, str] = {}
    places: dict[str, tuple[Sequence[CaseResult], int]] = {}
    tally = Tally()
    for name, report in reports.items():
        for place, result in enumerate(report.results):
            if result.case in seen:
                raise ContentError(
                    f"{result.case} is in {seen[result.case]} and in {name}; each case must be in only one."
                )
            seen[result.case] = name
            places[result.case] = report.results, place
            tally.add(result)
    results = PickedResults([places[case] for case in sorted(places)], tally)
    phases = {phase: 0.0 for report in reports.values() for phase in report.timing}
    for report in reports.values():
        for phase, seconds in report.timing.items():
            phases[phase] += seconds
    return replace(
        first,
        selection={**first.selection, "shard": None, "times": None, "cases": len(results)},
        started=min(report.started for report in reports.values()),
        seconds=sum(report.seconds for report in reports.values()),
        results=results,
        timing=phases,
        shapes={name: shapes for report in reports.values() for name, shapes in report.shapes.items()},
        labels=merged_labels([report.labels for report in reports.values()]),
        interrupted=any(report.interrupted for report in reports.values()),
    )


def _refuse_differences(reports: Mapping[str, RunReport], first: RunReport) -> None:
    wanted = _identity(first)
    for name, report in reports.items():
        for key, value in _identity(report).items():
            if value != wanted[key]:
                raise ContentError(f"{name}: its {key} is {value!r}, but the first has {wanted[key]!r}.")


def _identity(report: RunReport) -> dict[str, Any]:
    """What all shards of one run have in common."""
    selection = {k: v for k, v in report.selection.items() if k not in ("shard", "times", "cases", "reseed")}
    return {
        "backend": report.backend.get("name"),
        "version": report.tool_version,
        "--reseed": report.reseed,
        # Parts that were cut by different times need not make up the whole.
        "--times": report.selection.get("times"),
        "selection": selection,
    }


def _refuse_missing_shards(shards: Sequence[str | None]) -> None:
    given = [shard for shard in shards if shard is not None]
    if not given:
        return
    counts = {shard.partition("/")[2] for shard in given}
    if len(counts) > 1 or len(given) != len(shards):
        words = ", ".join(str(shard) for shard in shards)
        raise ContentError(f"The shards {words} are not parts of one run.")
    count = int(counts.pop())
    missing = [f"{i}/{count}" for i in range(1, count + 1) if f"{i}/{count}" not in given]
    if missing:
        raise ContentError(f"Shards are missing: {', '.join(missing)}.")
