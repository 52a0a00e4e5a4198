"""`mluops-test gate` and `mluops-test compare`: may a change be merged, and what differs between two runs?"""

import datetime
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from mluops_gtest.base.errors import ExitCode, UsageError
from mluops_gtest.base.files import replace_text
from mluops_gtest.base.gc_tuning import no_garbage_collection
from mluops_gtest.base.text import pluralize, short_value
from mluops_gtest.cli.echo import echo, echo_error, print_json
from mluops_gtest.cli.options import (
    LATEST,
    RESULTS,
    ParsedType,
    coverage_option,
    flag_option,
    format_option,
    value_option,
)
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.reports.terminal import FOLD, LINE, RIGHT, escape, table_of
from mluops_gtest.results.run_comparison import ReadingPair, Row, SideBySide

if TYPE_CHECKING:
    from mluops_gtest.results.gate import Decision
    from mluops_gtest.results.gate_findings import GateFinding
    from mluops_gtest.results.gate_request import Update

_MAX_FINDINGS = 30
_MAX_NAMED = 10
_STYLES = {"blocking": "bold red", "with outliers": "yellow"}


def _parse_baseline(text: str) -> Path:
    """The path; what `latest` stands for may be the very run that is judged."""
    if text == LATEST:
        raise ValueError(f"{LATEST} is no baseline; name one, e.g. --against baseline.json.")
    return Path(text)


@click.command("gate")
@click.argument("results", type=RESULTS)
@value_option(
    "--against BASELINE",
    ParsedType("path", _parse_baseline),
    "A results folder, a report.json or a committed baseline file, e.g. --against baseline.json.",
    required=True,
)
@value_option(
    "--waivers FILE",
    "existing file",
    "Known failures, each with an owner, a reason and an end date, e.g. --waivers waivers.yaml.",
)
@value_option(
    "--write-waivers new_waivers FILE",
    "path",
    "Write a new file of waivers for the failures that block; needs --owner, --expires and --reason, "
    "e.g. --write-waivers known.yaml --owner ann --expires 2027-03-31 --reason 'tile edges, bug 17'.",
)
@click.option("--owner", metavar="NAME", help="With --write-waivers: who looks after them, e.g. --owner ann.")
@click.option("--expires", metavar="DATE", help="With --write-waivers: their last day, e.g. --expires 2027-03-31.")
@click.option("--reason", metavar="TEXT", help="With --write-waivers: why they may fail, e.g. --reason 'bug 17'.")
@flag_option("--update", "Write RESULTS to the baseline file, unless the gate blocks them.")
@value_option(
    "--accept",
    click.Choice(["missing", "skipped", "slower"]),
    "With --update: accept and list these changes, still refuse all others, e.g. --accept missing.",
    multiple=True,
)
@flag_option("--subset", "Only require the cases that RESULTS selected.")
@flag_option("--cross-backend", "Allow RESULTS and BASELINE from different backends.")
@flag_option("--strict-accuracy", "Also block when a reading drifted.")
@value_option(
    "--drift-factor [OP=]N",
    None,
    "Report drift when a reading grew by more than this factor, for all operators or for one, "
    "e.g. --drift-factor voxel_pooling_forward=8.  [default: 4]",
    multiple=True,
)
@flag_option("--allow-outliers", "Let cases pass whose first elements beyond arithmetic appear now.")
@flag_option("--strict-perf", "Also block when times are inconclusive.")
@value_option(
    "--min-effect PERCENT",
    click.FloatRange(0, 100, min_open=True),
    "Ignore changes of time smaller than this, e.g. --min-effect 3.",
    default=5.0,
)
@value_option(
    "--aa again DIR",
    "existing",
    "Another --perf run of the baseline's build (with --update: of the build in RESULTS), to learn how much times "
    "vary without a change, e.g. --aa perf-2.",
    multiple=True,
)
@coverage_option
@flag_option(
    "--require-isolated", "Block results of a backend that ran in the process of the harness; numpy and reference may."
)
@format_option("table", "json", "markdown", "github", "gitlab", words="What to print, e.g. --format github.")
@no_garbage_collection()
def command(form: str, update: bool, new_waivers: Path | None, **options: Any) -> int:
    """Decide whether a change may be merged: compare RESULTS, a results folder or a report.json, with BASELINE.

    Cases block a merge when they regressed, fail newly, fail still without a waiver, are missing, newly skipped,
    suspect, not reached or slower, or pass with elements beyond what arithmetic allows where they had none.
    Waivers that are out of date block, too.

    Examples:
      mluops-test gate results --against baseline.json --update           start: write the file, then commit it
      mluops-test gate results --against baseline.json                    may this change be merged?
      mluops-test gate results --against baseline.json --waivers waivers.yaml
      mluops-test gate results --against baseline.json --write-waivers known.yaml --owner ann --expires 2027-03-31 \\
          --reason 'tile edges, bug 17'                                   take in what fails today
      mluops-test gate results --against last-night/                      any results folder or report.json works
      mluops-test gate results --against baseline.json --subset           RESULTS has only some of the cases
      mluops-test gate latest --against baseline.json                     the newest run under ./mluops-results
      mluops-test gate results --against baseline.json --format github    annotations on the change
      mluops-test gate results --against baseline.json --strict-accuracy --drift-factor voxel_pooling_forward=8
      mluops-test gate results --against baseline.json --update --accept missing     cases were removed on purpose
      mluops-test gate perf-1 --aa perf-2 --aa perf-3 --against baseline.json --update

    Exit codes: 0 may be merged, 1 blocked, 2 wrong usage, 3 waivers or baseline broken, 5 nothing or too little compared.
    """  # noqa: E501 - a line of the help page
    from mluops_gtest.cli.terminal import print_page, stdout
    from mluops_gtest.results.gate_reference import baseline_text
    from mluops_gtest.results.gate_request import GateRequest, make_update, reach_decision

    terms = _waiver_terms(new_waivers, {name: options.pop(name) for name in ("owner", "expires", "reason")})
    if update and terms:
        raise UsageError("--write-waivers beside --update: write the waivers first, look at them, then --update.")
    request = GateRequest(**options)
    if request.accept and not update:
        raise UsageError("--accept needs --update: it tells --update which changes to write.")
    if not update:
        decision = reach_decision(request)
        _print(decision, form, str(request.against))
        if new_waivers is not None:
            _write_waivers(new_waivers, decision, terms)
        return int(decision.exit_code)
    made = make_update(request)
    if not made.decision.blocked:
        replace_text(options["against"], baseline_text(made.reference))
    print_page(stdout(), _update_page(made, str(request.against)))
    return int(ExitCode.FAILED if made.decision.blocked else ExitCode.OK)


