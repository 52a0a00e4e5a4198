"""`mluops-test fuzz`."""

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mluops_gtest.base.errors import ExitCode, UsageError
from mluops_gtest.base.text import pluralize
from mluops_gtest.cli.echo import echo
from mluops_gtest.cli.options import (
    cluster_options,
    flag_option,
    json_option,
    keyword_option,
    operators_option,
    options_from,
    root_option,
    run_option,
    run_options,
    tags_option,
    typed_options,
    value_option,
    worker_options,
)
from mluops_gtest.core.case import Query

if TYPE_CHECKING:
    from rich.table import Table

    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.search.fuzz import FuzzReport, NewCause

_MAX_BROKEN = 5
_BESIDE_PROMOTE = {"promote", "corpus", "roots"}


@click.command("fuzz")
@operators_option("Only this operator, e.g. --op ball_query (repeat it: all of them).")
@tags_option("Only operators that have a declared case with this tag, e.g. --tag race (repeat it: any of them).")
@keyword_option("Only operators with a declared case whose id or tags match, e.g. -k 'interpolate or voxel'.")
@flag_option("--valid", "Draw valid calls alone, without faults that a check must refuse.")
@value_option("--seconds S", click.FloatRange(0, min_open=True), "Draw for so long, e.g. --seconds 600.  [default: 60]")
@value_option("--cases N", click.IntRange(0), "Draw so many cases per operator, e.g. --cases 2000.")
@value_option(
    "--seed N",
    click.IntRange(0, 2**32 - 1),
    "Draw the calls of this seed, e.g. --seed 7; another one on every machine.  "
    "[default: that of the last fuzz run in the corpus, else 0]",
)
@value_option(
    "--corpus DIR",
    "folder",
    "Folder for the cases that fail; they are run first the next time, e.g. --corpus corpus.",
    default=Path("mluops-corpus"),
)
@value_option(
    "--promote NAME",
    None,
    "Draw nothing: declare the call behind this file of the corpus as a case, e.g. --promote ball_query/failed-….",
)
@run_option(
    "stress",
    "Look for races: repeat each draw N times in workers with different numbers of threads, e.g. --stress 5x.",
    metavar="Nx",
)
@run_options("backend", "serve")
@worker_options
@cluster_options
@flag_option("-q --quiet", "Print only what is found and the closing lines.")
@json_option()
@root_option
@click.pass_context
def command(ctx: click.Context, /, corpus: Path, quiet: bool, promote: str | None, form: str, **options: Any) -> int:
    """Draw calls that nobody declared, and keep what fails.

    Calls come from the parameter space that each operator declares: valid, just valid, just invalid, wrong in two ways,
    with sizes around powers of two and special values. Every element is held to what arithmetic allows. Of each cause
    the smallest case is kept in the corpus. The same seed draws the same calls. Exit 1 if anything fails.

    Examples:
      mluops-test fuzz --backend my_kernels.py                       every operator, for a minute
      mluops-test fuzz --backend c:./libk.so --op ball_query         one operator
      mluops-test fuzz --backend c:./libk.so --seconds 3600 -j 2     for an hour, in two workers
      mluops-test fuzz --backend c:./libk.so --cases 2000 --seed 7   2000 draws per operator, the same ones everywhere
      mluops-test fuzz --backend c:./libk.so --guard-pages           also find reads outside a buffer
      mluops-test fuzz --backend c:./libk.so --stress 5x             each draw five times, with changing threads
      mluops-test fuzz --backend c:./libk.so --corpus corpus         go on where the last run stopped, old failures first
      mluops-test fuzz --backend c:./libk.so --valid -k voxel        valid calls of the operators with voxels
      mluops-test fuzz --promote ball_query/failed-values-idx-2a923d --root .   make a finding a declared case
      mluops-test fuzz --backend mlu --cluster tcp://node1:8786      on many machines: mluops-test docs many-machines
      mluops-test fuzz --backend c:./libk.so --format json           for programs
    """  # noqa: E501 - a line of the help page
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.echo import echo_error, one_interrupt
    from mluops_gtest.cli.terminal import FuzzProgress, print_page, stderr, stdout
    from mluops_gtest.running.plan import refuse
    from mluops_gtest.search.fuzz import SECONDS, FuzzRequest, fuzz_exit_code, run_fuzz

    if promote is not None:
        if refused := [option for name, option in typed_options(ctx).items() if name not in _BESIDE_PROMOTE]:
            raise UsageError(f"--promote draws nothing and prints text; leave out {', '.join(refused)}.")
        return _promote(Session(options["roots"]), corpus, promote)
    drawn = {name: options.pop(name) for name in ("operators", "tags", "keyword", "valid", "seconds", "cases", "seed")}
    if drawn["seconds"] is None and drawn["cases"] is None:
        drawn["seconds"] = SECONDS
    run = options_from(ctx, Query(), options, elementwise=True)
    refuse(run, typed_options(ctx).keys())
    request = FuzzRequest(run=run, corpus=corpus, **drawn)
    progress = FuzzProgress(stderr(), drawn["seconds"], shown=not quiet)
    session = Session(run.roots)
    with one_interrupt(), contextlib.closing(progress):
        if run.cluster is None:
            report = run_fuzz(request, session, progress.start, progress)
        else:
            from mluops_gtest.cluster.session import fuzz_on_cluster

            report = fuzz_on_cluster(request, session, progress.start, progress, echo_error)
    if form == "json":
        from mluops_gtest.cli.echo import print_json
        from mluops_gtest.documents import to_json

        print_json(
            to_json(report, commands=[_commands(finding, run.repro_options()) for finding, _ in report.findings])
        )
    else:
        print_page(stdout(), _page(report, run.repro_options(), corpus))
    return int(fuzz_exit_code(report))


