"""The decision as findings, failures of one kind together: as a list, in Markdown, as annotations of CI, as JSON."""

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any, Final

from msgspec.structs import replace

from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import pluralize, strip_controls, strip_to_line
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import ISOLATION_OFF
from mluops_gtest.results.gate import Accept, CaseChange, Decision, Lack, Performance, TimeChange
from mluops_gtest.results.gate_reference import Drift, Waiver
from mluops_gtest.results.reports.markdown_summary import code_span, longest_ticks
from mluops_gtest.results.shapes import Overlay, document_of, fill, list_of, shape_of
from mluops_gtest.results.statistics import Ratio, TimeVerdict
from mluops_gtest.results.times import duration

_MAX_NAMED = 5
# A cause may have many fingerprints; a waiver names one of them for each case.
_MAX_MARKS = 3


class GateFinding(Value):
    """One thing to look at; `key` stays the same from run to run, `cases` are those it is about."""

    key: str
    title: str
    text: str
    blocks: bool
    cases: tuple[str, ...] = ()
    file: str = ""
    line: int = 0


def findings(decision: Decision) -> list[GateFinding]:
    """First what blocks, then what is only reported; larger groups of failures come first."""
    text = f"{decision.other_values}. Outcomes are compared, readings and times are not."
    values = [GateFinding("other values", "accuracy drift: not checked", text, False)] if decision.other_values else []
    accuracy = (*_outlier_findings(decision), *_drift_findings(decision), *values)
    found = [
        *_failure_findings(decision),
        *_waiver_findings(decision),
        *_time_findings(decision),
        *accuracy,
        *_isolation_findings(decision),
    ]
    return [_strip_control_characters(finding) for finding in sorted(found, key=lambda finding: not finding.blocks)]


def _strip_control_characters(finding: GateFinding) -> GateFinding:
    """Names and reasons come from outside; nothing in them may steer a terminal, a comment or an annotation."""
    cases = tuple(map(strip_to_line, finding.cases))
    title, file = strip_to_line(finding.title), strip_to_line(finding.file)
    return replace(finding, title=title, text=strip_controls(finding.text), cases=cases, file=file)


def _failure_findings(decision: Decision) -> list[GateFinding]:
    """Cases with one cause are one finding, others by fingerprint; those without one by what became of them."""
    # The ledger's own finding names those that pass although waived, with the line of the entry.
    failing = [change for change in decision.blocking if change.now is not Outcome.XPASSED]
    groups: dict[str, list[CaseChange]] = defaultdict(list)
    # The smallest case is the easiest one to look at.
    for change in sorted(failing, key=lambda change: (change.elements, change.case)):
        groups[change.cause or change.fingerprint or change.transition.value].append(change)
    largest_first = sorted(groups.items(), key=lambda group: (-len(group[1]), group[1][0].case))
    return [_failure_finding(key, members) for key, members in largest_first]


def _failure_finding(key: str, members: Sequence[CaseChange]) -> GateFinding:
    first = next((member for member in members if member.is_example), members[0])
    counts = Counter(member.transition.value for member in members)
    words = ", ".join(f"{number} {word}" for word, number in sorted(counts.items()))
    outcomes = sorted({member.now.value for member in members if member.now is not None} - counts.keys())
    title = f"{words} ({', '.join(outcomes)})" if outcomes else words
    lines = [
        strip_to_line(first.headline),
        name_first([member.case for member in members]),
        strip_to_line(first.reason),
    ]
    if first.repro:
        lines.append(f"repro: {first.repro}")
    covered = sum(member.has_cause for member in members)
    if first.cause:
        part = f" (a waiver by it covers {covered} of {len(members)})" if covered < len(members) else ""
        lines.append(f"cause: {first.cause}{part}")
    marks = list(dict.fromkeys(member.fingerprint for member in members if member.fingerprint))
    if marks:
        more = f" and {len(marks) - _MAX_MARKS} more" if len(marks) > _MAX_MARKS else ""
        lines.append(f"fingerprint{'s' if len(marks) > 1 else ''}: {', '.join(marks[:_MAX_MARKS])}{more}")
    return GateFinding(key, title, "\n".join(filter(None, lines)), True, tuple(member.case for member in members))