def _waiver_terms(file: Path | None, terms: dict[str, Any]) -> dict[str, Any]:
    """Returns owner, last day and reason of new waivers, checked before any file is read."""
    from mluops_gtest.results.gate_reference import day_of

    if file is None and not any(terms.values()):
        return {}
    if file is None or not all(value and value.strip() for value in terms.values()):
        raise UsageError(
            "--write-waivers needs --owner, --expires and --reason, and these need it: every known failure has an "
            "owner, an end and a reason."
        )
    expires = day_of(terms["expires"])
    if expires is None or expires < datetime.date.today():
        raise UsageError(f"--expires {terms['expires']}: write a day that is not over as YYYY-MM-DD.")
    if os.path.lexists(file):
        raise UsageError(f"--write-waivers {file}: the file exists; name a new one, then append it to your waivers.")
    return {**terms, "expires": expires}


def _write_waivers(file: Path, decision: "Decision", terms: dict[str, Any]) -> None:
    """Writes them; stderr says what they leave out, whatever format is printed."""
    from mluops_gtest.results.gate_findings import name_first
    from mluops_gtest.results.gate_request import new_waivers

    entries, left_out = new_waivers(decision, **terms)
    replace_text(file, "".join(entries) or "# Nothing that could be waived blocks.\n")
    for why, cases in left_out.items():
        echo_error(f"not in {file}: {why} ({name_first(cases)})")
    echo_error(f"{file}: {pluralize(len(entries), 'waiver')}; read, append to your own file, commit.")


def _print(decision: "Decision", form: str, against: str) -> None:
    from mluops_gtest.cli.terminal import print_page, stdout
    from mluops_gtest.results.gate_findings import decision_to_json, github, gitlab, markdown

    if form == "table":
        print_page(stdout(), _decision_page(decision))
    elif form == "json":
        print_json(decision_to_json(decision))
    elif form == "gitlab":
        echo(gitlab(decision, against))
    else:
        echo({"markdown": markdown, "github": github}[form](decision))


