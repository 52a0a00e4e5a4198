"""What a fuzz run found, for people: a table of the operators, every cause with its file, and how to see it again."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from mluops_gtest.base.text import pluralize
from mluops_gtest.core.reasons import reason_of
from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.reports.text import escape
from mluops_gtest.search.fuzz import HuntReport, NewCause, is_failure

_MAX_BROKEN = 5


def fuzz_page(report: HuntReport, repro: tuple[str, ...], folder: Path) -> Iterator[Table | str]:
    """The whole page; `repro` are the options that a run of a file needs."""
    yield _table(report)
    for finding, headline in report.findings:
        yield from _found(finding, headline, repro)
    still = [(file, result) for file, result in report.corpus if is_failure(result)]
    for file, result in still:
        yield f"[bold red]still fails[/]  {escape(str(file))}  {escape(result.reason)}"
    for result in report.broken[:_MAX_BROKEN]:
        yield f"[bold red]broken[/]  {escape(result.case)}: {escape(result.reason)}"
    for operator, reason in report.skipped.items():
        yield f"skipped: {escape(operator)}: {escape(reason)}"
    if report.lost is not None:
        yield f"[bold red]lost[/]  {escape(reason_of((report.lost,)))}"
    yield _closing(report, len(still), folder)


def _table(report: HuntReport) -> Table:
    table = Table(box=None, pad_edge=False, header_style="")
    table.add_column("operator")
    for column in ("seed", "draws so far", "pairs of classes", "causes"):
        table.add_column(column, justify="right")
    for target in report.targets:
        name = target.operator.name
        seen, total = len(target.coverage.seen), target.draws.features.total
        causes = sum(finding.operator == name for finding, _ in report.findings)
        table.add_row(name, str(target.draws.seed), str(target.done), f"{seen} of {total}", str(causes))
    return table


def _found(finding: NewCause, headline: str, repro: tuple[str, ...]) -> Iterator[str]:
    yield f"[bold red]found[/]  {escape(headline)}"
    words = _shown(finding.result)
    if words:
        yield f"  {escape(words)}"
    file = str(finding.file)
    yield f"  {escape(shlex.join(['mluops-test', 'run', file, *repro]))}"


def _shown(result: CaseResult) -> str:
    """The failure of the small case, with what was wrong in it."""
    dims = ", ".join(f"{tensor.id} {list(tensor.dims)}" for tensor in result.info.tensors)
    return f"{result.reason}  ({dims})"


def _closing(report: HuntReport, still: int, folder: Path) -> str:
    rate = report.draws / max(report.seconds, 1e-3)
    parts = [f"{pluralize(report.draws, 'draw')} in {report.seconds:.1f} s ({rate:.0f}/s)"]
    if report.corpus:
        parts.append(f"{pluralize(len(report.corpus), 'case')} of the corpus, {still} still failing")
    parts.append(f"{report.failed} failed, for {pluralize(len(report.findings), 'new cause')}")
    if report.passed_over:
        parts.append(f"{report.passed_over} passed over")
    return "; ".join(parts) + f"; corpus: {escape(str(folder))}"
