"""baseline.json: a reference small enough to commit, one line per case, so that a review sees what changes."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mluops_gtest.errors import ContentError
from mluops_gtest.gate.reference import Reference, ReferenceCase
from mluops_gtest.gate.statistics import MIN_SAMPLES, RunTime
from mluops_gtest.model.result import Outcome

KIND: Final = "mluops-test baseline"
FORMAT: Final = 1
# More digits would change with every run and tell a reader nothing.
_READING_DIGITS: Final = 4
_ERROR_DIGITS: Final = 5
_KEYS: Final = {"outcome", "operator", "tags", "readings", "times"}


def baseline_text(reference: Reference) -> str:
    """The file: sorted, with nothing that can be left out."""
    lines = [f'"format": {FORMAT}', f'"kind": {json.dumps(KIND)}', f'"backend": {_json(reference.backend)}']
    if any(case.times for case in reference.cases.values()):
        lines.append(f'"machine": {_json(dict(sorted(reference.machine.items())))}')
    cases = [f"{_json(case)}: {_json(_record(case, known))}" for case, known in sorted(reference.cases.items())]
    lines.append('"cases": {\n' + ",\n".join(cases) + "\n}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _record(case: str, known: ReferenceCase) -> dict[str, Any]:
    record: dict[str, Any] = {"outcome": known.outcome.value}
    if known.operator != _operator(case):
        record["operator"] = known.operator
    if known.tags:
        record["tags"] = sorted(known.tags)
    if known.readings:
        record["readings"] = {key: float(f"{v:.{_READING_DIGITS}g}") for key, v in sorted(known.readings.items())}
    if known.times:
        record["times"] = [[round(t.median_ns), round(t.error, _ERROR_DIGITS), t.samples] for t in known.times]
    return record


def _operator(case: str) -> str:
    return case.partition("/")[0]


def is_baseline(record: Any) -> bool:
    """The JSON document is a baseline file, of whatever format, and not a report."""
    return isinstance(record, dict) and record.get("kind") == KIND


def load_json(path: Path) -> Any:
    """A JSON document; a key that stands twice, as after a merge gone wrong, is an error."""
    try:
        return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_once)
    except OSError as error:
        raise ContentError(f"{path}: cannot be read: {error.strerror or error}.") from error
    except json.JSONDecodeError as error:
        raise ContentError(f"{path}:{error.lineno}: not valid JSON: {error.msg}.") from error
    except (ValueError, RecursionError) as error:
        raise ContentError(f"{path}: not valid JSON: {error}.") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands twice")
    return record


def baseline_from_json(path: Path, record: Mapping[str, Any]) -> Reference:
    """The reference in a baseline file."""
    if record.get("format") != FORMAT:
        raise ContentError(f"{path}: format {record.get('format')!r}; this version reads {FORMAT}.")
    cases = record.get("cases")
    backend, machine = record.get("backend"), record.get("machine", {})
    if not isinstance(cases, dict) or not isinstance(backend, str) or not isinstance(machine, dict):
        raise ContentError(f"{path}: backend or cases are missing; write the file anew with --update.")
    known = {}
    for case, entry in cases.items():
        try:
            known[case] = _case(case, entry)
        except (KeyError, TypeError, ValueError) as error:
            raise ContentError(f"{path}: {case}: not a case of a baseline: {error}. --update writes them.") from error
    return Reference(backend, machine, known)


def _case(case: str, entry: dict[str, Any]) -> ReferenceCase:
    if not isinstance(entry, dict) or not entry.keys() <= _KEYS:
        raise ValueError(f"allowed are {', '.join(sorted(_KEYS))}")
    operator = entry.get("operator", _operator(case))
    tags = entry.get("tags", [])
    if not isinstance(operator, str) or not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError("operator or tags are no words")
    readings = {str(key): float(value) for key, value in entry.get("readings", {}).items()}
    if not all(math.isfinite(value) for value in readings.values()):
        raise ValueError("a reading is no finite number")
    times = tuple(RunTime(float(median), float(error), int(n)) for median, error, n in entry.get("times", []))
    if not all(t.median_ns > 0 and t.error >= 0 and t.samples >= MIN_SAMPLES for t in times):
        raise ValueError(f"times are [median in ns, relative error, samples (at least {MIN_SAMPLES})]")
    return ReferenceCase(operator, tuple(tags), _outcome(entry["outcome"]), readings, times)


def _outcome(word: str) -> Outcome:
    try:
        return Outcome.named(word)
    except KeyError:
        raise ValueError(f"there is no outcome {word!r}") from None
