"""The decision as a comment on a change."""

import re
from collections.abc import Iterator

from mluops_gtest.gate.decision import Decision
from mluops_gtest.gate.findings import GateFinding, findings, percent, verdict
from mluops_gtest.model.counted import counted
from mluops_gtest.model.plain_text import plain_line
from mluops_gtest.timing.statistics import TimeVerdict

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
    if decision.performance.changes:
        yield from (_times(decision), "")
    found = findings(decision)
    for heading, blocks in (("Blocking", True), ("To know", False)):
        chosen = [finding for finding in found if finding.blocks is blocks]
        if chosen:
            yield from (f"### {heading}", "")
        for finding in chosen:
            yield from _finding(finding)


def _times(decision: Decision) -> str:
    performance = decision.performance
    words = [
        f"{len(performance.answered(answer))} {answer.value}" for answer in TimeVerdict if performance.answered(answer)
    ]
    text = f"Times of {counted(len(performance.changes), 'case')}: {', '.join(words)}."
    if performance.shift is not None:
        text += f" All cases together: {percent(performance.shift)}."
    return text


def _finding(finding: GateFinding) -> Iterator[str]:
    place = f" ({code(f'{finding.file}:{finding.line}')})" if finding.file else ""
    yield from (f"**{_plain(finding.title)}**{place}", "")
    # A fence longer than any in the text: whatever a backend printed stays text.
    fence = "`" * max(3, 1 + _longest_ticks(finding.text))
    yield from (f"{fence}text", finding.text, fence, "")
    if finding.blocks and len(finding.cases) > 1:
        yield f"<details><summary>{counted(len(finding.cases), 'case')}</summary>"
        yield ""
        yield from (f"- {code(case)}" for case in finding.cases[:_MAX_CASES])
        if len(finding.cases) > _MAX_CASES:
            yield f"- … and {len(finding.cases) - _MAX_CASES} more"
        yield from ("", "</details>", "")


def code(text: str) -> str:
    """A code span that no character of the text ends."""
    line = plain_line(text)
    ticks = "`" * (1 + _longest_ticks(line))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{space}{line}{space}{ticks}"


def _longest_ticks(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _plain(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|&])", r"\\\1", " ".join(text.splitlines()))
