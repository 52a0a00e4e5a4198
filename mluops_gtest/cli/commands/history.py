"""`mluops-test history`: runs, one case over time, the cases of an operator with sparklines."""

import contextlib
import difflib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from mluops_gtest.base.errors import UnknownNameError, UsageError
from mluops_gtest.base.gc_tuning import no_garbage_collection
from mluops_gtest.base.text import label_words, pluralize
from mluops_gtest.cli.options import RESULTS, json_option, together, value_option
from mluops_gtest.core.outcome import DRIFT_FACTOR
from mluops_gtest.results.history import CaseTrend, CauseTrend, Point, ReadingGrowth, Run, sparkline
from mluops_gtest.results.reports.terminal import FOLD, RIGHT, escape, table_of

if TYPE_CHECKING:
    from mluops_gtest.results.history import History


# Between runs of different commits.
_COMMIT = "|"


def runs_page(runs: Sequence[Run]) -> Table:
    """A line per run, from old to new."""
    table = _table(("started", "backend", "commit"), ("cases", "passed", "seconds"), ("others", "labels", "machine"))
    for run in runs:
        others = ", ".join(f"{count} {word}" for word, count in run.counts.items() if word != "passed")
        cells = (str(sum(run.counts.values())), str(run.counts.get("passed", 0)), f"{run.seconds:.1f}")
        source, labels = escape(run.commit), escape(label_words(run.labels))
        table.add_row(escape(run.started), escape(run.backend), source, *cells, others, labels, escape(run.machine))
    return table


def case_page(trends: Sequence[CaseTrend]) -> Iterator[Table | str]:
    """One case, per backend: what each run said, then how it developed."""
    for trend in trends:
        yield f"[bold]{escape(trend.case)}[/] on {escape(trend.points[-1].run.backend)}"
        table = _table(("started", "commit", "outcome"), ("ms",), ("readings",))
        for point in trend.points:
            word = f"[{point.outcome.tone.terminal}]{point.outcome.value}[/]"
            times = f"{point.seconds * 1e3:.3f}"
            table.add_row(escape(point.run.started), escape(point.run.commit), word, times, escape(_readings(point)))
        yield table
        shares = f"passed {_percent(trend.pass_rate)}, flaky {_percent(trend.flake_rate)}, {trend.flips} flips"
        yield f"  {pluralize(len(trend.ran), 'run')}: {shares}"
        for drift in trend.drifts:
            bars = sparkline(drift.values, log=True)
            yield f"  {escape(drift.output)} {drift.criterion}  {bars}  {_growth(drift)}"
        machines = {point.run.machine for point in trend.ran}
        remark = f" on {len(machines)} machines, so they cannot be compared" if len(machines) > 1 else ""
        yield f"  time  {sparkline(trend.seconds)}{remark}\n"


def trend_page(trends: Sequence[CaseTrend], runs: Sequence[Run]) -> Iterator[Table | str]:
    """A line per case, those that flip most first: verdicts, flakes, accuracy and time, from old to new."""
    table = _table(("case", "backend"), ("passed", "flaky", "flips", "drift"), ("outcomes", "accuracy", "time"))
    for trend in sorted(trends, key=lambda trend: -trend.flips):
        # Of several criteria the one that grew most tells.
        drift = trend.drifts[0] if trend.drifts else None
        table.add_row(
            escape(trend.case),
            escape(trend.points[-1].run.backend),
            _percent(trend.pass_rate),
            _percent(trend.flake_rate),
            str(trend.flips),
            "–" if drift is None else _growth(drift),
            _COMMIT.join("".join(map(_mark, points)) for _, points in groupby(trend.points, lambda p: p.run.commit)),
            "" if drift is None else sparkline(drift.values, log=True),
            sparkline(trend.seconds),
        )
    yield table
    commits = [(commit, len(list(found))) for commit, found in groupby(runs, lambda run: run.commit)]
    if any(commit for commit, _ in commits):
        words = (f"{commit or 'unknown'}{f' ({count} runs)' if count > 1 else ''}" for commit, count in commits)
        yield escape(f"{_COMMIT} a new commit; from old to new: {', '.join(words)}")


