"""What the gate holds results against: a baseline, and the ledger of known failures.

A baseline is an earlier report, or a baseline.json that is small enough to commit. The ledger is a YAML list in which
every entry has an owner, a reason and an end.
"""

import contextlib
import datetime
import fnmatch
import json
import math
import re
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Final

from msgspec import field
from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError, UsageError, repr_short, suggestion
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.typed_files import (
    MAX_INTEGER,
    Source,
    convert,
    decode_json,
    keep_plain,
    read_bytes,
    refuse_doubled_keys,
)
from mluops_gtest.base.yaml_lines import Lines, load_yaml
from mluops_gtest.catalog.replaced import Successors
from mluops_gtest.core.outcome import DRIFT_FACTOR, SIZELESS, Outcome, reading_floor
from mluops_gtest.core.report import RunReport, backend_of
from mluops_gtest.core.result import CaseResult
from mluops_gtest.judging.groups import PlacedLaw, read_marks
from mluops_gtest.results.statistics import MIN_SAMPLES, RunTime, run_time
from mluops_gtest.results.times import samples_of

# Times of two machines are comparable if these facts agree.
_MACHINE: Final = ("platform", "machine", "cpus")
KIND: Final = "mluops-test baseline"
FORMAT: Final = 1
# More digits would change with every run and tell a reader nothing.
_READING_DIGITS: Final = 4
_ERROR_DIGITS: Final = 5
_REQUIRED = ("case", "reason", "owner", "expires")
# What is waived: an entry has one of them.
_FAILURES = ("outcome", "fingerprint", "cause")
_WAIVER_KEYS = (*_REQUIRED, "backend", "link", *_FAILURES)
# These, and no others, can be waived.
_OUTCOMES = {outcome.value: outcome for outcome in Outcome if outcome.fails}
_FORMS = {
    "fingerprint": (re.compile(r"v\d+:\w+"), "copy it from the results, e.g. v1:3f2a9c01d4e7"),
    "cause": (re.compile(r"v3:[0-9a-f]{12}"), "copy it from `gate` or causes.json, e.g. v3:3f2a9c01d4e7"),
}
_MAX_NAMED = 3


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
            readings_above_floor(result),
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


def machine_of(report: RunReport) -> dict[str, Any]:
    """What tells this machine from others."""
    return {key: report.environment.get(key) for key in _MACHINE}


def times_of(result: CaseResult) -> tuple[RunTime, ...]:
    """The times of a case that passed, if it has enough samples."""
    samples = samples_of(result)
    return (run_time(samples),) if result.outcome is Outcome.PASSED and len(samples) >= MIN_SAMPLES else ()


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


def readings_above_floor(result: CaseResult) -> dict[str, float]:
    """The readings above the floor, by output and criterion: all that later comparisons need."""
    readings = _readings_with_floor(result)
    return {f"{output} {criterion}": value for output, criterion, value, floor in readings if value > floor}


def find_drifts(result: CaseResult, before: Mapping[str, float], limits: DriftLimits) -> list[Drift]:
    """The readings of a passing case that grew too much; one that was not noted was at or below the floor."""
    limit = limits.of(result.operator)
    found = []
    for output, criterion, value, floor in _readings_with_floor(result):
        then, now = max(before.get(f"{output} {criterion}", floor), floor), max(value, floor)
        if now > limit * then:
            found.append(Drift(result.case, result.operator, output, criterion, then, now, limit))
    return found


def _readings_with_floor(result: CaseResult) -> list[tuple[str, str, float, float]]:
    """Output, criterion, reading and floor of every reading that is the size of an error."""
    dtypes = {tensor.id: tensor.dtype for tensor in result.info.outputs}
    return [
        (reading.output, reading.criterion, reading.value, reading_floor(dtypes.get(reading.output, "")))
        for reading in result.readings
        if reading.criterion != SIZELESS and math.isfinite(reading.value)
    ]


