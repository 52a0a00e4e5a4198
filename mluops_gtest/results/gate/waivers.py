"""What became of a case since the reference, and whether that alone stops a merge.

The ledger of known failures: a YAML list in which every entry has an owner, a reason and an end.
"""

import datetime
import fnmatch
import re
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from msgspec import field

from mluops_gtest.base.errors import ContentError, repr_short, suggestion
from mluops_gtest.base.frozen import TableEnum, Value
from mluops_gtest.base.yaml_lines import Lines, load_yaml
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.judging.groups import PlacedLaw, read_marks

# These, and no others, can be waived.
FAILING = tuple(outcome for outcome in Outcome if outcome.fails)
# Before there was no verdict on the kernel.
_WAS_OPEN = (None, Outcome.SKIPPED, Outcome.NOT_RUN)


class Transition(TableEnum):
    """From the reference to now; `blocks` unless a waiver covers the failure."""

    STILL_PASSING = ("still passing", False)
    FIXED = ("fixed", False)
    NEW = ("new", False)
    STILL_SKIPPED = ("still skipped", False)
    REGRESSED = ("regressed", True)
    STILL_FAILING = ("still failing", True)
    NEW_AND_FAILING = ("new and failing", True)
    MISSING = ("missing", True)
    BECAME_SKIPPED = ("became skipped", True)
    SUSPECT = ("suspect", True)
    NOT_RUN = ("not_run", True)

    def __init__(self, _word: str, blocks: bool) -> None:
        self.blocks = blocks


def transition(before: Outcome | None, now: Outcome | None) -> Transition:
    """The transition between two outcomes; None means the case was absent. Skipped or not run counts as absent."""
    match now:
        case None:
            return Transition.MISSING
        case Outcome.NOT_RUN:
            return Transition.NOT_RUN
        case Outcome.SUSPECT:
            return Transition.SUSPECT
        case Outcome.SKIPPED:
            if before is Outcome.SKIPPED:
                return Transition.STILL_SKIPPED
            return Transition.NEW if before in _WAS_OPEN else Transition.BECAME_SKIPPED
        case Outcome.PASSED:
            if before is not None and before.passes:
                return Transition.STILL_PASSING
            return Transition.NEW if before in _WAS_OPEN else Transition.FIXED
    if before is not None and before.passes:
        return Transition.REGRESSED
    return Transition.NEW_AND_FAILING if before in _WAS_OPEN else Transition.STILL_FAILING


_REQUIRED = ("case", "reason", "owner", "expires")
# What is waived: an entry has one of them.
_FAILURES = ("outcome", "fingerprint", "cause")
_KEYS = (*_REQUIRED, "backend", "link", *_FAILURES)
_OUTCOMES = {outcome.value: outcome for outcome in FAILING}
_FORMS = {
    "fingerprint": (re.compile(r"v\d+:\w+"), "copy it from the results, e.g. v1:3f2a9c01d4e7"),
    "cause": (re.compile(r"v3:[0-9a-f]{12}"), "copy it from `gate` or causes.json, e.g. v3:3f2a9c01d4e7"),
}
_MAX_NAMED = 3


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
        raise ContentError(f"{path}: entry {number} is {repr_short(entry)}, not a mapping with {', '.join(_REQUIRED)}.")

    def fail(what: str, key: str = "") -> ContentError:
        return ContentError(f"{path}:{entry.line_of(key)}: entry {number}: {what}")

    if unknown := [key for key in entry if key not in _KEYS]:
        raise fail(f"unknown key {repr_short(unknown[0])}.{suggestion(unknown[0], _KEYS)}", unknown[0])
    missing = [key for key in _REQUIRED if entry.get(key) is None and not (key == "case" and "cause" in entry)]
    if missing:
        raise fail(f"{' and '.join(missing)} missing.")
    for key, value in entry.items():
        texts = value if key == "case" and isinstance(value, list) and value else [value]
        if key != "expires" and not all(isinstance(text, str) and text.strip() for text in texts):
            raise fail(f"{key} is {repr_short(value)}, not a text.", key)
    if sum(key in entry for key in _FAILURES) != 1:
        raise fail("write either outcome or fingerprint or cause: a waiver covers one kind of failure.")
    if "outcome" in entry and entry["outcome"] not in _OUTCOMES:
        raise fail(
            f"outcome {repr_short(entry['outcome'])} cannot be waived.{suggestion(entry['outcome'], _OUTCOMES)}",
            "outcome",
        )
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
        reason=entry["reason"],
        owner=entry["owner"],
        expires=expires,
        outcome=_OUTCOMES.get(entry.get("outcome", "")),
        fingerprint=entry.get("fingerprint", ""),
        backend=entry.get("backend", ""),
        link=entry.get("link", ""),
        cause=entry.get("cause", ""),
        file=str(path),
        line=entry.line,
    )


def day_of(value: Any) -> datetime.date | None:
    """A day, which YAML reads as a date where it is not quoted, else as text; None of anything else."""
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
    vague: Set[str] = frozenset(),
) -> Waived:
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
            text = f"passes now: {_listed(passing)}; remove the waiver or narrow its glob"
            problems.append(WaiverProblem(waiver, "xpassed", text))
        elif not used and not _is_elsewhere(waiver, named, elsewhere):
            problems.append(WaiverProblem(waiver, "unused", _unused(waiver, named, vague)))
        covered |= dict.fromkeys(used, waiver)
        xpassed |= dict.fromkeys(passing, waiver)
    return Waived(covered, xpassed, tuple(problems))


def _is_elsewhere(waiver: Waiver, named: Sequence[CaseResult], elsewhere: Set[str]) -> bool:
    """It may be about cases that were not asked for; of which operator a cause is, its id does not tell."""
    if not waiver.case:
        return bool(elsewhere)
    return not named and any(waiver.names(case) for case in elsewhere)


def _unused(waiver: Waiver, named: Sequence[CaseResult], vague: Set[str]) -> str:
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


def _listed(cases: Sequence[str]) -> str:
    more = f" and {len(cases) - _MAX_NAMED} more" if len(cases) > _MAX_NAMED else ""
    return ", ".join(cases[:_MAX_NAMED]) + more