def causes_page(causes: Sequence[CauseTrend], runs: Sequence[Run]) -> Iterator[Table | str]:
    """A line per cause of failures, those of the newest run first: since when, until when, and in how many cases."""
    if not causes:
        yield "No failure in these runs is explained."
        return
    table = _table(("cause",), ("cases",), ("first seen", "last seen", "over runs"))
    for cause in causes:
        ends = (runs[place] for place in (cause.first, cause.last))
        first, last = (escape(f"{run.started} {run.commit}".rstrip()) for run in ends)
        numbers = sparkline(tuple(map(float, cause.counts)))
        table.add_row(escape(cause.headline), str(cause.counts[cause.last]), first, last, numbers)
    yield table


def _table(left: Sequence[str], right: Sequence[str], last: Sequence[str]) -> Table:
    return table_of((left, FOLD), (right, RIGHT), (last, FOLD))


def _readings(point: Point) -> str:
    return "; ".join(f"{m.output} {m.criterion} {m.value:.3g} (≤ {m.threshold:g})" for m in point.measured)


def _mark(point: Point) -> str:
    return f"[{point.outcome.tone.terminal}]{point.outcome.sign}[/]"


def _growth(drift: ReadingGrowth) -> str:
    words = f"×{drift.factor:.3g}"
    return f"[bold red]{words}[/]" if drift.factor >= DRIFT_FACTOR else words


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.0f} %"


_db_option = value_option(
    "--db FILE",
    "file",
    "The SQLite file, e.g. --db /ci/history.sqlite.  [default: $MLUOPS_TEST_HISTORY, else "
    "./.mluops-test/history.sqlite]",
)
_run_options = together(
    click.option("--backend", "-b", help="Only runs on this backend, e.g. -b numpy."),
    value_option("--last N", click.IntRange(1), "Only the newest N runs, e.g. --last 100.", default=30),
    value_option(
        "--label labels NAME=VALUE",
        None,
        "Only runs with this label, e.g. --label git.branch=main --label device=mlu370.",
        multiple=True,
    ),
    _db_option,
    json_option(),
)


@click.group("history")
def command() -> None:
    """Remember runs and show how cases change over time.

    Any number of processes may add to one file at the same time; the file must be on a local disk.

    Examples:
      mluops-test history add results                        remember a run
      mluops-test history show                               the runs
      mluops-test history show voxel_pooling_forward/bevdepth_twin
      mluops-test history trend --op voxel_pooling_forward   every case of an operator, with sparklines
      mluops-test history trend --op voxel_pooling_forward --label git.branch=main
      mluops-test history causes                             why cases failed, since when and until when
      mluops-test history show --format json                 for programs
      mluops-test history add results --db /ci/history.sqlite
    """


@command.command("add")
@click.argument("results", nargs=-1, required=True, type=RESULTS, metavar="RESULTS…")
@_db_option
@no_garbage_collection()
def add(results: tuple[Path, ...], db: Path | None) -> None:
    """Add runs to the history; a run that is already there is not added again.

    Examples:
      mluops-test history add results
    """
    from mluops_gtest.cli.echo import echo
    from mluops_gtest.results.folder import read_report
    from mluops_gtest.results.history import History, history_path
    from mluops_gtest.results.writer import causes_of

    path = history_path(db)
    reports = [read_report(folder) for folder in results]
    with History(path, create=True) as history:
        for folder, report in zip(results, reports, strict=True):
            causes = [(cause.id, cause.headline, cause.cases) for cause in causes_of(report) if cause.output]
            added = history.add(report, causes)
            words = f"{pluralize(len(report.results), 'result')} added" if added else "already there"
            echo(f"{folder}: {words} ({path})")


