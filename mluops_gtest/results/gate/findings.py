"""The decision as findings, failures of one kind together: a list, a Markdown comment, annotations of CI systems.

The decision for programs.
"""

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from msgspec.structs import replace

from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import pluralize, strip_controls, strip_to_line
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import ISOLATION_OFF, grouped
from mluops_gtest.results.gate.decision import Accept, CaseChange, Decision, Lack, TimeChange
from mluops_gtest.results.gate.reference import Drift
from mluops_gtest.results.gate.waivers import WaiverProblem
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
    accuracy = (*_outliers(decision), *_drifts(decision), *_values(decision))
    found = [*_failures(decision), *_problems(decision), *_times(decision), *accuracy, *_isolation(decision)]
    return [_shown(finding) for finding in sorted(found, key=lambda finding: not finding.blocks)]


def _shown(finding: GateFinding) -> GateFinding:
    """Names and reasons come from outside; nothing in them may steer a terminal, a comment or an annotation."""
    cases = tuple(map(strip_to_line, finding.cases))
    title, file = strip_to_line(finding.title), strip_to_line(finding.file)
    return replace(finding, title=title, text=strip_controls(finding.text), cases=cases, file=file)


def _failures(decision: Decision) -> list[GateFinding]:
    """Cases with one cause are one finding, others by fingerprint; those without one by what became of them."""
    # The ledger's own finding names those that pass although waived, with the line of the entry.
    failing = [change for change in decision.blocking if change.now is not Outcome.XPASSED]
    groups = grouped(
        failing,
        lambda change: change.cause or change.fingerprint or change.transition.value,
        lambda change: (change.elements, change.case),
    )
    return [_failure(str(group.mark), group.members) for group in groups]


def _failure(key: str, members: Sequence[CaseChange]) -> GateFinding:
    first = next((member for member in members if member.is_example), members[0])
    counts = Counter(member.transition.value for member in members)
    words = ", ".join(f"{number} {word}" for word, number in sorted(counts.items()))
    outcomes = sorted({member.now.value for member in members if member.now is not None} - counts.keys())
    title = f"{words} ({', '.join(outcomes)})" if outcomes else words
    lines = [strip_to_line(first.headline), named([member.case for member in members]), strip_to_line(first.reason)]
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
            *_counted(len(decision.problems), "waiver to clear", "waivers to clear"),
            *_counted(len(decision.blocking_times), "case by its time", "cases by their times"),
            *(["all cases together slower"] if decision.blocks_by_shift else []),
            *_counted(len(decision.blocking_drifts), "reading that drifted", "readings that drifted"),
            *_counted(len(decision.blocking_outliers), "case with outliers", "cases with outliers"),
            *(["isolation was off"] if decision.blocks_by_isolation else []),
        ]
    )


def _counted(number: int, one: str, many: str) -> list[str]:
    return [f"{number} {one if number == 1 else many}"] if number else []


def _isolation(decision: Decision) -> list[GateFinding]:
    if decision.is_isolated or (decision.is_isolated is None and not decision.blocks_by_isolation):
        return []
    said = ISOLATION_OFF if decision.is_isolated is False else "RESULTS does not say that the backend ran in workers."
    text = f"{said} Run it again with --isolate." if decision.blocks_by_isolation else said
    return [GateFinding("isolation", "isolation was off", text, decision.blocks_by_isolation)]


def _problems(decision: Decision) -> list[GateFinding]:
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


def _times(decision: Decision) -> list[GateFinding]:
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
        lines = [*(f"{change.case}: {change.reason}" for change in short[:_MAX_NAMED]), *more(len(short))]
        title = f"too short to judge: times of {pluralize(len(short), 'case')}"
        found.append(GateFinding("too short", title, "\n".join(lines), False, tuple(change.case for change in short)))
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


def _drifts(decision: Decision) -> list[GateFinding]:
    groups = defaultdict(list)
    for drift in decision.drifts:
        groups[drift.operator].append(drift)
    found = []
    for operator, members in sorted(groups.items()):
        texts = [
            f"{d.case}: {d.output} {d.criterion} {d.before:.3g} → {d.after:.3g} (×{d.factor:.3g})"
            for d in members[:_MAX_NAMED]
        ]
        cases = tuple(dict.fromkeys(drift.case for drift in members))
        title = f"accuracy drift: {operator}, {pluralize(len(cases), 'case')}"
        text = "\n".join([*texts, *more(len(members))])
        found.append(GateFinding(f"drift {operator}", title, text, decision.policy.strict_accuracy, cases))
    return found


def _outliers(decision: Decision) -> list[GateFinding]:
    """Cases that pass with elements beyond what arithmetic allows: those that had none before, and the others."""
    blocking = {change.case for change in decision.blocking_outliers}
    groups: dict[tuple[str, bool], list[CaseChange]] = defaultdict(list)
    for change in decision.changes:
        if change.outliers:
            groups[change.operator, change.case in blocking].append(change)
    found = []
    for (operator, blocks), members in sorted(groups.items()):
        members.sort(key=lambda change: (change.elements, change.case))
        texts = [f"{change.case}: {change.outlier_words}" for change in members[:_MAX_NAMED]]
        title = f"{'new ' * blocks}outliers: {operator}, {pluralize(len(members), 'case')}"
        text = "\n".join([*texts, *more(len(members))])
        cases = tuple(change.case for change in members)
        found.append(GateFinding(f"{'new ' * blocks}outliers {operator}", title, text, blocks, cases))
    return found