def verdict(decision: Decision) -> str:
    """The decision in one line."""
    if decision.blocked:
        return f"blocked: {blockers(decision)}"
    if decision.lacking:
        return f"too little compared{decision.lacking}"
    if not decision.compared:
        return "nothing compared: no case has a verdict both in RESULTS and in the baseline"
    return f"passed: {pluralize(decision.compared, 'case')} compared"


def blockers(decision: Decision) -> str:
    """What blocks, counted by kind."""
    transitions = Counter(change.transition for change in decision.blocking if change.now is not Outcome.XPASSED)
    return ", ".join(
        [
            *(f"{number} {word.value}" for word, number in transitions.items()),
            *_count_words(len(decision.problems), "waiver to clear", "waivers to clear"),
            *_count_words(len(decision.blocking_times), "case by its time", "cases by their times"),
            *(["all cases together slower"] if decision.blocks_by_shift else []),
            *_count_words(len(decision.blocking_drifts), "reading that drifted", "readings that drifted"),
            *_count_words(len(decision.blocking_outliers), "case with outliers", "cases with outliers"),
            *(["isolation was off"] if decision.blocks_by_isolation else []),
        ]
    )


def _count_words(number: int, one: str, many: str) -> list[str]:
    return [f"{number} {one if number == 1 else many}"] if number else []


def _isolation_findings(decision: Decision) -> list[GateFinding]:
    if decision.is_isolated or (decision.is_isolated is None and not decision.blocks_by_isolation):
        return []
    said = ISOLATION_OFF if decision.is_isolated is False else "RESULTS does not say that the backend ran in workers."
    text = f"{said} Run it again with --isolate." if decision.blocks_by_isolation else said
    return [GateFinding("isolation", "isolation was off", text, decision.blocks_by_isolation)]


def _waiver_findings(decision: Decision) -> list[GateFinding]:
    return [
        GateFinding(
            key=f"waiver {problem.word} {problem.waiver.case} {problem.waiver.failure}",
            title=f"waiver {problem.word}: {problem.waiver.case or problem.waiver.cause}",
            text=f"{problem.text} (owner {problem.waiver.owner}: {problem.waiver.reason})",
            blocks=True,
            file=problem.waiver.file,
            line=problem.waiver.line,
        )
        for problem in decision.problems
    ]


def _time_findings(decision: Decision) -> list[GateFinding]:
    performance, found = decision.performance, []
    blocks = Accept.SLOWER not in decision.policy.accept
    if performance.all_slower and performance.shift is not None:
        text = f"the cases together take {percent(performance.shift)} of the time they took"
        found.append(GateFinding("all slower", "slower: all cases together", text, blocks))
    found += [
        GateFinding(f"slower {change.case}", f"slower: {change.case}", time_words(change), blocks, (change.case,))
        for change in performance.answered(TimeVerdict.SLOWER)
    ]
    short = performance.answered(TimeVerdict.TOO_SHORT)
    if short:
        title = f"too short to judge: times of {pluralize(len(short), 'case')}"
        text = _first_lines([f"{change.case}: {change.reason}" for change in short])
        found.append(GateFinding("too short", title, text, False, tuple(change.case for change in short)))
    groups: dict[Lack, list[TimeChange]] = defaultdict(list)
    for change in performance.answered(TimeVerdict.INCONCLUSIVE):
        assert change.lack is not None, "an inconclusive answer lacks something"
        groups[change.lack].append(change)
    for lack, members in groups.items():
        reason = lack.value if lack is Lack.MORE_SAMPLES else members[0].reason
        members.sort(key=lambda member: -member.ratio.ratio if member.ratio is not None else 0.0)
        shown = [f"{member.case}: {time_words(member)}" for member in members[:_MAX_NAMED] if member.ratio is not None]
        text = "\n".join([reason, *shown, *(more(len(members)) if shown else [])])
        title = f"inconclusive times: {pluralize(len(members), 'case')}"
        cases = tuple(member.case for member in members)
        found.append(GateFinding(f"inconclusive {lack.value}", title, text, decision.policy.strict_perf, cases))
    return found


def _drift_findings(decision: Decision) -> list[GateFinding]:
    groups = defaultdict(list)
    for drift in decision.drifts:
        groups[drift.operator].append(drift)
    found = []
    for operator, members in sorted(groups.items()):
        lines = [
            f"{d.case}: {d.output} {d.criterion} {d.before:.3g} → {d.after:.3g} (×{d.factor:.3g})" for d in members
        ]
        cases = tuple(dict.fromkeys(drift.case for drift in members))
        title = f"accuracy drift: {operator}, {pluralize(len(cases), 'case')}"
        text, blocks = _first_lines(lines), decision.policy.strict_accuracy
        found.append(GateFinding(f"drift {operator}", title, text, blocks, cases))
    return found


