"""The ledger of known failures: a YAML list in which every entry has an owner, a reason and an end."""

import datetime
import fnmatch
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import field

from mluops_gtest.errors import ContentError, shown, suggestion
from mluops_gtest.files.yaml_lines import Lines, load_yaml
from mluops_gtest.gate.transitions import FAILING
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.value import Value

_REQUIRED = ("case", "reason", "owner", "expires")
_OPTIONAL = ("backend", "link", "outcome", "fingerprint")
_OUTCOMES = {outcome.value: outcome for outcome in FAILING}
_FINGERPRINT = re.compile(r"v\d+:\w+")
_MAX_NAMED = 3


class Waiver(Value):
    """Cases that may fail in one way up to and including a date."""

    case: str
    reason: str
    owner: str
    expires: datetime.date
    outcome: Outcome | None = None
    fingerprint: str = ""
    backend: str = ""
    link: str = ""
    file: str = ""
    line: int = 0

    @property
    def failure(self) -> str:
        """The waived failure in a word: outcome or fingerprint."""
        return self.fingerprint or (self.outcome.value if self.outcome is not None else "")

    def names(self, case: str) -> bool:
        return fnmatch.fnmatchcase(case, self.case)

    def covers(self, result: CaseResult) -> bool:
        """The result, of a case that is named, is the failure that is waived and no other."""
        if self.fingerprint:
            return result.outcome.fails and result.fingerprint == self.fingerprint
        return result.outcome is self.outcome


class WaiverProblem(Value):
    """An entry that must be removed or renewed, and why."""

    waiver: Waiver
    word: str
    text: str


class Waived(Value):
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
    return tuple(_waiver(path, number, entry) for number, entry in enumerate(entries, 1))


def _waiver(path: Path, number: int, entry: Any) -> Waiver:
    if not isinstance(entry, Lines):
        raise ContentError(f"{path}: entry {number} is {shown(entry)}, not a mapping with {', '.join(_REQUIRED)}.")

    def fail(what: str, key: str = "") -> ContentError:
        return ContentError(f"{path}:{entry.line_of(key)}: entry {number}: {what}")

    for key in entry:
        if key not in _REQUIRED + _OPTIONAL:
            raise fail(f"unknown key {shown(key)}.{suggestion(key, _REQUIRED + _OPTIONAL)}", key)
    missing = [key for key in _REQUIRED if entry.get(key) is None]
    if missing:
        raise fail(f"{' and '.join(missing)} missing.")
    for key, value in entry.items():
        if key != "expires" and (not isinstance(value, str) or not value.strip()):
            raise fail(f"{key} is {shown(value)}, not a text.", key)
    if ("outcome" in entry) == ("fingerprint" in entry):
        raise fail("write either outcome or fingerprint: a waiver covers one kind of failure.")
    if "outcome" in entry and entry["outcome"] not in _OUTCOMES:
        raise fail(
            f"outcome {shown(entry['outcome'])} cannot be waived.{suggestion(entry['outcome'], _OUTCOMES)}", "outcome"
        )
    if "fingerprint" in entry and not _FINGERPRINT.fullmatch(entry["fingerprint"]):
        raise fail(
            f"{shown(entry['fingerprint'])} is not a fingerprint; copy it from the results, e.g. v1:3f2a9c01d4e7.",
            "fingerprint",
        )
    expires = _day(entry["expires"])
    if expires is None:
        raise fail(f"expires is {shown(entry['expires'])}, not a date; write YYYY-MM-DD.", "expires")
    return Waiver(
        case=entry["case"],
        reason=entry["reason"],
        owner=entry["owner"],
        expires=expires,
        outcome=_OUTCOMES.get(entry.get("outcome", "")),
        fingerprint=entry.get("fingerprint", ""),
        backend=entry.get("backend", ""),
        link=entry.get("link", ""),
        file=str(path),
        line=entry.line,
    )


def _day(value: Any) -> datetime.date | None:
    """YAML reads an unquoted day as a date, a quoted one as text; a time of day is neither."""
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            return None
    return None


def apply_waivers(
    waivers: Sequence[Waiver],
    results: Mapping[str, CaseResult],
    backend: str,
    today: datetime.date,
    elsewhere: set[str],
) -> Waived:
    """Apply the waivers to the results.

    `elsewhere` are cases that exist but were not asked for; a waiver for one of them is not judged. Nor is one for
    another backend.
    """
    covered: dict[str, Waiver] = {}
    xpassed: dict[str, Waiver] = {}
    problems = []
    for waiver in waivers:
        if waiver.backend and waiver.backend != backend:
            continue
        named = [result for case, result in results.items() if waiver.names(case)]
        used = [result.case for result in named if waiver.covers(result)]
        passing = [result.case for result in named if result.outcome is Outcome.PASSED]
        if waiver.expires < today:
            text = f"expired on {waiver.expires}; fix the cause, or ask {waiver.owner} to renew it"
            problems.append(WaiverProblem(waiver, "expired", text))
            continue
        if passing:
            text = f"passes now: {_listed(passing)}; remove the waiver or narrow its glob"
            problems.append(WaiverProblem(waiver, "xpassed", text))
        elif not used and not (not named and any(waiver.names(case) for case in elsewhere)):
            problems.append(WaiverProblem(waiver, "unused", _unused(waiver, named)))
        covered |= dict.fromkeys(used, waiver)
        xpassed |= dict.fromkeys(passing, waiver)
    return Waived(covered, xpassed, tuple(problems))


def _unused(waiver: Waiver, named: Sequence[CaseResult]) -> str:
    if not named:
        return "matches no case; correct the glob or remove the waiver"
    found = ", ".join(
        f"{result.case} is {result.outcome.value}" + (f" ({result.fingerprint})" if waiver.fingerprint else "")
        for result in named[:_MAX_NAMED]
    )
    return f"matches no failure: {found}, but the waiver is for {waiver.failure}"


def _listed(cases: Sequence[str]) -> str:
    more = f" and {len(cases) - _MAX_NAMED} more" if len(cases) > _MAX_NAMED else ""
    return ", ".join(cases[:_MAX_NAMED]) + more
