"""The decision of the gate for a person at a terminal."""

from collections.abc import Iterator

from rich.table import Table

from mluops_gtest.gate.decision import Decision
from mluops_gtest.gate.findings import GateFinding, blockers, findings, summed_times, time_words, verdict
from mluops_gtest.gate.update import Update
from mluops_gtest.model.counted import counted
from mluops_gtest.reports.markup import escape
from mluops_gtest.reports.tables import LINE, table_of
from mluops_gtest.timing.statistics import TimeVerdict

_MAX_FINDINGS = 30
_MAX_NAMED = 10
_STYLES = {"blocking": "bold red", "with outliers": "yellow"}


def decision_page(decision: Decision) -> Iterator[Table | str]:
    """Transitions in a table, findings in paragraphs, the verdict last, where the eye is."""
    table = table_of((("transition",), LINE))
    heads, rows = decision.table
    for head in heads:
        table.add_column(head, justify="right", style=_STYLES.get(head, ""))
    for word, counts in rows.items():
        table.add_row(word.value, *(str(number or "") for number in counts))
    yield table
    if lines := summed_times(decision):
        yield from ("", *lines)
    for change in decision.performance.answered(TimeVerdict.FASTER)[:_MAX_NAMED]:
        yield f"[green]faster[/] {escape(change.case)}: {escape(time_words(change))}"
    found = findings(decision)
    for finding in found[:_MAX_FINDINGS]:
        yield from _finding(finding)
    if len(found) > _MAX_FINDINGS:
        yield f"\n… and {len(found) - _MAX_FINDINGS} more; --format json has all of them."
    colour = "bold red" if decision.blocked else "yellow" if decision.exit_code else "green"
    yield f"\n[{colour}]{escape(verdict(decision))}[/]"


def _finding(finding: GateFinding) -> Iterator[str]:
    yield ""
    place = f"  {finding.file}:{finding.line}" if finding.file else ""
    colour = "bold red" if finding.blocks else "yellow"
    yield f"[{colour}]{escape(finding.title)}[/]{escape(place)}"
    yield from (f"  {escape(line)}" for line in finding.text.splitlines())


def update_page(update: Update, written: str) -> Iterator[str]:
    """What was written, or why not."""
    decision = update.decision
    if decision.blocked:
        blocking = [finding for finding in findings(decision) if finding.blocks]
        for finding in blocking[:_MAX_FINDINGS]:
            yield from _finding(finding)
        if len(blocking) > _MAX_FINDINGS:
            yield f"\n… and {len(blocking) - _MAX_FINDINGS} more; --format json without --update has all of them."
        yield ""
        yield f"[bold red]not written[/]: {escape(blockers(decision))}"
        if decision.acceptable:
            words = " ".join(f"--accept {word.value}" for word in decision.acceptable)
            yield f"If you mean that: {words}"
        return
    for accept, case in decision.accepted:
        yield f"[yellow]accepted {accept.value}[/] {escape(case) or 'all cases together'}"
    for word, cases in (("added", update.added), ("changed", update.changed)):
        yield from (f"{word} {escape(case)}" for case in cases[:_MAX_NAMED])
        if len(cases) > _MAX_NAMED:
            yield f"… and {len(cases) - _MAX_NAMED} more {word}"
    yield (
        f"{escape(written)}: {counted(len(update.reference.cases), 'case')} "
        f"({len(update.added)} added, {len(update.dropped)} dropped, {len(update.changed)} with another outcome)"
    )
