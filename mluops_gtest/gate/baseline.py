"""baseline.json: a reference small enough to commit, one line per case, so that a review sees what changes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import field

from mluops_gtest.errors import ContentError, shown
from mluops_gtest.files.typed import (
    MAX_INTEGER,
    Source,
    convert,
    decode_json,
    file_bytes,
    keep_plain,
    refuse_doubled_keys,
)
from mluops_gtest.gate.reference import Reference, ReferenceCase
from mluops_gtest.model.result import Outcome
from mluops_gtest.timing.statistics import MIN_SAMPLES, RunTime
from mluops_gtest.value import Value

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
        raise source.error(f"format {shown(record.get('format'))}; this version reads {FORMAT}")
    head = convert(record, _Head, source)
    keep_plain(head.machine, source, ".machine")
    cases = {case: _case(case, entry, source, looked=head.elementwise) for case, entry in head.cases.items()}
    return Reference(head.backend, head.machine, cases)


def _case(case: str, record: Any, source: Source, *, looked: bool) -> ReferenceCase:
    source = Source(f"{source.file}: case {shown(case)}", source.remedy)
    entry = convert(record, _Entry, source)
    if not record.keys() <= set(_KEYS):
        raise source.error(f"unknown key {shown(min(record.keys() - set(_KEYS)))}; allowed are {', '.join(_KEYS)}")
    if not all(value >= 0 for value in entry.readings.values()):
        raise source.error("a reading must be ≥ 0", ".readings")
    times = tuple(RunTime(*time) for time in entry.times)
    if not all(t.median_ns > 0 and t.error >= 0 and MIN_SAMPLES <= t.samples <= MAX_INTEGER for t in times):
        raise source.error(f"times are [median in ns, relative error, samples (at least {MIN_SAMPLES})]", ".times")
    if entry.outliers is not None and not 0 <= entry.outliers <= MAX_INTEGER:
        raise source.error("a number of elements must be ≥ 0", ".outliers")
    outliers = entry.outliers if looked else None
    return ReferenceCase(entry.operator or _operator(case), entry.tags, entry.outcome, entry.readings, times, outliers)