def _decision_page(decision: "Decision") -> Iterator[Table | str]:
    """Yields transitions in a table, findings in paragraphs, the verdict last, where the eye is."""
    from mluops_gtest.results.gate_findings import findings, summed_times, time_words, verdict
    from mluops_gtest.results.statistics import TimeVerdict

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
    yield from _paragraphs(findings(decision), "--format json")
    colour = "bold red" if decision.blocked else "yellow" if decision.exit_code else "green"
    yield f"\n[{colour}]{escape(verdict(decision))}[/]"


def _paragraphs(findings: "list[GateFinding]", all_of_them: str) -> Iterator[str]:
    """Yields the first findings; of more it says what shows all."""

    for finding in findings[:_MAX_FINDINGS]:
        place = f"  {finding.file}:{finding.line}" if finding.file else ""
        colour = "bold red" if finding.blocks else "yellow"
        yield f"\n[{colour}]{escape(finding.title)}[/]{escape(place)}"
        yield from (f"  {escape(line)}" for line in finding.text.splitlines())
    if len(findings) > _MAX_FINDINGS:
        yield f"\n… and {len(findings) - _MAX_FINDINGS} more; {all_of_them} has all of them."


def _update_page(update: "Update", file: str) -> Iterator[str]:
    """Yields what was written, or why not."""
    from mluops_gtest.results.gate_findings import blockers, findings

    decision = update.decision
    if decision.blocked:
        blocking = [finding for finding in findings(decision) if finding.blocks]
        yield from _paragraphs(blocking, "--format json without --update")
        yield f"\n[bold red]not written[/]: {escape(blockers(decision))}"
        if decision.acceptable:
            yield f"If you mean that: {' '.join(f'--accept {word.value}' for word in decision.acceptable)}"
        return
    for accept, case in decision.accepted:
        yield f"[yellow]accepted {accept.value}[/] {escape(case) or 'all cases together'}"
    for word, cases in (("added", update.added), ("changed", update.changed)):
        yield from (f"{word} {escape(case)}" for case in cases[:_MAX_NAMED])
        if len(cases) > _MAX_NAMED:
            yield f"… and {len(cases) - _MAX_NAMED} more {word}"
    yield (
        f"{escape(file)}: {pluralize(len(update.reference.cases), 'case')} "
        f"({len(update.added)} added, {len(update.dropped)} dropped, {len(update.changed)} with another outcome)"
    )


_ABSENT = "–"
_SHORT = "too short"


def _compare_page(both: SideBySide, *, everything: bool) -> Iterator[Table | str]:
    """Both runs in a line each, the operators, then the cases that differ, or all of them."""
    yield _headline("A", both.before)
    yield _headline("B", both.after)
    yield ""
    if both.before.labels or both.after.labels:
        yield from (_labels(both), "")
    yield _operators(both)
    rows = both.rows if everything else both.changed
    if rows:
        yield ""
        yield _cases(rows)
    yield ""
    if not both.same_values:
        yield "A and B have different values (--reseed): outcomes are compared, readings are not"
    differing = "outcome or readings" if both.same_values else "outcome"
    cases = pluralize(len(both.rows), "case")
    yield f"{cases}, {len(both.changed)} differ in {differing}, {len(both.worse)} are worse in B"


def _headline(name: str, report: RunReport) -> str:
    counts = ", ".join(f"{count} {word}" for word, count in report.summary.items()) or "no case"
    values = "" if report.reseed is None else f", --reseed {report.reseed}"
    backend = escape(str(report.backend.get("name", "")))
    return f"[bold]{name}[/]  {backend}, {escape(report.started)}{values}: {counts}"


def _labels(both: SideBySide) -> Table:
    """Every label of either run; those that differ stand out."""
    table = _compare_table("label", (), ("A", "B"))
    for name in dict.fromkeys((*both.before.labels, *both.after.labels)):
        before, after = both.before.labels.get(name), both.after.labels.get(name)
        words = [_ABSENT if value is None else escape(short_value(value)) for value in (before, after)]
        table.add_row(escape(name), *words, style=None if before == after else "bold")
    return table