def _outlier_findings(decision: Decision) -> list[GateFinding]:
    """Cases that pass with elements beyond what arithmetic allows: those that had none before, and the others."""
    blocking = {change.case for change in decision.blocking_outliers}
    groups: dict[tuple[str, bool], list[CaseChange]] = defaultdict(list)
    for change in decision.changes:
        if change.outliers:
            groups[change.operator, change.case in blocking].append(change)
    found = []
    for (operator, blocks), members in sorted(groups.items()):
        members.sort(key=lambda change: (change.elements, change.case))
        title = f"{'new ' * blocks}outliers: {operator}, {pluralize(len(members), 'case')}"
        text = _first_lines([f"{change.case}: {change.outlier_words}" for change in members])
        cases = tuple(change.case for change in members)
        found.append(GateFinding(f"{'new ' * blocks}outliers {operator}", title, text, blocks, cases))
    return found


def time_words(change: TimeChange) -> str:
    """The times of one case in words."""
    if change.ratio is None or change.before_ns is None or change.now_ns is None:
        return change.reason
    needed = f"; {change.needed} samples per run would be needed" if change.needed is not None else ""
    return f"{duration(change.before_ns)} → {duration(change.now_ns)}, {percent(change.ratio)}{needed}"


def summed_times(decision: Decision) -> list[str]:
    """How many cases had each answer about their times, and how all changed together; empty where none was timed."""
    performance = decision.performance
    if not performance.changes:
        return []
    counts = {answer.value: len(performance.answered(answer)) for answer in TimeVerdict}
    words = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
    together = [] if performance.shift is None else [f"all cases together: {percent(performance.shift)}"]
    return [f"times of {pluralize(len(performance.changes), 'case')}: {words}", *together]


def percent(ratio: Ratio) -> str:
    """108 % (101 % to 115 %)."""
    return f"{ratio.ratio * 100:.0f} % ({ratio.low * 100:.0f} % to {ratio.high * 100:.0f} %)"


def _first_lines(lines: Sequence[str]) -> str:
    return "\n".join([*lines[:_MAX_NAMED], *more(len(lines))])


def name_first(cases: Sequence[str]) -> str:
    """The first few names and how many more there are."""
    return ", ".join([*cases[:_MAX_NAMED], *more(len(cases))])


def more(number: int) -> list[str]:
    """The words after a list that was cut; empty if it was not."""
    return [f"… and {number - _MAX_NAMED} more"] if number > _MAX_NAMED else []


_MAX_CASES = 50


def markdown(decision: Decision) -> str:
    """A verdict, a table of transitions, then every finding with its cases."""
    return "\n".join(_markdown_lines(decision)).rstrip()


def _markdown_lines(decision: Decision) -> Iterator[str]:
    yield from (f"## Gate on {code(decision.backend)}: {verdict(decision)}", "")
    rows = decision.table
    yield from ("| transition | " + " | ".join(rows[0]) + " |", "|---" + "|---:" * len(rows[0]) + "|")
    for word, counts in rows[1].items():
        yield f"| {word.value} | " + " | ".join(str(number or "") for number in counts) + " |"
    yield ""
    if lines := summed_times(decision):
        yield from (" ".join(f"{line[0].upper()}{line[1:]}." for line in lines), "")
    found = findings(decision)
    for heading, blocks in (("Blocking", True), ("To know", False)):
        chosen = [finding for finding in found if finding.blocks is blocks]
        if chosen:
            yield from (f"### {heading}", "")
        for finding in chosen:
            yield from _finding_lines(finding)


def _finding_lines(finding: GateFinding) -> Iterator[str]:
    place = f" ({code(f'{finding.file}:{finding.line}')})" if finding.file else ""
    yield from (f"**{_escape(finding.title)}**{place}", "")
    # A fence longer than any in the text: whatever a backend printed stays text.
    fence = "`" * max(3, 1 + longest_ticks(finding.text))
    yield from (f"{fence}text", finding.text, fence, "")
    if finding.blocks and len(finding.cases) > 1:
        yield from (f"<details><summary>{pluralize(len(finding.cases), 'case')}</summary>", "")
        yield from (f"- {code(case)}" for case in finding.cases[:_MAX_CASES])
        if len(finding.cases) > _MAX_CASES:
            yield f"- … and {len(finding.cases) - _MAX_CASES} more"
        yield from ("", "</details>", "")


