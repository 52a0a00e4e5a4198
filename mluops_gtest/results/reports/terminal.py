"""What a person sees of a run: a line per case if wanted, a table per operator, every failure with its reason."""

import heapq
import io
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table

from mluops_gtest.base.text import pluralize, strip_controls, strip_to_line
from mluops_gtest.catalog.root import BUILTIN, recorded_roots
from mluops_gtest.core import cause
from mluops_gtest.core.cause import Leak, format_reason
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import ISOLATION_OFF, CaseFinished, Event, RunReport, backend_of
from mluops_gtest.core.result import (
    Arbitration,
    CaseResult,
    StressReading,
    format_arbitration,
    format_worst,
    format_worst_outlier,
    summarize_arbitrations,
)

if TYPE_CHECKING:
    from mluops_gtest.judging.groups import CauseGroup

# As rich reads it: what looks like a tag, with the backslashes before it.
_TAG = re.compile(r"(\\*)(\[[a-z#/@][^[]*?])")
_AT_END = re.compile(r"\\$")
# How the cells of a column stand: broken into lines where there is no room, never broken, or figures.
FOLD: Final[Mapping[str, Any]] = {"overflow": "fold"}
LINE: Final[Mapping[str, Any]] = {"no_wrap": True}
RIGHT: Final[Mapping[str, Any]] = {"justify": "right", "no_wrap": True}


def escape(text: str) -> str:
    """The text as it is, on one line: never a tag, never an end of one of ours, no control character."""
    return _escaped(strip_to_line(text))


def escape_lines(text: str) -> list[str]:
    """The same line by line."""
    return [_escaped(line) for line in strip_controls(text).splitlines()]


def _escaped(text: str) -> str:
    # A backslash at the end would take the bracket that follows for itself.
    return _AT_END.sub(r"\\x5c", _TAG.sub(r"\1\1\\\2", text))