def _operators(both: SideBySide) -> Table:
    table = _compare_table("operator", ("cases", "passed A", "passed B", "seconds A", "seconds B", "B/A"))
    for operator in sorted({row.operator for row in both.rows}):
        rows = [row for row in both.rows if row.operator == operator]
        # Times compare over the cases that both ran, without those too short to tell anything where there are others.
        timed = [row for row in rows if None not in row.seconds]
        long = [row for row in timed if not row.too_short]
        pairs = [(a, b) for a, b in (row.seconds for row in long or timed) if a is not None and b is not None]
        before, after = sum(a for a, _ in pairs), sum(b for _, b in pairs)
        table.add_row(
            escape(operator),
            str(len(rows)),
            _passed(row.before for row in rows),
            _passed(row.after for row in rows),
            f"{before:.3f}" if pairs else _ABSENT,
            f"{after:.3f}" if pairs else _ABSENT,
            _ratio(before, after) if long else _SHORT if timed else _ABSENT,
        )
    return table


def _cases(rows: Sequence[Row]) -> Table:
    table = _compare_table("case", ("ms A", "ms B", "B/A"), ("A", "B"), ("readings",))
    for row in rows:
        before, after = row.seconds
        times = [_ABSENT if side is None else f"{side * 1e3:.3f}" for side in (before, after)]
        ratio = _ratio(before, after) if before is not None and after is not None else _ABSENT
        ratio = _SHORT if row.too_short else ratio
        outcomes = (_outcome(row.before), _outcome(row.after))
        table.add_row(escape(row.case), *outcomes, *times, ratio, escape(_readings(row.readings)))
    return table


def _compare_table(first: str, right: Sequence[str], left: Sequence[str] = (), last: Sequence[str] = ()) -> Table:
    return table_of(((first,), FOLD), (left, LINE), (right, RIGHT), (last, FOLD))


def _passed(results: Iterator[CaseResult | None]) -> str:
    return str(sum(result is not None and result.outcome is Outcome.PASSED for result in results))


def _outcome(result: CaseResult | None) -> str:
    return "[dim]absent[/]" if result is None else f"[{result.outcome.tone.terminal}]{result.outcome.value}[/]"


def _readings(pairs: Sequence[ReadingPair]) -> str:
    return "; ".join(
        f"{pair.output} {pair.criterion} {_reading(pair.before)} → {_reading(pair.after)}"
        for pair in pairs
        if pair.changed
    )


def _reading(value: float | None) -> str:
    return _ABSENT if value is None else f"{value:.3g}"


def _ratio(before: float, after: float) -> str:
    return f"{after / before:.2f}" if before > 0 and math.isfinite(before) else _ABSENT


@click.command("compare")
@click.argument("before", metavar="A", type=RESULTS)
@click.argument("after", metavar="B", type=RESULTS)
@flag_option("--all everything", "Also show the cases that differ only in time.")
@flag_option("--gate", "Exit 1 when a case of A is missing in B or has a worse outcome there.")
@format_option("table", "json")
@no_garbage_collection()
def compare_runs(before: Path, after: Path, everything: bool, gate: bool, form: str) -> int:
    """Show two sets of results side by side: outcome, readings, time.

    A and B are results folders or report.json files; the backends may differ. The exit code is 0 unless you give
    --gate. Readings and times are shown, not judged: `mluops-test gate` judges them.

    Examples:
      mluops-test compare results-numpy results-mlu         what differs between two backends
      mluops-test compare before after --all                every case with readings and times
      mluops-test compare before after --gate               exit 1 when a case is worse in `after`
      mluops-test compare before after --format json        for programs
    """
    from mluops_gtest.results.folder import read_report
    from mluops_gtest.results.run_comparison import compare, comparison_to_json

    both = compare(read_report(before), read_report(after))
    if form == "json":
        print_json(comparison_to_json(both))
    else:
        from mluops_gtest.cli.terminal import print_page, stdout

        print_page(stdout(), _compare_page(both, everything=everything))
    if not gate:
        return int(ExitCode.OK)
    if not both.rows:
        return int(ExitCode.EMPTY)
    return int(ExitCode.FAILED if both.worse else ExitCode.OK)
