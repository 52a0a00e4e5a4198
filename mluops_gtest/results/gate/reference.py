"""Accuracy drift: cases that still pass, but by a smaller margin than before.

What a report is compared with: an earlier report, or a baseline.json that is small enough to commit.
"""

import fnmatch
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from msgspec import field
from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError, UsageError, repr_short
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.typed_files import (
    MAX_INTEGER,
    Source,
    convert,
    decode_json,
    file_bytes,
    keep_plain,
    refuse_doubled_keys,
)
from mluops_gtest.catalog.selection import Filter
from mluops_gtest.core.case import Query
from mluops_gtest.core.outcome import DRIFT_FACTOR, SIZELESS, Outcome, reading_floor
from mluops_gtest.core.report import ResultsByCase, RunReport
from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.statistics import MIN_SAMPLES, RunTime, run_time


class Drift(Value):
    """A reading that grew by more than the limit; both readings are at least the floor."""

    case: str
    operator: str
    output: str
    criterion: str
    before: float
    after: float
    limit: float

    @property
    def factor(self) -> float:
        """How much larger the reading is now."""
        return self.after / self.before


class DriftLimits(Value):
    """The factor by which a reading may grow, with exceptions for single operators."""

    factor: float = DRIFT_FACTOR
    operators: Mapping[str, float] | None = None

    def of(self, operator: str) -> float:
        return (self.operators or {}).get(operator, self.factor)


def noted_readings(result: CaseResult) -> dict[str, float]:
    """The readings above the floor, by output and criterion: all that later comparisons need."""
    return {f"{output} {criterion}": value for output, criterion, value, floor in _sized(result) if value > floor}


def drifts_of(result: CaseResult, before: Mapping[str, float], limits: DriftLimits) -> list[Drift]:
    """The readings of a passing case that grew too much; one that was not noted was at or below the floor."""
    limit = limits.of(result.operator)
    found = []
    for output, criterion, value, floor in _sized(result):
        then, now = max(before.get(f"{output} {criterion}", floor), floor), max(value, floor)
        if now > limit * then:
            found.append(Drift(result.case, result.operator, output, criterion, then, now, limit))
    return found


def _sized(result: CaseResult) -> list[tuple[str, str, float, float]]:
    """Output, criterion, reading and floor of every reading that is the size of an error."""
    dtypes = {tensor.id: tensor.dtype for tensor in result.info.outputs}
    return [
        (reading.output, reading.criterion, reading.value, reading_floor(dtypes.get(reading.output, "")))
        for reading in result.readings
        if reading.criterion != SIZELESS and math.isfinite(reading.value)
    ]


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


KIND: Final = "mluops-test baseline"
FORMAT: Final = 1
# More digits would change with every run and tell a reader nothing.
_READING_DIGITS: Final = 4
_ERROR_DIGITS: Final = 5


