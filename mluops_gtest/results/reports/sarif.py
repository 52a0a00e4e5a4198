"""SARIF 2.1.0 for code scanning: crashes and sanitizers' reports whose recorded trace names a file and a line.

A trace is what the backend printed or raised: Python's tracebacks, also those of a fatal signal, frames of
AddressSanitizer and of gdb, lines of UndefinedBehaviorSanitizer.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
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


def render_sarif(report: RunReport, *_: object) -> list[str]:
    """The document in one piece: a result per rule and line, with the cases that show it."""
    # Rule, file, line → the first one's words, and the cases.
    found: dict[tuple[str, str, int], tuple[str, list[CaseResult]]] = {}
    for result in report.results:
        for place, message in _findings_of(result):
            found.setdefault(place, (message, []))[1].append(result)
    rules = [{"id": rule} for rule in sorted({rule for rule, *_ in found})]
    driver = {"name": "mluops-test", "version": report.tool_version, "rules": rules}
    run = {"tool": {"driver": driver}, "results": [_finding(*place, *cases) for place, cases in found.items()]}
    document = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return [json.dumps(strip_values(document), indent=1), "\n"]


def _findings_of(result: CaseResult) -> Iterator[tuple[tuple[str, str, int], str]]:
    """Where the recorded trace says that it happened, and what; nothing where it does not say."""
    text = "\n".join((result.output, *result.notes))
    sanitizer = _SANITIZER.search(text)
    if undefined := _UNDEFINED.search(text):
        yield ("undefined-behavior", undefined[1], int(undefined[2])), undefined[3]
    elif sanitizer or result.outcome.has_no_answer or result.outcome is Outcome.MEMORY:
        native, innermost = _NATIVE.findall(text), -1 if "(most recent call last)" in text else 0
        frames = native or _PYTHON.findall(text)
        own = [(file, int(line)) for file, line in frames if not _FOREIGN.search(file)]
        if own:
            rule, words = (sanitizer[2], sanitizer[0]) if sanitizer else (result.outcome.value, result.reason)
            yield (rule, *own[0 if native else innermost]), words


def _finding(rule: str, file: str, line: int, message: str, results: list[CaseResult]) -> dict[str, Any]:
    first, more = results[0], len(results) - 1
    cases = f"{first.case} and {pluralize(more, 'more case')}" if more else first.case
    location = {"artifactLocation": {"uri": _uri(file)}, "region": {"startLine": max(line, 1)}}
    return {
        "ruleId": rule,
        "level": "error" if first.outcome.blocks else "warning",
        "message": {"text": strip_to_line(f"{message} ({cases})")},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"mluops-test/v1": first.fingerprint} if first.fingerprint else {},
        "properties": {"operator": first.operator, "cases": [one.case for one in results], "repro": first.repro},
    }


def _uri(file: str) -> str:
    """Relative to the folder of the command where it lies below it, as code scanning wants it."""
    path, here = Path(file), Path.cwd()
    path = path.relative_to(here) if path.is_relative_to(here) else path
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