@command.command("show")
@click.argument("case", required=False)
@_run_options
@no_garbage_collection()
def show(case: str | None, db: Path | None, form: str, **which: Any) -> None:
    """Show the runs, or one case in all of them.

    With a case id: its outcome in each run, how often it passed and was flaky, and whether its accuracy drifts.

    Examples:
      mluops-test history show
      mluops-test history show get_indice_pairs/subm_line
    """
    with _open_runs(db, **which) as (history, runs):
        trends = history.trends(runs, case=case) if case is not None else ()
        for successor in _successors(case):
            trends += history.trends(runs, case=successor)
        known = history.names("name") if case is not None and not trends else ()
    if case is not None and not trends:
        raise UsageError(_unknown_case(case, known))
    _print(form, [runs_page(runs)] if case is None else case_page(trends), runs=runs, cases=trends)


def _print(form: str, page: Iterable[Table | str], **parts: Any) -> None:
    """Print the page, or the runs with what was asked for of them."""
    if form == "json":
        from mluops_gtest.cli.echo import print_json
        from mluops_gtest.documents import history_to_json

        print_json(history_to_json(**parts))
    else:
        from mluops_gtest.cli.terminal import print_page, stdout

        print_page(stdout(), page)


def _successors(case: str | None) -> tuple[str, ...]:
    """What stands for an old id, said on stderr."""
    from mluops_gtest.catalog.replaced import replaced_words
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.echo import echo_error

    found = () if case is None else Session().catalogue.successors(case)
    if case is not None and found:
        echo_error(replaced_words(case, found))
    return found


@command.command("trend")
@click.option("--op", "operator", required=True, help="The operator, e.g. --op get_indice_pairs.")
@_run_options
@no_garbage_collection()
def trend(operator: str, db: Path | None, form: str, **which: Any) -> None:
    """Show every case of an operator over time; the cases that flip most come first.

    Each line shows the outcomes of a case, its flake rate, the drift of its accuracy, and its time. Old runs are on the
    left; a | separates runs of different commits.

    Examples:
      mluops-test history trend --op voxel_pooling_forward --last 50
    """
    with _open_runs(db, **which) as (history, runs):
        trends = history.trends(runs, operator=operator)
        known = history.names("operator")
    if operator not in known:
        raise UnknownNameError("operator", operator, known)
    _print(form, trend_page(trends, runs), runs=runs, cases=trends)


@command.command("causes")
@_run_options
@no_garbage_collection()
def causes(db: Path | None, form: str, **which: Any) -> None:
    """Show why cases failed over time: each cause with the runs that it was first and last seen in.

    Runs that were added by an earlier version have no causes.

    Examples:
      mluops-test history causes --last 50
    """
    with _open_runs(db, **which) as (history, runs):
        found = history.causes(runs)
    _print(form, causes_page(found, runs), runs=runs, causes=found)


@contextlib.contextmanager
def _open_runs(
    db: Path | None, backend: str | None, last: int, labels: tuple[str, ...]
) -> "Iterator[tuple[History, tuple[Run, ...]]]":
    """The history, and the runs that the options select."""
    from mluops_gtest.results.history import History, history_path

    wanted = dict(word.partition("=")[::2] for word in labels)
    if not all("=" in word for word in labels) or len(wanted) < len(labels):
        raise UsageError(
            "--label: write NAME=VALUE, each name once, e.g. --label git.branch=main; `history show` lists labels."
        )
    with History(history_path(db)) as history:
        yield history, history.runs(backend=backend, last=last, labels=wanted)


def _unknown_case(case: str, known: tuple[str, ...]) -> str:
    if case in known:
        return f"None of the chosen runs has the case {case!r}; raise --last, or leave out --backend and --label."
    close = difflib.get_close_matches(case, known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"No run in the history has the case {case!r}.{hint} `mluops-test history trend --op OP` lists cases."