def _promote(session: "Session", corpus: Path, name: str) -> int:
    """Declares the call of a finding, and says what is to be done next."""
    from mluops_gtest.catalog.root import root_words
    from mluops_gtest.search.corpus import Corpus, promote

    case, path = promote(Corpus(corpus, session.catalogue.operators).entry(name), session.catalogue)
    command = shlex.join(["mluops-test", "generate", case, *root_words(session.roots)])
    echo(f"{case} is declared at the end of {path}; shorten its doc, then make it:\n{command}")
    return int(ExitCode.OK)


def _commands(finding: "NewCause", options: tuple[str, ...]) -> dict[str, str]:
    """What runs the file, and what runs the call as it was drawn, empty where no words make it."""
    cases = {"repro": str(finding.file), "as_drawn": finding.words and f"{finding.operator}/{finding.words}"}
    return {name: case and shlex.join(["mluops-test", "run", case, *options]) for name, case in cases.items()}


def _page(report: "FuzzReport", repro: tuple[str, ...], folder: Path) -> "Iterator[Table | str]":
    """A table of the operators, every cause with its file, and how to see it again by the options `repro`."""
    from mluops_gtest.core.cause import format_reason
    from mluops_gtest.results.reports.terminal import escape
    from mluops_gtest.search.fuzz import is_failure

    yield _table(report)
    for finding, headline in report.findings:
        yield f"[bold red]found[/]  {escape(headline)}"
        dims = ", ".join(f"{tensor.id} {list(tensor.dims)}" for tensor in finding.result.info.tensors)
        yield f"  {escape(f'{finding.result.reason}  ({dims})')}"
        commands = _commands(finding, repro)
        yield f"  {escape(commands['repro'])}"
        if commands["as_drawn"]:
            yield f"  as drawn: {escape(commands['as_drawn'])}"
    still = [(file, result) for file, result in report.corpus if is_failure(result)]
    for file, result in still:
        yield f"[bold red]still fails[/]  {escape(str(file))}  {escape(result.reason)}"
    for result in report.broken[:_MAX_BROKEN]:
        yield f"[bold red]broken[/]  {escape(result.case)}: {escape(result.reason)}"
    for operator, reason in report.skipped.items():
        yield f"skipped: {escape(operator)}: {escape(reason)}"
    if report.lost is not None:
        yield f"[bold red]lost[/]  {escape(format_reason((report.lost,)))}"
    yield _closing(report, len(still), folder)


def _table(report: "FuzzReport") -> "Table":
    from rich.table import Table

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


def _closing(report: "FuzzReport", still: int, folder: Path) -> str:
    from mluops_gtest.results.reports.terminal import escape

    rate = report.draws / max(report.seconds, 1e-3)
    parts = [f"{pluralize(report.draws, 'draw')} in {report.seconds:.1f} s ({rate:.0f}/s)"]
    if report.corpus:
        parts.append(f"{pluralize(len(report.corpus), 'case')} of the corpus, {still} still failing")
    parts.append(f"{report.failed} failed, for {pluralize(len(report.findings), 'new cause')}")
    if report.passed_over:
        parts.append(f"{report.passed_over} passed over")
    return "; ".join(parts) + f"; corpus: {escape(str(folder))}"
