"""What a report is compared with: outcomes, readings and times of an earlier run, from a report or a baseline file."""

from collections.abc import Mapping
from typing import Any

from msgspec import field
from msgspec.structs import replace

from mluops_gtest.errors import ContentError, UsageError
from mluops_gtest.gate.drift import noted_readings
from mluops_gtest.model.report import ResultsByCase, RunReport
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.timing.statistics import MIN_SAMPLES, RunTime, run_time
from mluops_gtest.value import Value

# Times of two machines are comparable if these facts agree.
_MACHINE = ("platform", "machine", "cpus")


class ReferenceCase(Value):
    """One case as it was; `readings` are those above the floor, by output and criterion."""

    operator: str
    tags: tuple[str, ...]
    outcome: Outcome
    readings: Mapping[str, float] = field(default_factory=dict)
    times: tuple[RunTime, ...] = ()
    # Elements beyond what arithmetic allows; None where nobody looked.
    outliers: int | None = None


class Reference(Value):
    """All cases by id, with the backend and the machine they ran on, and the N of --reseed N if they had one."""

    backend: str
    machine: Mapping[str, Any]
    cases: Mapping[str, ReferenceCase]
    reseed: int | None = None


def reference_of(report: RunReport) -> Reference:
    """A report as reference."""
    cases = {
        result.case: ReferenceCase(
            result.operator,
            result.tags,
            result.outcome,
            noted_readings(result),
            times_of(result),
            result.outliers if report.looked_at_elements else None,
        )
        for result in report.results
    }
    return Reference(backend_of(report), machine_of(report), cases, report.reseed)


def with_runs(reference: Reference, again: Mapping[str, RunReport]) -> Reference:
    """The reference with the times of further runs of the same build on the same machine, by their names."""
    cases = dict(reference.cases)
    for name, report in again.items():
        if backend_of(report) != reference.backend:
            raise UsageError(
                f"--aa {name}: it ran on backend {backend_of(report)!r}, the baseline on {reference.backend!r}; "
                "name runs of the baseline's build."
            )
        if machine_of(report) != reference.machine:
            raise UsageError(
                f"--aa {name}: it ran on another machine than the baseline, so their times cannot be compared."
            )
        if report.reseed != reference.reseed:
            raise UsageError(f"--aa {name}: its cases have different values from the baseline's (--reseed).")
        for result in report.results:
            known = cases.get(result.case)
            if known is not None and result.outcome is Outcome.PASSED:
                cases[result.case] = replace(known, times=(*known.times, *times_of(result)))
    return replace(reference, cases=cases)


def backend_of(report: RunReport) -> str:
    """The name of the backend."""
    return str(report.backend.get("name", ""))


def machine_of(report: RunReport) -> dict[str, Any]:
    """What tells this machine from others."""
    return {key: report.environment.get(key) for key in _MACHINE}


def times_of(result: CaseResult) -> tuple[RunTime, ...]:
    """The times of a case that passed, if it has enough samples."""
    samples = result.perf.samples_ns if result.perf is not None else ()
    return (run_time(samples),) if result.outcome is Outcome.PASSED and len(samples) >= MIN_SAMPLES else ()


def results_by_case(report: RunReport) -> ResultsByCase:
    """The results of a run by case; an error if a case occurs twice or has a verdict that only the gate gives."""
    places: dict[str, int] = {}
    for place, result in enumerate(report.results):
        if result.case in places:
            raise ContentError(f"RESULTS: {result.case} has two results; each case must have one.")
        if result.outcome in (Outcome.XFAILED, Outcome.XPASSED):
            raise ContentError(
                f"RESULTS: {result.case} is {result.outcome.value}, which only the gate gives, to waived cases."
            )
        places[result.case] = place
    return ResultsByCase(report.results, places)
