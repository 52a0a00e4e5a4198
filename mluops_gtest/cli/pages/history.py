"""The history for people: runs, one case over time, the cases of an operator with sparklines."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.table import Table

from mluops_gtest.model.drift import DRIFT_FACTOR
from mluops_gtest.model.labels import label_words
from mluops_gtest.reports.markup import escape
from mluops_gtest.reports.tables import FOLD, RIGHT, table_of
from mluops_gtest.results.history.trends import CaseTrend, CauseTrend, Point, ReadingGrowth, Run, sparkline

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
        yield _summary(trend)
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
        first, last = (_seen(runs[place]) for place in (cause.first, cause.last))
        numbers = sparkline(tuple(map(float, cause.counts)))
        table.add_row(escape(cause.headline), str(cause.counts[cause.last]), first, last, numbers)
    yield table


def _seen(run: Run) -> str:
    return escape(f"{run.started} {run.commit}".rstrip())


def _table(left: Sequence[str], right: Sequence[str], last: Sequence[str]) -> Table:
    return table_of((left, FOLD), (right, RIGHT), (last, FOLD))


def _summary(trend: CaseTrend) -> str:
    runs = "run" if len(trend.ran) == 1 else "runs"
    return (
        f"  {len(trend.ran)} {runs}: passed {_percent(trend.pass_rate)}, flaky {_percent(trend.flake_rate)}, "
        f"{trend.flips} flips"
    )


def _readings(point: Point) -> str:
    return "; ".join(f"{m.output} {m.criterion} {m.value:.3g} (≤ {m.threshold:g})" for m in point.measured)


def _mark(point: Point) -> str:
    return f"[{point.outcome.tone.terminal}]{point.outcome.sign}[/]"


def _growth(drift: ReadingGrowth) -> str:
    words = f"×{drift.factor:.3g}"
    return f"[bold red]{words}[/]" if drift.factor >= DRIFT_FACTOR else words


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.0f} %"