def code(text: str) -> str:
    """A code span that no character of the text ends."""
    return code_span(strip_to_line(text))


def _escape(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|&])", r"\\\1", " ".join(text.splitlines()))


# GitHub shows ten errors and ten warnings of a step and drops the rest without a word.
_MAX_ANNOTATIONS = 10
_TOOL = "mluops-test gate"


def github(decision: Decision) -> str:
    """One workflow command per line; the last line is for people."""
    lines = []
    for finding in _annotation_findings(findings(decision)):
        properties = {"file": finding.file, "line": str(finding.line or ""), "title": f"{_TOOL}: {finding.title}"}
        words = ",".join(f"{name}={_escape_property(value)}" for name, value in properties.items() if value)
        lines.append(f"::{'error' if finding.blocks else 'warning'} {words}::{_escape_data(finding.text)}")
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
        for finding in _annotation_findings(findings(decision))
    ]
    return json.dumps(entries, indent=1, ensure_ascii=False)


def _annotation_findings(found: Sequence[GateFinding]) -> list[GateFinding]:
    """At most ten blocking and ten other findings; the last of each kind sums up the rest."""
    chosen = []
    for blocks in (True, False):
        alike = [finding for finding in found if finding.blocks is blocks]
        if len(alike) > _MAX_ANNOTATIONS:
            rest = alike[_MAX_ANNOTATIONS - 1 :]
            cases = len({case for finding in rest for case in finding.cases})
            title = f"{len(rest)} more findings, {cases} cases"
            titles = "\n".join(finding.title for finding in rest[:_MAX_ANNOTATIONS])
            last = replace(rest[0], key="more", title=title, text=titles, file="", line=0)
            alike = [*alike[: _MAX_ANNOTATIONS - 1], last]
        chosen += alike
    return chosen


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")


_RATIO: Final = ("ratio", "low", "high")
_CASE: Final = shape_of(
    "GateCase",
    CaseChange,
    "case operator transition before now blocks reason fingerprint cause headline has_cause repro waiver:str|None "
    "outliers outliers_before",
)
_WAIVER: Final = shape_of("OutdatedWaiver", Waiver, "case failure owner expires file line problem:str text:str")
_DRIFT: Final = shape_of("GateDrift", Drift, "case output criterion before after factor limit blocks:bool")
_TIME: Final = shape_of(
    "GateTime",
    TimeChange,
    "case answer before_ns now_ns ratio:float|None low:float|None high:float|None needed_samples=needed reason "
    "blocks:bool",
)
_SHIFT: Final = shape_of("GateShift", Ratio, "answer ratio low high")
_TIMES: Final = shape_of("GateTimes", Performance, "noise", shift=_SHIFT | None, cases=list_of(_TIME))
GATE: Final = document_of(
    "gate",
    Decision,
    "verdict:str blocked exit_code backend compared other_values lacking isolated=is_isolated transitions "
    "blocking_outliers:list[str]",
    cases=list_of(_CASE),
    waivers=list_of(_WAIVER),
    drift=list_of(_DRIFT),
    performance=_TIMES,
)


def decision_to_json(decision: Decision) -> dict[str, Any]:
    """Everything as plain JSON values."""
    performance = decision.performance
    slow = {change.case for change in decision.blocking_times}
    times = [
        Overlay(change, blocks=change.case in slow, **{name: getattr(change.ratio, name, None) for name in _RATIO})
        for change in performance.changes
    ]
    places = (None if one.waiver is None else f"{one.waiver.file}:{one.waiver.line}" for one in decision.changes)
    return fill(
        GATE,
        decision,
        verdict=verdict(decision),
        cases=[Overlay(change, waiver=place) for change, place in zip(decision.changes, places, strict=True)],
        waivers=[Overlay(problem.waiver, problem=problem.word, text=problem.text) for problem in decision.problems],
        drift=[Overlay(drift, blocks=decision.policy.strict_accuracy) for drift in decision.drifts],
        blocking_outliers=[change.case for change in decision.blocking_outliers],
        performance=Overlay(performance, cases=times),
    )
