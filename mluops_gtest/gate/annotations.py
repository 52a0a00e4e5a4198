"""Findings for CI systems: workflow commands of GitHub Actions, the code-quality report of GitLab."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import PurePath

from msgspec.structs import replace

from mluops_gtest.gate.decision import Decision
from mluops_gtest.gate.findings import GateFinding, findings, verdict

# GitHub shows ten errors and ten warnings of a step and drops the rest without a word.
_MAX_ANNOTATIONS = 10
_TOOL = "mluops-test gate"


def github(decision: Decision) -> str:
    """One workflow command per line; the last line is for people."""
    lines = []
    for finding in _shown(findings(decision)):
        properties = {"file": finding.file, "line": str(finding.line or ""), "title": f"{_TOOL}: {finding.title}"}
        words = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)
        lines.append(f"::{'error' if finding.blocks else 'warning'} {words}::{_data(finding.text)}")
    return "\n".join([*lines, verdict(decision)])


def gitlab(decision: Decision, baseline: str) -> str:
    """A code-quality report; findings without a file point to the baseline, since GitLab needs a place."""
    entries = [
        {
            "description": f"{finding.title}: {'; '.join(finding.text.splitlines())}",
            "check_name": _TOOL,
            "fingerprint": hashlib.sha256(finding.key.encode()).hexdigest(),
            "severity": "critical" if finding.blocks else "minor",
            "location": {
                "path": PurePath(finding.file or baseline).as_posix(),
                "lines": {"begin": finding.line or 1},
            },
        }
        for finding in _shown(findings(decision))
    ]
    return json.dumps(entries, indent=1, ensure_ascii=False)


def _shown(found: Sequence[GateFinding]) -> list[GateFinding]:
    """At most ten blocking and ten other findings; the last of each kind sums up the rest."""
    return [
        *_cut([finding for finding in found if finding.blocks]),
        *_cut([finding for finding in found if not finding.blocks]),
    ]


def _cut(found: list[GateFinding]) -> list[GateFinding]:
    if len(found) <= _MAX_ANNOTATIONS:
        return found
    rest = found[_MAX_ANNOTATIONS - 1 :]
    cases = len({case for finding in rest for case in finding.cases})
    titles = "\n".join(finding.title for finding in rest[:_MAX_ANNOTATIONS])
    title = f"{len(rest)} more findings, {cases} cases"
    return [*found[: _MAX_ANNOTATIONS - 1], replace(rest[0], key="more", title=title, text=titles, file="", line=0)]


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