def baseline_text(reference: Reference) -> str:
    """The file: sorted, with nothing that can be left out."""
    lines = [f'"format": {FORMAT}', f'"kind": {json.dumps(KIND)}', f'"backend": {_json(reference.backend)}']
    if any(case.times for case in reference.cases.values()):
        lines.append(f'"machine": {_json(dict(sorted(reference.machine.items())))}')
    looked = any(case.outliers is not None for case in reference.cases.values())
    if looked:
        lines.append('"elementwise": true')
    cases = [
        f"{_json(case)}: {_json(_record(case, known, looked=looked))}"
        for case, known in sorted(reference.cases.items())
    ]
    lines.append('"cases": {\n' + ",\n".join(cases) + "\n}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _record(case: str, known: ReferenceCase, *, looked: bool) -> dict[str, Any]:
    record: dict[str, Any] = {"outcome": known.outcome.value}
    if known.operator != _operator(case):
        record["operator"] = known.operator
    if known.tags:
        record["tags"] = sorted(known.tags)
    if known.readings:
        record["readings"] = {key: float(f"{v:.{_READING_DIGITS}g}") for key, v in sorted(known.readings.items())}
    if looked and known.outliers != 0:
        record["outliers"] = known.outliers
    if known.times:
        record["times"] = [[round(t.median_ns), round(t.error, _ERROR_DIGITS), t.samples] for t in known.times]
    return record


def _operator(case: str) -> str:
    return case.partition("/")[0]


def is_baseline(record: Any) -> bool:
    """The JSON document is a baseline file, of whatever format, and not a report."""
    return isinstance(record, dict) and record.get("kind") == KIND


def load_json(path: Path) -> Any:
    """A JSON document; in a baseline a key that occurs twice, e.g. after a bad merge, is an error."""
    try:
        data = file_bytes(path)
    except OSError as error:
        raise ContentError(f"{path}: cannot be read: {error.strerror or error}.") from error
    record = decode_json(data, _source(path))
    if is_baseline(record):
        refuse_doubled_keys(data, _source(path))
    return record


def _source(path: Path) -> Source:
    return Source(str(path), "`mluops-test gate RESULTS --update` writes baselines.")


class _Head(Value):
    backend: str
    cases: dict[str, Any]
    machine: dict[str, Any] = field(default_factory=dict)
    # A case without `outliers` has none; in a file without this nobody looked.
    elementwise: bool = False


class _Entry(Value):
    outcome: Outcome
    operator: str = ""
    tags: tuple[str, ...] = ()
    readings: dict[str, float] = field(default_factory=dict)
    times: tuple[tuple[float, float, int], ...] = ()
    outliers: int | None = 0


_KEYS: Final = _Entry.__struct_fields__


def baseline_from_json(path: Path, record: Mapping[str, Any]) -> Reference:
    """The reference in a baseline file."""
    source = _source(path)
    if record.get("format") != FORMAT:
        raise source.error(f"format {repr_short(record.get('format'))}; this version reads {FORMAT}")
    head = convert(record, _Head, source)
    keep_plain(head.machine, source, ".machine")
    cases = {case: _case(case, entry, source, looked=head.elementwise) for case, entry in head.cases.items()}
    return Reference(head.backend, head.machine, cases)


def _case(case: str, record: Any, source: Source, *, looked: bool) -> ReferenceCase:
    source = Source(f"{source.file}: case {repr_short(case)}", source.remedy)
    entry = convert(record, _Entry, source)
    if not record.keys() <= set(_KEYS):
        raise source.error(f"unknown key {repr_short(min(record.keys() - set(_KEYS)))}; allowed are {', '.join(_KEYS)}")
    if not all(value >= 0 for value in entry.readings.values()):
        raise source.error("a reading must be ≥ 0", ".readings")
    times = tuple(RunTime(*time) for time in entry.times)
    if not all(t.median_ns > 0 and t.error >= 0 and MIN_SAMPLES <= t.samples <= MAX_INTEGER for t in times):
        raise source.error(f"times are [median in ns, relative error, samples (at least {MIN_SAMPLES})]", ".times")
    if entry.outliers is not None and not 0 <= entry.outliers <= MAX_INTEGER:
        raise source.error("a number of elements must be ≥ 0", ".outliers")
    outliers = entry.outliers if looked else None
    return ReferenceCase(entry.operator or _operator(case), entry.tags, entry.outcome, entry.readings, times, outliers)


def cases_asked_for(
    selection: Mapping[str, Any], cases: Mapping[str, ReferenceCase], canonical: Callable[[str], str]
) -> set[str]:
    """The ids that the selection names; `canonical` turns a user's word into an id, a glob or an operator."""
    if selection.get("shard"):
        raise UsageError(
            f"--subset: RESULTS is shard {selection['shard']} of a run; `mluops-test merge` all of them first."
        )
    query = Query.from_report(selection)
    if query is None:
        raise ContentError("--subset: RESULTS does not record what was selected; run the cases again.")
    patterns = [canonical(word) for word in query.select]
    operators = {canonical(word) for word in query.operators}
    demands = Filter(query)

    def asked_for(case: str, known: ReferenceCase) -> bool:
        if patterns and not any(_means(pattern, case) for pattern in patterns):
            return False
        return demands.passes(
            case, known.tags, named=case in patterns, of_operators=lambda: known.operator in operators
        )

    return {case for case, known in cases.items() if asked_for(case, known)}


def _means(pattern: str, case: str) -> bool:
    """The id itself, its operator, a glob over ids, or the folder that a case file is in."""
    return fnmatch.fnmatch(case, pattern) or PurePosixPath(case).is_relative_to(PurePosixPath(pattern))