def table_of(*groups: tuple[Iterable[str], Mapping[str, Any]]) -> Table:
    """A table with these columns; those of a group stand alike."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for columns, how in groups:
        for column in columns:
            table.add_column(column, **how)
    return table


class RunFacts:
    """Counts, and of what is rare the thing itself."""

    def __init__(self, results: Iterable[CaseResult] = ()) -> None:
        self.cases = 0
        # By operator.
        self.outcomes: dict[str, Counter[Outcome]] = defaultdict(Counter)
        self.seconds: dict[str, float] = defaultdict(float)
        # The reasons of cases that were skipped or not run, and how often each occurs.
        self.not_tested: dict[Outcome, Counter[str]] = {Outcome.SKIPPED: Counter(), Outcome.NOT_RUN: Counter()}
        # Those of them that name an operator which nobody knows here: least is lost there.
        self.foreign: set[str] = set()
        # Cases that do not block and have notes, and the first note.
        self.noted = 0
        self.first_note = ""
        # Elements beyond what arithmetic allows in cases that do not block; the case that has the worst of them.
        self.with_outliers = self.outliers = 0
        self.precisions: set[str] = set()
        self.outlier: CaseResult | None = None
        self._worst_ratio = -1.0
        self.arbitrated: list[Arbitration] = []
        self.stress: list[StressReading] = []
        # Of cases that do not block.
        self.leaks: dict[str, Leak] = {}
        self.hosts: dict[str, Counter[Outcome]] = defaultdict(Counter)
        for result in results:
            self.add(result)

    def add(self, result: CaseResult) -> None:
        """One more result."""
        self.cases += 1
        operator, outcome = result.operator or "?", result.outcome
        self.outcomes[operator][outcome] += 1
        self.seconds[operator] += result.seconds
        if outcome in self.not_tested:
            self.not_tested[outcome][result.reason] += 1
            if any(isinstance(one, cause.UnknownOperator) for one in result.causes):
                self.foreign.add(result.reason)
        if result.host:
            self.hosts[result.host][outcome] += 1
        if result.stress is not None:
            self.stress.append(result.stress)
        self.arbitrated.extend(result.arbitrated)
        if outcome.blocks:
            return
        if result.leak is not None:
            self.leaks[result.case] = result.leak
        if result.outliers:
            self.with_outliers += 1
            self.outliers += result.outliers
            self.precisions.update(reading.precision for reading in result.elements if reading.beyond)
            ratio = max(reading.ratio for reading in result.elements)
            if ratio > self._worst_ratio:
                self.outlier, self._worst_ratio = result, ratio
        elif result.notes and result.leak is None:
            self.first_note = self.first_note or f"{result.case}: {result.notes[0]}"
            self.noted += 1


_MAX_GROUPS = 20
_MAX_OTHERS = 3
_MAX_SKIP_REASONS = 8
_MAX_OUTPUT_LINES = 20
# No terminal cuts the lines of a file.
_WIDE = 200


class TerminalReporter:
    """Listens to a run; `verbosity` −1 says only the end, 0 adds tables and failures, 1 every case.

    The summary names a few cases of each group of failures, `whole` names all of them; `durations` is how many of the
    slowest cases it names.
    """

    def __init__(self, out: Console, verbosity: int = 0, *, whole: bool = False, durations: int = 0) -> None:
        self._out = out
        self._whole = whole
        self._durations = durations
        self._verbosity = verbosity
        self._facts = RunFacts()

    def __call__(self, event: Event) -> None:
        if isinstance(event, CaseFinished):
            self._facts.add(event.result)
            if self._verbosity > 0:
                self._case(event.result)

    def _case(self, result: CaseResult) -> None:
        word = f"[{result.outcome.tone.terminal}]{result.outcome.value:12}[/]"
        reason = f"  {escape(result.reason)}" if result.reason else ""
        self._out.print(f"{word} {escape(result.case)}  {result.seconds * 1e3:.2f} ms{reason}", soft_wrap=True)
        for line in output_lines(result):
            self._out.print(line, soft_wrap=True)
        if not result.outcome.blocks:
            for line in (*arbitration_lines(result), *(f"  note: {escape(note)}" for note in result.notes)):
                self._out.print(line, soft_wrap=True)

    def summary(self, report: RunReport, where: str) -> None:
        """The tables, the failures and the closing lines; results that were not heard of are read."""
        facts = self._facts if self._facts.cases == len(report.results) else RunFacts(report.results)
        if self._verbosity >= 0:
            self._out.print(operator_table(facts))
            self._failures(report, where)
            self._skips(facts)
            for word, line in _remarks(facts):
                self._out.print(f"[yellow]{word}[/] {escape(line)}", soft_wrap=True)
        if self._durations:
            self._out.print(slowest_table(report.results, self._durations))
        counts = ", ".join(f"{n} {outcome}" for outcome, n in report.summary.items())
        lack = report.tally.coverage_words(report.required_coverage)
        backend = escape(backend_of(report))
        self._out.print(f"{counts} in {report.seconds:.1f} s on {backend}{lack}", soft_wrap=True)
        labels = ", ".join(f"{name}={value}" for name, value in report.labels.items())
        for words in (
            escape(host_words(facts)),
            ISOLATION_OFF if report.is_isolated is False else "",
            "" if report.reseed is None else reseed_words(report),
            f"Labels: {escape(labels)}" if labels and (self._verbosity > 0 or self._whole) else "",
            escape(content_words(report)),
            f"Results: {escape(where)}" if where else "",
        ):
            if words:
                self._out.print(words, soft_wrap=True)

    def _failures(self, report: RunReport, where: str) -> None:
        """A block per group of failures that look like one mistake."""
        failures = report.failing
        if not failures:
            return
        # Late: a run that passes never loads what explains failures.
        from mluops_gtest.judging.groups import cause_groups

        groups = cause_groups(failures, report.results, report.shapes)
        everything = shlex.join(["mluops-test", "report", where, "--format", "text"])
        for group in groups[: None if self._whole else _MAX_GROUPS]:
            self._out.print()
            for line in self._group_lines(group, everything):
                self._out.print(line, soft_wrap=True)
        if len(groups) > _MAX_GROUPS and not self._whole:
            rest = sum(len(group.members) for group in groups[_MAX_GROUPS:])
            words = f"… and {rest} more cases that fail in {len(groups) - _MAX_GROUPS} other ways: {everything}"
            self._out.print(f"\n{escape(words)}", soft_wrap=True)
        self._out.print()

    def _group_lines(self, group: "CauseGroup", everything: str) -> Iterator[str]:
        """What the cases of a group share, one that shows it as a failure of its own, the names of the others."""
        from mluops_gtest.core.readings import format_headline, format_support

        if group.headline is not None:
            yield f"[bold]{escape(format_headline(group.headline))}[/]"
            yield from (f"  {escape(words)}" for words in format_support(group.headline))
            yield from [f"  cause:  {group.mark}"] if self._whole else []
        head, *lines = failure_lines(group.example, verbose=self._verbosity > 0)
        names = [escape(result.case) for result in group.members if result is not group.example]
        yield head + (f" and {len(names)} more in the same way" if names else "")
        yield from lines
        if not names:
            return
        if self._whole:
            yield from ("  others:", *(f"    {name}" for name in names))
            return
        cut = len(names) > _MAX_OTHERS
        rest = f" and {len(names) - _MAX_OTHERS} more, to list them: {escape(everything)}" if cut else ""
        yield f"  others: {', '.join(names[:_MAX_OTHERS])}{rest}"

    def _skips(self, facts: RunFacts) -> None:
        for outcome, reasons in facts.not_tested.items():
            ordered = sorted(reasons.most_common(), key=lambda item: item[0] in facts.foreign)
            rest = sum(count for _, count in ordered[_MAX_SKIP_REASONS:])
            more = [("for other reasons, -v shows all", rest)] if rest else []
            for reason, count in (*ordered[:_MAX_SKIP_REASONS], *more):
                word = f"[{outcome.tone.terminal}]{outcome.value}[/]"
                self._out.print(f"{word} {count}: {escape(reason)}", soft_wrap=True)


def _remarks(facts: RunFacts) -> Iterator[tuple[str, str]]:
    """A word and a line for what failed no case: tolerated, beyond arithmetic, disputed, varying, leaking."""
    if facts.noted:
        rest = facts.noted - 1
        have = "has" if rest == 1 else "have"
        more = f"; {pluralize(rest, 'more case')} {have} notices, -v shows all" if rest else ""
        yield "notice", f"{facts.first_note}{more}"
    if facts.outlier is not None:
        yield "beyond", outlier_words(facts, facts.outlier)
    if facts.arbitrated:
        yield "arbitrated", summarize_arbitrations(facts.arbitrated)
    if facts.stress:
        yield "stress", stress_words(facts.stress)
    for case, leak in facts.leaks.items():
        yield "leak", f"{case} {format_reason((leak,))}; --fail-on-leak fails such cases"


def host_words(facts: RunFacts) -> str:
    """How each host of a cluster fared; empty where all cases ran on one."""
    if len(facts.hosts) < 2:
        return ""
    counts = (
        f"{host}: {', '.join(f'{count} {outcome.value}' for outcome, count in tally.items())}"
        for host, tally in sorted(facts.hosts.items())
    )
    return f"Hosts: {'; '.join(counts)}"


def stress_words(readings: Sequence[StressReading]) -> str:
    """How often cases were repeated with how many threads, and how many of them failed or left other bits."""
    threads = sorted({row.threads for reading in readings for row in reading.by_threads})
    repetitions = sum(reading.repetitions for reading in readings)
    failing = sum(reading.failed > 0 for reading in readings)
    varying = sum(reading.differing > 0 and reading.failed == 0 for reading in readings)
    return (
        f"{pluralize(repetitions, 'repetition')} of {pluralize(len(readings), 'case')} with "
        f"{', '.join(map(str, threads))} threads: {pluralize(failing, 'case')} failed in some, "
        f"{pluralize(varying, 'case')} left other bits that pass"
    )


def outlier_words(facts: RunFacts, worst: CaseResult) -> str:
    """How many elements of cases that pass no order of operations explains, and the worst of them."""
    return (
        f"{pluralize(facts.with_outliers, 'case')} passed with {pluralize(facts.outliers, 'element')} "
        f"that no order of {' or '.join(sorted(facts.precisions))} operations explains, "
        f"the worst in {worst.case}: {format_worst_outlier(worst)}; --elementwise fails such cases"
    )


def render_text(report: RunReport, *_: object) -> list[str]:
    """The summary of a run as plain text in one piece, with the name of every case that failed."""
    text = io.StringIO()
    console = Console(file=text, width=_WIDE, highlight=False, soft_wrap=True, force_terminal=False, color_system=None)
    TerminalReporter(console, whole=True).summary(report, "")
    return [text.getvalue()]


def content_words(report: RunReport) -> str:
    """The content roots and the settings file, where they are not the default ones."""
    roots, settings = recorded_roots(report.selection), report.environment.get("settings")
    words = [f"Roots: {', '.join(roots)}"] if roots != [BUILTIN] else []
    return "; ".join([*words, *([f"Settings: {settings}"] if settings else [])])


def reseed_words(report: RunReport) -> str:
    """The seed, and how much of the run it reached."""
    tally = report.tally
    again = f"; {tally.redrawn} drew more than once to meet their conditions" if tally.redrawn else ""
    same = f"{pluralize(tally.fixed, 'case')} {'is' if tally.fixed == 1 else 'are'} the same without it"
    return f"Values of --reseed {report.reseed}; {same}{again}"


def operator_table(facts: RunFacts) -> Table:
    """A row per operator: how many cases of each outcome, and the seconds inside the backend."""
    counts, seconds = facts.outcomes, facts.seconds
    present = [outcome for outcome in Outcome if any(row[outcome] for row in counts.values())]
    table = table_of((("operator",), LINE), (("cases",), {"justify": "right"}))
    for outcome in present:
        table.add_column(outcome.value, justify="right", style=outcome.tone.terminal)
    table.add_column("backend s", justify="right")
    for operator in sorted(counts):
        row = counts[operator]
        cells = [str(row[outcome]) if row[outcome] else "" for outcome in present]
        table.add_row(escape(operator), str(row.total()), *cells, f"{seconds[operator]:.2f}")
    return table


def slowest_table(results: Iterable[CaseResult], number: int) -> Table:
    """The cases that spent most seconds inside the backend, the slowest first."""
    table = table_of((("backend ms",), RIGHT), (("slowest cases",), FOLD))
    for result in heapq.nlargest(number, results, key=lambda one: one.seconds):
        table.add_row(f"{result.seconds * 1e3:.2f}", escape(result.case))
    return table


def output_lines(result: CaseResult) -> Iterable[str]:
    """What the backend printed, set off from our own lines."""
    return (f"  | {line}" for line in escape_lines(result.output))


def arbitration_lines(result: CaseResult) -> Iterable[str]:
    """Who is right about each output that is in dispute."""
    return (escape(f"  exact:  {format_arbitration(found)}") for found in result.arbitrated)


def failure_lines(result: CaseResult, *, verbose: bool) -> Iterable[str]:
    """A failure in a few lines: what, why, where, and the command that repeats it."""
    yield f"[{result.outcome.tone.terminal}]{result.outcome.value}[/] [bold]{escape(result.case)}[/]"
    yield f"  reason: {escape(result.reason)}"
    if result.worst is not None:
        yield escape(f"  worst:  {format_worst(result)}")
    yield from arbitration_lines(result)
    if not verbose:
        # With -v it stands beside the case already.
        yield from list(output_lines(result))[-_MAX_OUTPUT_LINES:]
    for note in result.notes:
        if verbose or result.outcome is Outcome.ERROR:
            yield from (f"  | {line}" for line in escape_lines(note))
    yield f"  repro:  {escape(result.repro)}"
    if result.debug:
        yield f"  debug:  {escape(result.debug)}"
