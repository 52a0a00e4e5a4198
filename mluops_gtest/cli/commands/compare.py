"""`mluops-test compare`: two sets of results side by side."""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.table import Table

from mluops_gtest.base.errors import ExitCode
from mluops_gtest.base.gc_tuning import no_garbage_collection
from mluops_gtest.base.text import pluralize, short_value
from mluops_gtest.cli.echo import echo
from mluops_gtest.cli.options import format_option
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.reports.terminal import FOLD, LINE, RIGHT, escape, table_of
from mluops_gtest.results.run_comparison import ReadingPair, Row, SideBySide

_ABSENT = "–"
_SHORT = "too short"


def _page(both: SideBySide, *, everything: bool) -> Iterator[Table | str]:
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
    table = _table("label", (), ("A", "B"))
    for name in dict.fromkeys((*both.before.labels, *both.after.labels)):
        before, after = both.before.labels.get(name), both.after.labels.get(name)
        words = [_ABSENT if value is None else escape(short_value(value)) for value in (before, after)]
        table.add_row(escape(name), *words, style=None if before == after else "bold")
    return table


def _operators(both: SideBySide) -> Table:
    table = _table("operator", ("cases", "passed A", "passed B", "seconds A", "seconds B", "B/A"))
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
    table = _table("case", ("ms A", "ms B", "B/A"), ("A", "B"), ("readings",))
    for row in rows:
        before, after = row.seconds
        times = [_ABSENT if side is None else f"{side * 1e3:.3f}" for side in (before, after)]
        ratio = _ratio(before, after) if before is not None and after is not None else _ABSENT
        ratio = _SHORT if row.too_short else ratio
        outcomes = (_outcome(row.before), _outcome(row.after))
        table.add_row(escape(row.case), *outcomes, *times, ratio, escape(_readings(row.readings)))
    return table


def _table(first: str, right: Sequence[str], left: Sequence[str] = (), last: Sequence[str] = ()) -> Table:
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


_EPILOG = """\b
Examples:
  mluops-test compare results-numpy results-mlu         what differs between two backends
  mluops-test compare before after --all                every case with readings and times
  mluops-test compare before after --gate               exit 1 when a case is worse in `after`
  mluops-test compare before after --format json        for programs
"""


@click.command("compare", epilog=_EPILOG)
@click.argument("before", metavar="A", type=click.Path(path_type=Path, exists=True))
@click.argument("after", metavar="B", type=click.Path(path_type=Path, exists=True))
@click.option("--all", "everything", is_flag=True, help="Also show the cases that differ only in time.")
@click.option("--gate", is_flag=True, help="Exit 1 when a case of A is missing in B or has a worse outcome there.")
@format_option("table", "json")
@no_garbage_collection()
def command(before: Path, after: Path, everything: bool, gate: bool, form: str) -> int:
    """Show two sets of results side by side: outcome, readings, time.

    A and B are results folders or report.json files; the backends may differ. The exit code is 0 unless you give
    --gate. Readings and times are shown, not judged: `mluops-test gate` judges them.
    """
    from mluops_gtest.results.folder import read_report
    from mluops_gtest.results.run_comparison import compare, comparison_to_json

    both = compare(read_report(before), read_report(after))
    if form == "json":
        echo(json.dumps(comparison_to_json(both), indent=1, allow_nan=False))
    else:
        from mluops_gtest.cli.terminal import print_page, stdout

        print_page(stdout(), _page(both, everything=everything))
    if not gate:
        return int(ExitCode.OK)
    if not both.rows:
        return int(ExitCode.EMPTY)
    return int(ExitCode.FAILED if both.worse else ExitCode.OK)