def baseline_text(reference: Reference) -> str:
    """The file: sorted, with nothing that can be left out."""
    lines = [f'"format": {FORMAT}', f'"kind": {json.dumps(KIND)}', f'"backend": {_json(reference.backend)}']
    if any(case.times for case in reference.cases.values()):
        lines.append(f'"machine": {_json(dict(sorted(reference.machine.items())))}')
    has_outliers = any(case.outliers is not None for case in reference.cases.values())
    if has_outliers:
        lines.append('"elementwise": true')
    cases = [
        f"{_json(case)}: {_json(_case_to_json(case, known, has_outliers=has_outliers))}"
        for case, known in sorted(reference.cases.items())
    ]
    lines.append('"cases": {\n' + ",\n".join(cases) + "\n}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _case_to_json(case: str, known: ReferenceCase, *, has_outliers: bool) -> dict[str, Any]:
    record: dict[str, Any] = {"outcome": known.outcome.value}
    if known.operator != case.partition("/")[0]:
        record["operator"] = known.operator
    if known.tags:
        record["tags"] = sorted(known.tags)
    if known.readings:
        record["readings"] = {key: float(f"{v:.{_READING_DIGITS}g}") for key, v in sorted(known.readings.items())}
    if has_outliers and known.outliers != 0:
        record["outliers"] = known.outliers
    if known.times:
        record["times"] = [[round(t.median_ns), round(t.error, _ERROR_DIGITS), t.samples] for t in known.times]
    return record


def is_baseline(record: Any) -> bool:
    """The JSON document is a baseline file, of whatever format, and not a report."""
    return isinstance(record, dict) and record.get("kind") == KIND


def load_json(path: Path) -> Any:
    """A JSON document; in a baseline a key that occurs twice, e.g. after a bad merge, is an error."""
    data = read_bytes(path)
    record = decode_json(data, _baseline_source(path))
    if is_baseline(record):
        refuse_doubled_keys(data, _baseline_source(path))
    return record


def _baseline_source(path: Path) -> Source:
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


def baseline_from_json(path: Path, record: Mapping[str, Any]) -> Reference:
    """The reference in a baseline file."""
    source = _baseline_source(path)
    if record.get("format") != FORMAT:
        raise source.error(f"format {repr_short(record.get('format'))}; this version reads {FORMAT}")
    head = convert(record, _Head, source)
    keep_plain(head.machine, source, ".machine")
    cases = {
        case: _case_from_json(case, entry, source, has_outliers=head.elementwise) for case, entry in head.cases.items()
    }
    return Reference(head.backend, head.machine, cases)


def _case_from_json(case: str, record: Any, source: Source, *, has_outliers: bool) -> ReferenceCase:
    source = Source(f"{source.file}: case {repr_short(case)}", source.remedy)
    entry, keys = convert(record, _Entry, source), _Entry.__struct_fields__
    if not record.keys() <= set(keys):
        raise source.error(f"unknown key {repr_short(min(record.keys() - set(keys)))}; allowed are {', '.join(keys)}")
    if not all(value >= 0 for value in entry.readings.values()):
        raise source.error("a reading must be ≥ 0", ".readings")
    times = tuple(RunTime(*time) for time in entry.times)
    if not all(t.median_ns > 0 and t.error >= 0 and MIN_SAMPLES <= t.samples <= MAX_INTEGER for t in times):
        raise source.error(f"times are [median in ns, relative error, samples (at least {MIN_SAMPLES})]", ".times")
    if entry.outliers is not None and not 0 <= entry.outliers <= MAX_INTEGER:
        raise source.error("a number of elements must be ≥ 0", ".outliers")
    operator, outliers = entry.operator or case.partition("/")[0], entry.outliers if has_outliers else None
    return ReferenceCase(operator, entry.tags, entry.outcome, entry.readings, times, outliers)


class Waiver(Value):
    """Cases that may fail in one way up to and including a date."""

    # A glob over ids; empty where the cause alone decides.
    case: str
    reason: str
    owner: str
    expires: datetime.date
    outcome: Outcome | None = None
    fingerprint: str = ""
    backend: str = ""
    link: str = ""
    cause: str = ""
    # Further globs of the entry.
    more: tuple[str, ...] = ()
    file: str = ""
    line: int = 0

    @property
    def failure(self) -> str:
        """The waived failure in a word: cause, fingerprint or outcome."""
        return self.cause or self.fingerprint or (self.outcome.value if self.outcome is not None else "")

    def names(self, case: str) -> bool:
        return any(fnmatch.fnmatchcase(case, glob) for glob in (self.case, *self.more))

    def followed(self, replaced: Successors) -> "Waiver":
        """The waiver, which also names the cases that replace those it names by their ids."""
        globs = (self.case, *self.more)
        return replace(self, more=(*self.more, *(one for glob in globs for one in replaced.get(glob, ()))))

    def covers(self, result: CaseResult, causes: Mapping[str, PlacedLaw]) -> bool:
        """The result, of a case that is named, is the failure that is waived and no other."""
        if self.cause:
            return self.cause in causes and causes[self.cause].holds_of(result)
        if self.fingerprint:
            return result.outcome.fails and result.fingerprint == self.fingerprint
        return result.outcome is self.outcome


class WaiverProblem(Value):
    """An entry that must be removed or renewed, and why."""

    waiver: Waiver
    word: str
    text: str


class AppliedWaivers(Value):
    """Which waiver covers which failing case, which waived cases pass, and which entries are out of date."""

    covered: Mapping[str, Waiver] = field(default_factory=dict)
    xpassed: Mapping[str, Waiver] = field(default_factory=dict)
    problems: tuple[WaiverProblem, ...] = ()


def load_waivers(path: Path) -> tuple[Waiver, ...]:
    """The entries of a file; an error names the line of the entry."""
    entries = load_yaml(path)
    if entries is None:
        return ()
    if not isinstance(entries, list):
        raise ContentError(f"{path}:1: not a list of waivers; write `- case: …` with {', '.join(_REQUIRED[1:])} below.")
    return tuple(_read_waiver(path, number, entry) for number, entry in enumerate(entries, 1))


def _read_waiver(path: Path, number: int, entry: Any) -> Waiver:
    if not isinstance(entry, Lines):
        raise ContentError(f"{path}: entry {number} is {repr_short(entry)}, not a mapping with {', '.join(_REQUIRED)}.")

    def fail(what: str, key: str = "") -> ContentError:
        return ContentError(f"{path}:{entry.line_of(key)}: entry {number}: {what}")

    if unknown := [key for key in entry if key not in _WAIVER_KEYS]:
        raise fail(f"unknown key {repr_short(unknown[0])}.{suggestion(unknown[0], _WAIVER_KEYS)}", unknown[0])
    missing = [key for key in _REQUIRED if entry.get(key) is None and not (key == "case" and "cause" in entry)]
    if missing:
        raise fail(f"{' and '.join(missing)} missing.")
    for key, value in entry.items():
        texts = value if key == "case" and isinstance(value, list) and value else [value]
        if key != "expires" and not all(isinstance(text, str) and text.strip() for text in texts):
            raise fail(f"{key} is {repr_short(value)}, not a text.", key)
    if sum(key in entry for key in _FAILURES) != 1:
        raise fail("write either outcome or fingerprint or cause: a waiver covers one kind of failure.")
    outcome = entry.get("outcome", "")
    if outcome and outcome not in _OUTCOMES:
        raise fail(f"outcome {repr_short(outcome)} cannot be waived.{suggestion(outcome, _OUTCOMES)}", "outcome")
    for key, (form, advice) in _FORMS.items():
        if key in entry and not form.fullmatch(entry[key]):
            raise fail(f"{repr_short(entry[key])} is not a {key}; {advice}.", key)
    expires = day_of(entry["expires"])
    if expires is None:
        raise fail(f"expires is {repr_short(entry['expires'])}, not a date; write YYYY-MM-DD.", "expires")
    case = entry.get("case", "")
    case, *more = case if isinstance(case, list) else [case]
    return Waiver(
        case=case,
        more=tuple(more),
        expires=expires,
        outcome=_OUTCOMES.get(outcome),
        file=str(path),
        line=entry.line,
        **{key: entry.get(key, "") for key in ("reason", "owner", "fingerprint", "backend", "link", "cause")},
    )


def day_of(value: Any) -> datetime.date | None:
    """A day, which YAML reads as a date where it is not quoted, else as text; None of anything else."""
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        with contextlib.suppress(ValueError):
            return datetime.date.fromisoformat(value)
    return None


def apply_waivers(
    waivers: Sequence[Waiver],
    results: Mapping[str, CaseResult],
    backend: str,
    today: datetime.date,
    elsewhere: set[str],
    vague: Set[str] = frozenset(),
) -> AppliedWaivers:
    """Apply the waivers to the results.

    `elsewhere` are cases that exist but were not asked for; a waiver for one of them is not judged. Nor is one for
    another backend. `vague` are causes of these results without a law at a place.
    """
    covered: dict[str, Waiver] = {}
    xpassed: dict[str, Waiver] = {}
    problems = []
    marks = {waiver.cause for waiver in waivers if waiver.cause}
    failed = [result for result in results.values() if result.outcome is Outcome.FAILED] if marks else []
    causes = read_marks(marks, failed)
    for waiver in waivers:
        if waiver.backend and waiver.backend != backend:
            continue
        named = [results[case] for case in results if waiver.names(case)] if waiver.case else failed
        used = [result.case for result in named if waiver.covers(result, causes)]
        passing = [result.case for result in named if result.outcome is Outcome.PASSED]
        if waiver.expires < today:
            text = f"expired on {waiver.expires}; fix the cause, or ask {waiver.owner} to renew it"
            problems.append(WaiverProblem(waiver, "expired", text))
            continue
        if passing:
            more = f" and {len(passing) - _MAX_NAMED} more" if len(passing) > _MAX_NAMED else ""
            text = f"passes now: {', '.join(passing[:_MAX_NAMED])}{more}; remove the waiver or narrow its glob"
            problems.append(WaiverProblem(waiver, "xpassed", text))
        elif not used and not _is_elsewhere(waiver, named, elsewhere):
            problems.append(WaiverProblem(waiver, "unused", _why_unused(waiver, named, vague)))
        covered |= dict.fromkeys(used, waiver)
        xpassed |= dict.fromkeys(passing, waiver)
    return AppliedWaivers(covered, xpassed, tuple(problems))


def _is_elsewhere(waiver: Waiver, named: Sequence[CaseResult], elsewhere: Set[str]) -> bool:
    """It may be about cases that were not asked for; of which operator a cause is, its id does not tell."""
    if not waiver.case:
        return bool(elsewhere)
    return not named and any(waiver.names(case) for case in elsewhere)


def _why_unused(waiver: Waiver, named: Sequence[CaseResult], vague: Set[str]) -> str:
    if waiver.cause in vague:
        return f"{waiver.cause} has no law at a place that a waiver could name; use the fingerprints of its cases"
    if not waiver.case:
        return f"no failure has the law of {waiver.cause} at its place; remove the waiver"
    if not named:
        return "matches no case; correct the glob or remove the waiver"
    found = ", ".join(
        f"{result.case} is {result.outcome.value}" + (f" ({result.fingerprint})" if waiver.fingerprint else "")
        for result in named[:_MAX_NAMED]
    )
    return f"matches no failure: {found}, but the waiver is for {waiver.failure}"