def _values(decision: Decision) -> list[GateFinding]:
    if not decision.other_values:
        return []
    text = f"{decision.other_values}. Outcomes are compared, readings and times are not."
    return [GateFinding("other values", "accuracy drift: not checked", text, False)]


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


def named(cases: Sequence[str]) -> str:
    """The first few names and how many more there are."""
    return ", ".join([*cases[:_MAX_NAMED], *more(len(cases))])


def more(number: int) -> list[str]:
    """The words after a list that was cut; empty if it was not."""
    return [f"… and {number - _MAX_NAMED} more"] if number > _MAX_NAMED else []


_MAX_CASES = 50


def markdown(decision: Decision) -> str:
    """A verdict, a table of transitions, then every finding with its cases."""
    return "\n".join(_lines(decision)).rstrip()


def _lines(decision: Decision) -> Iterator[str]:
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
            yield from _finding(finding)


def _finding(finding: GateFinding) -> Iterator[str]:
    place = f" ({code(f'{finding.file}:{finding.line}')})" if finding.file else ""
    yield from (f"**{_plain(finding.title)}**{place}", "")
    # A fence longer than any in the text: whatever a backend printed stays text.
    fence = "`" * max(3, 1 + _longest_ticks(finding.text))
    yield from (f"{fence}text", finding.text, fence, "")
    if finding.blocks and len(finding.cases) > 1:
        yield f"<details><summary>{pluralize(len(finding.cases), 'case')}</summary>"
        yield ""
        yield from (f"- {code(case)}" for case in finding.cases[:_MAX_CASES])
        if len(finding.cases) > _MAX_CASES:
            yield f"- … and {len(finding.cases) - _MAX_CASES} more"
        yield from ("", "</details>", "")


def code(text: str) -> str:
    """A code span that no character of the text ends."""
    line = strip_to_line(text)
    ticks = "`" * (1 + _longest_ticks(line))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{space}{line}{space}{ticks}"


def _longest_ticks(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _plain(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|&])", r"\\\1", " ".join(text.splitlines()))


# GitHub shows ten errors and ten warnings of a step and drops the rest without a word.
_MAX_ANNOTATIONS = 10
_TOOL = "mluops-test gate"


def github(decision: Decision) -> str:
    """One workflow command per line; the last line is for people."""
    lines = []
    for finding in _annotation_findings(findings(decision)):
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
        for finding in _annotation_findings(findings(decision))
    ]
    return json.dumps(entries, indent=1, ensure_ascii=False)


def _annotation_findings(found: Sequence[GateFinding]) -> list[GateFinding]:
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


def decision_to_json(decision: Decision) -> dict[str, Any]:
    """Everything as plain JSON values."""
    performance = decision.performance
    slow = {change.case for change in decision.blocking_times}
    return {
        "format": 1,
        "verdict": verdict(decision),
        "blocked": decision.blocked,
        "exit_code": int(decision.exit_code),
        "backend": decision.backend,
        "compared": decision.compared,
        "other_values": decision.other_values,
        "lacking": decision.lacking,
        "isolated": decision.is_isolated,
        "transitions": {word.value: number for word, number in decision.transitions.items()},
        "cases": [_change(change) for change in decision.changes],
        "waivers": [_problem(problem) for problem in decision.problems],
        "drift": [_drift(drift, blocks=decision.policy.strict_accuracy) for drift in decision.drifts],
        "blocking_outliers": [change.case for change in decision.blocking_outliers],
        "performance": {
            "noise": performance.noise,
            "shift": None if performance.shift is None else _ratio(performance.shift),
            "cases": [_time(change, blocks=change.case in slow) for change in performance.changes],
        },
    }


def _change(change: CaseChange) -> dict[str, Any]:
    return {
        "case": change.case,
        "operator": change.operator,
        "transition": change.transition.value,
        "before": _word(change.before),
        "now": _word(change.now),
        "blocks": change.blocks,
        "reason": change.reason,
        "fingerprint": change.fingerprint,
        **({"cause": change.cause, "headline": change.headline, "has_cause": change.has_cause} if change.cause else {}),
        "repro": change.repro,
        "waiver": None if change.waiver is None else f"{change.waiver.file}:{change.waiver.line}",
        "outliers": change.outliers,
        "outliers_before": change.outliers_before,
    }


def _word(outcome: Outcome | None) -> str | None:
    return None if outcome is None else outcome.value


def _problem(problem: WaiverProblem) -> dict[str, Any]:
    waiver = problem.waiver
    return {
        "case": waiver.case,
        "failure": waiver.failure,
        "owner": waiver.owner,
        "expires": waiver.expires.isoformat(),
        "file": waiver.file,
        "line": waiver.line,
        "problem": problem.word,
        "text": problem.text,
    }


def _drift(drift: Drift, *, blocks: bool) -> dict[str, Any]:
    return {
        "case": drift.case,
        "output": drift.output,
        "criterion": drift.criterion,
        "before": drift.before,
        "after": drift.after,
        "factor": drift.factor,
        "limit": drift.limit,
        "blocks": blocks,
    }


def _time(change: TimeChange, *, blocks: bool) -> dict[str, Any]:
    return {
        "case": change.case,
        "answer": change.answer.value,
        "before_ns": change.before_ns,
        "now_ns": change.now_ns,
        **(_ratio(change.ratio) if change.ratio is not None else {"ratio": None, "low": None, "high": None}),
        "needed_samples": change.needed,
        "reason": change.reason,
        "blocks": blocks,
    }


def _ratio(ratio: Ratio) -> dict[str, Any]:
    return {"answer": ratio.answer.value, "ratio": ratio.ratio, "low": ratio.low, "high": ratio.high}
