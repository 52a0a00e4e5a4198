"""SARIF 2.1.0 for code scanning: crashes and sanitizers' reports whose recorded trace names a file and a line.

A trace is what the backend printed or raised: Python's tracebacks, also those of a fatal signal, frames of
AddressSanitizer and of gdb, lines of UndefinedBehaviorSanitizer.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from mluops_gtest.base.text import pluralize, strip_to_line, strip_values
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.result import CaseResult

_PYTHON: Final = re.compile(r'^ *File "([^"\n]+)", line (\d+)', re.MULTILINE)
# `#0 0x55d in add /src/add.c:3:7`, `#0  add (n=1) at add.c:3`.
_NATIVE: Final = re.compile(r"^ *#\d+ .* (\S+?\.\w+):(\d+)(?::\d+)?$", re.MULTILINE)
_UNDEFINED: Final = re.compile(r"^(\S+?):(\d+):\d+: runtime error: (.+)$", re.MULTILINE)
_SANITIZER: Final = re.compile(r"\b(\w+Sanitizer): ([\w-]+)")
# The harness, installed packages, Python itself, and what a runtime library was built from.
_FOREIGN: Final = re.compile(r"^<|^\.\./|/(mluops_gtest|site-packages|python3\.\d+)/")


class _Place(NamedTuple):
    """Findings with the same rule at the same line are one."""

    rule: str
    file: str
    line: int
    message: str


def render_sarif(report: RunReport, *_: object) -> list[str]:
    """The document in one piece: a result per rule and line, with the cases that show it."""
    found: dict[tuple[str, str, int], tuple[_Place, list[CaseResult]]] = {}
    for result in report.results:
        place = _place_of(result)
        if place is not None:
            found.setdefault(place[:3], (place, []))[1].append(result)
    rules = [{"id": rule} for rule in sorted({rule for rule, *_ in found})]
    driver = {"name": "mluops-test", "version": report.tool_version, "rules": rules}
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [_finding(*one) for one in found.values()]}],
    }
    return [json.dumps(strip_values(document), indent=1), "\n"]


def _place_of(result: CaseResult) -> _Place | None:
    """Where the recorded trace says that it happened; None where it does not say."""
    text = "\n".join((result.output, *result.notes))
    if undefined := _UNDEFINED.search(text):
        return _Place("undefined-behavior", undefined[1], int(undefined[2]), undefined[3])
    sanitizer = _SANITIZER.search(text)
    if not sanitizer and not result.outcome.has_no_answer and result.outcome is not Outcome.MEMORY:
        return None
    frames, innermost = _NATIVE.findall(text), 0
    if not frames:
        frames, innermost = _PYTHON.findall(text), -1 if "(most recent call last)" in text else 0
    own = [frame for frame in frames if not _FOREIGN.search(frame[0])]
    if not own:
        return None
    file, line = own[innermost]
    rule = sanitizer[2] if sanitizer else result.outcome.value
    return _Place(rule, file, int(line), sanitizer[0] if sanitizer else result.reason)


def _finding(place: _Place, results: list[CaseResult]) -> Mapping[str, Any]:
    first, more = results[0], len(results) - 1
    cases = f"{first.case} and {pluralize(more, 'more case')}" if more else first.case
    location = {"artifactLocation": {"uri": _uri(place.file)}, "region": {"startLine": max(place.line, 1)}}
    return {
        "ruleId": place.rule,
        "level": "error" if first.outcome.blocks else "warning",
        "message": {"text": strip_to_line(f"{place.message} ({cases})")},
        "locations": [{"physicalLocation": location}],
        **({"partialFingerprints": {"mluops-test/v1": first.fingerprint}} if first.fingerprint else {}),
        "properties": {"operator": first.operator, "cases": [one.case for one in results], "repro": first.repro},
    }


def _uri(file: str) -> str:
    """Relative to the folder of the command where it lies below it, as code scanning wants it."""
    path = Path(file)
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
