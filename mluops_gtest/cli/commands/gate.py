"""`mluops-test gate`: the decision, for a person at a terminal and for CI."""

import datetime
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mluops_gtest.base.errors import ExitCode, UsageError
from mluops_gtest.base.files import replace_text
from mluops_gtest.base.gc_tuning import no_garbage_collection
from mluops_gtest.base.text import pluralize
from mluops_gtest.cli.echo import echo, echo_error
from mluops_gtest.cli.options import coverage_option, format_option

if TYPE_CHECKING:
    from rich.table import Table

    from mluops_gtest.results.gate import Decision
    from mluops_gtest.results.gate_findings import GateFinding
    from mluops_gtest.results.gate_request import Update

_MAX_FINDINGS = 30
_MAX_NAMED = 10
_STYLES = {"blocking": "bold red", "with outliers": "yellow"}
_EPILOG = """\b
Examples:
  mluops-test gate results --against baseline.json --update           start: write the file, then commit it
  mluops-test gate results --against baseline.json                    may this change be merged?
  mluops-test gate results --against baseline.json --waivers waivers.yaml
  mluops-test gate results --against baseline.json --write-waivers known.yaml --owner ann --expires 2027-03-31 \\
      --reason 'tile edges, bug 17'                                   take in what fails today
  mluops-test gate results --against last-night/                      any results folder or report.json works
  mluops-test gate results --against baseline.json --subset           RESULTS has only some of the cases
  mluops-test gate results --against baseline.json --format github    annotations on the change
  mluops-test gate results --against baseline.json --strict-accuracy --drift-factor voxel_pooling_forward=8
  mluops-test gate results --against baseline.json --update --accept missing     cases were removed on purpose
  mluops-test gate perf-1 --aa perf-2 --aa perf-3 --against baseline.json --update

\b
Exit codes: 0 may be merged, 1 blocked, 2 wrong usage, 3 waivers or baseline broken, 5 nothing or too little compared.
"""
_FOLDER_OR_FILE = click.Path(path_type=Path, exists=True)


@click.command("gate", epilog=_EPILOG)
@click.argument("results", type=_FOLDER_OR_FILE)
@click.option(
    "--against",
    required=True,
    type=click.Path(path_type=Path),
    metavar="BASELINE",
    help="A results folder, a report.json or a committed baseline file, e.g. --against baseline.json.",
)
@click.option(
    "--waivers",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Known failures, each with an owner, a reason and an end date, e.g. --waivers waivers.yaml.",
)
@click.option(
    "--write-waivers",
    "new_waivers",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a new file of waivers for the failures that block; needs --owner, --expires and --reason, "
    "e.g. --write-waivers known.yaml --owner ann --expires 2027-03-31 --reason 'tile edges, bug 17'.",
)
@click.option("--owner", metavar="NAME", help="With --write-waivers: who looks after them, e.g. --owner ann.")
@click.option("--expires", metavar="DATE", help="With --write-waivers: their last day, e.g. --expires 2027-03-31.")
@click.option("--reason", metavar="TEXT", help="With --write-waivers: why they may fail, e.g. --reason 'bug 17'.")
@click.option("--update", is_flag=True, help="Write RESULTS to the baseline file, unless the gate blocks them.")
@click.option(
    "--accept",
    multiple=True,
    type=click.Choice(["missing", "skipped", "slower"]),
    help="With --update: accept and list these changes, still refuse all others, e.g. --accept missing.",
)
@click.option("--subset", is_flag=True, help="Only require the cases that RESULTS selected.")
@click.option("--cross-backend", is_flag=True, help="Allow RESULTS and BASELINE from different backends.")
@click.option("--strict-accuracy", is_flag=True, help="Also block when a reading drifted.")
@click.option(
    "--drift-factor",
    multiple=True,
    metavar="[OP=]N",
    help="Report drift when a reading grew by more than this factor, for all operators or for one, "
    "e.g. --drift-factor voxel_pooling_forward=8.  [default: 4]",
)
@click.option(
    "--allow-outliers", is_flag=True, help="Let cases pass whose first elements beyond arithmetic appear now."
)
@click.option("--strict-perf", is_flag=True, help="Also block when times are inconclusive.")
@click.option(
    "--min-effect",
    type=click.FloatRange(0, 100, min_open=True),
    default=5.0,
    show_default=True,
    metavar="PERCENT",
    help="Ignore changes of time smaller than this, e.g. --min-effect 3.",
)
@click.option(
    "--aa",
    "again",
    multiple=True,
    type=_FOLDER_OR_FILE,
    metavar="DIR",
    help="Another --perf run of the baseline's build (with --update: of the build in RESULTS), to learn how much times "
    "vary without a change, e.g. --aa perf-2.",
)
@coverage_option
@click.option(
    "--require-isolated",
    is_flag=True,
    help="Block results of a backend that ran in the process of the harness; numpy and reference may.",
)
@format_option("table", "json", "markdown", "github", "gitlab", words="What to print, e.g. --format github.")
@no_garbage_collection()
def command(form: str, update: bool, new_waivers: Path | None, **options: Any) -> int:
    """Decide whether a change may be merged: compare RESULTS, a results folder or a report.json, with BASELINE.

    Cases block a merge when they regressed, fail newly, fail still without a waiver, are missing, newly skipped,
    suspect, not reached or slower, or pass with elements beyond what arithmetic allows where they had none.
    Waivers that are out of date block, too.
    """
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

    match form:
        case "table":
            print_page(stdout(), _decision_page(decision))
        case "json":
            echo(json.dumps(decision_to_json(decision), indent=1, ensure_ascii=False, allow_nan=False))
        case "markdown":
            echo(markdown(decision))
        case "github":
            echo(github(decision))
        case _:
            echo(gitlab(decision, against))


def _decision_page(decision: "Decision") -> "Iterator[Table | str]":
    """Yields transitions in a table, findings in paragraphs, the verdict last, where the eye is."""
    from mluops_gtest.results.gate_findings import findings, summed_times, time_words, verdict
    from mluops_gtest.results.reports.terminal import LINE, escape, table_of
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
    from mluops_gtest.results.reports.terminal import escape

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
    from mluops_gtest.results.reports.terminal import escape

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
