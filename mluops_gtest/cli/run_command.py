"""The times of a run as a person reads them: a row per case, the slowest first where there are many.

A run as the command line asks for it: planned, executed, written, summed up; new and resumed ones alike.
"""

import contextlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import field
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from mluops_gtest.backends.labels import run_labels
from mluops_gtest.backends.registry import is_native
from mluops_gtest.base.errors import ContentError, ExitCode, NothingSelectedError, UnwritableError, UsageError
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.gc_tuning import gc_frozen
from mluops_gtest.catalog.selection import Selected, Session
from mluops_gtest.catalog.source import StoredCases
from mluops_gtest.cli.echo import echo, echo_error, one_interrupt
from mluops_gtest.cli.progress import RunProgress
from mluops_gtest.cli.terminal import stderr, stdout, whole_table
from mluops_gtest.core.case import NAMED_TAGS, Query
from mluops_gtest.core.report import CaseFinished, CaseStarted, Event, Listener, RunReport
from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.folder import ResultsFolder, read_report
from mluops_gtest.results.reports.files import write_reports
from mluops_gtest.results.reports.terminal import LINE, RIGHT, TerminalReporter, table_of
from mluops_gtest.results.reports.text import escape
from mluops_gtest.results.times import TimedResult, duration, timed_results
from mluops_gtest.results.writer import ResultFiles, write_causes
from mluops_gtest.running.caller import open_callers
from mluops_gtest.running.case_run import PlannedCase
from mluops_gtest.running.options import RunRequest
from mluops_gtest.running.plan import RecordedTimes, case_sizes, costs_of
from mluops_gtest.running.run import run, run_cases
from mluops_gtest.running.session import context_of, options_of, timed

if TYPE_CHECKING:
    from mluops_gtest.cluster.answers import HostTally
    from mluops_gtest.cluster.session import ClusterScheduler
    from mluops_gtest.results.saved_outputs import OutputSaver
    from mluops_gtest.running.caller import Caller
    from mluops_gtest.running.workers.fork_server import ForkServer


_MAX_ROWS = 60
_ABSENT = "–"


def print_performance(console: Console, report: RunReport) -> None:
    """The table, and what is missing for a fuller one."""
    device: Mapping[str, Any] | None = report.environment.get("device")
    timed = timed_results(report, device)
    if not timed:
        console.print("No case was timed: only cases that compute and pass are timed.")
        return
    shown = timed
    if len(timed) > _MAX_ROWS:
        shown = tuple(sorted(timed, key=lambda one: -one.latency.median)[:_MAX_ROWS])
    whole_table(console, performance_table(shown, with_device=device is not None))
    if len(shown) < len(timed):
        console.print(f"… and {len(timed) - len(shown)} faster cases; all are in the report.")
    if device is None:
        console.print(
            "No efficiencies: describe the device with --device-spec FILE; "
            "`mluops-test device-spec --measure -o host.yaml` describes this machine.",
            soft_wrap=True,
        )
    console.print()


def performance_table(timed: Sequence[TimedResult], *, with_device: bool) -> Table:
    """Median with its interval, spread, and shares of the device."""
    with_interface = any(one.device is not None for one in timed)
    interface = ("interface",) if with_interface else ()
    device = ("io_eff", "compute_eff", "bottleneck", "verdict") if with_device else ()
    figures = ("median", *interface, "95 % interval", "MAD", "cv", "samples", "workspace", *device)
    table = table_of((("case", "time"), LINE), (figures, RIGHT))
    for one in timed:
        table.add_row(*_row(one, with_interface, with_device))
    return table


def _row(one: TimedResult, with_interface: bool, with_device: bool) -> list[str]:
    figures = one.latency
    assert one.result.perf is not None
    row = [escape(one.result.case), "device" if one.device is not None else "interface", duration(figures.median)]
    if with_interface:
        row.append(duration(one.interface.median))
    row += [
        f"{duration(figures.low)} – {duration(figures.high)}" if figures.low else _ABSENT,
        duration(figures.mad),
        f"{figures.cv:.1%}",
        str(figures.count),
        str(one.result.perf.workspace_bytes),
    ]
    return row + _efficiency(one) if with_device else row


def _efficiency(one: TimedResult) -> list[str]:
    share = one.efficiency
    if share is None:
        return [_ABSENT] * 4
    below = f"[yellow]below {share.wanted:.0%}[/]"
    verdict = {True: "[green]accepted[/]", False: below, None: "too short to judge"}[share.accepted]
    compute = _ABSENT if share.compute is None else _percent(share.compute)
    return [_percent(share.io), compute, share.side, verdict]


def _percent(share: float) -> str:
    return f"{share * 100:.3g}%"


class Shard(Value):
    """Part `index` (from 1) of `count`."""

    index: int
    count: int

    @staticmethod
    def parse(text: str) -> "Shard":
        """`2/5`."""
        index, slash, count = text.partition("/")
        if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
            raise UsageError(f"--shard {text}: write I/N with 1 ≤ I ≤ N, e.g. --shard 2/5.")
        return Shard(int(index), int(count))

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def shard_of(ids: Sequence[str], costs: Mapping[str, int], shard: Shard) -> set[str]:
    """The ids of this shard: the longest first, ties by id, each to the shard with the least load so far."""
    loads = [0] * shard.count
    chosen = set()
    for case_id in sorted(ids, key=lambda one: (-costs[one], one)):
        lightest = loads.index(min(loads))
        loads[lightest] += costs[case_id]
        if lightest == shard.index - 1:
            chosen.add(case_id)
    return chosen


def smallest_first(ids: Sequence[str], costs: Mapping[str, int]) -> list[str]:
    """The ids by their costs; among equals the order stays."""
    return sorted(ids, key=lambda one: costs[one])


def ordered(ids: Sequence[str], costs: Mapping[str, int], shard: Shard | None, *, by_size: bool) -> list[str]:
    """The ids of the shard, or all of them, in the order in which they run."""
    mine = set(ids) if shard is None else shard_of(ids, costs, shard)
    kept = [case_id for case_id in ids if case_id in mine]
    return smallest_first(kept, costs) if by_size else kept


def only_failed(session: Session, query: Query, path: Path) -> Query:
    """The query narrowed down to what did not pass in the results at `path`; it names every such case."""
    failed = [result.case for result in read_report(path).results if result.outcome.blocks]
    if not failed:
        raise NothingSelectedError(f"--failed {path}: nothing failed there, so there is nothing to run again.")
    gone = [case for case in failed if session.catalogue.draft(case) is None and not Path(case).is_file()]
    if gone:
        echo_error(f"warning: --failed {path}: {len(gone)} case(s) no longer exist and are left out, e.g. {gone[0]}.")
    wanted = set(failed).difference(gone)
    if query.select:
        wanted &= {case.id for case in session.select(query).cases}
    if not wanted:
        raise NothingSelectedError(f"--failed {path}: none of the {len(failed)} cases that failed there is selected.")
    return replace(query, select=tuple(case for case in failed if case in wanted))


def plan_new(
    session: Session, request: RunRequest, times: RecordedTimes | None = None, *, by_size: bool = False
) -> tuple[tuple[Selected, ...], int]:
    """The selected cases of this shard, and how many declared cases were not selected."""
    chosen = session.select(request.selection)
    cases = {case.id: case for case in chosen.cases}
    if request.shard is None and not by_size:
        return chosen.cases, chosen.left_out
    if times is not None and not times.seconds.keys() & cases:
        echo_error(
            "warning: --times has none of the selected cases; shards are balanced by the size of the cases instead."
        )
    lock = session.source(chosen.cases).lock
    costs = costs_of(case_sizes(lock, chosen.cases), times or RecordedTimes())
    shard = None if request.shard is None else Shard.parse(request.shard)
    return tuple(cases[case_id] for case_id in ordered(list(cases), costs, shard, by_size=by_size)), chosen.left_out


def empty_shard(allowed: bool) -> ExitCode:
    """A shard without cases is an error unless the user expects it."""
    if allowed:
        echo("This shard has no cases.")
        return ExitCode.OK
    raise NothingSelectedError("This shard has no cases; use fewer shards, or add --allow-empty-shard.")


def execute(
    session: Session,
    request: RunRequest,
    cases: tuple[Selected, ...],
    left_out: int,
    folder: ResultsFolder,
    verbosity: int,
    done: dict[str, CaseResult] | None = None,
    times: RecordedTimes | None = None,
    fork_server: "ForkServer | None" = None,
) -> ExitCode:
    """Run the planned cases into the folder and print the summary; without `done` the run is a new one.

    `fork_server` is one that was started ahead.
    """
    resumed, done = done is not None, done or {}
    device = None
    if request.device_spec is not None:
        from mluops_gtest.results.times import read_device_spec

        device = read_device_spec(Path(request.device_spec)).figures
    reporter = TerminalReporter(stdout(), verbosity)
    source = session.source(
        cases,
        strict=request.strict,
        allow_outside_paths=request.allow_outside_paths,
        on_generate=lambda case_id: progress.note(f"making {case_id}"),
        reseed=request.reseed,
    )
    left = tuple(case for case in cases if case.id not in done)
    # With -v every case has its own line.
    shown = verbosity == 0 and stderr().is_terminal
    progress = RunProgress(stderr(), _costs(source, left, times) if shown else {}, shown=shown)
    if request.isolate is False and is_native(request.backend):
        echo_error("warning: --no-isolate with native code: if the kernel crashes or hangs, so does this run.")
    costs = _costs(source, left, times) if request.cluster is not None else {}
    with contextlib.ExitStack() as kept:
        with (
            one_interrupt(),
            _opened(request, session, left, costs, source, fork_server) as opened,
            contextlib.closing(progress),
        ):
            ids = [case.id for case in cases]
            planned = [PlannedCase(case.id, case.operator, case.tags) for case in cases]
            labels = run_labels(request.labels, request.backend, request.runtime, opened.version)
            request = replace(request, labels=labels)
            record = request.to_json(ids, left_out)
            options = options_of(request, session.catalogue, len(left), max(len(opened.callers), 1))
            context = context_of(request, session.catalogue.root_paths, opened.name, len(cases), left_out, device)
            if not resumed:
                folder.clear()
            saver = _saver(request, folder)
            before = (done.pop(case) for case in ids if case in done)
            files = kept.enter_context(ResultFiles(folder, record, before))
            operators = session.catalogue.operators
            listeners: list[Listener] = [reporter, progress]
            kept.enter_context(gc_frozen())
            try:
                if opened.cluster is None:
                    report = run(planned, opened.callers, operators, source, context, options, listeners, files, saver)
                else:
                    listeners.append(_HostNotes(opened.cluster.hosts, progress))
                    report = run_cases(
                        planned, opened.name, opened.cluster, operators, context, options, listeners, dict, files
                    )
            except UnwritableError as error:
                return _told(error, files.tally.exit_code)
            report = timed(report, source, files.seconds)
            code = report.exit_code
            try:
                files.write_report(report, ids)
                write_causes(folder.path, report)
            except UnwritableError as error:
                code = _told(error, code)
        code = _tell_end(report, request, folder, reporter, saver, code, verbosity)
    if report.interrupted:
        echo(f"Interrupted. To run what is left: {shlex.join(['mluops-test', 'run', '--resume', str(folder.path)])}")
    # A user who selected cases knows that the rest is left out.
    if left_out and request.selection.is_default and verbosity >= 0:
        echo(
            f"{left_out} declared cases were not selected; --all selects all except those tagged "
            f"{', '.join(NAMED_TAGS)}; --tag network the network scales."
        )
    return code


def _tell_end(
    report: RunReport,
    request: RunRequest,
    folder: ResultsFolder,
    reporter: TerminalReporter,
    saver: "OutputSaver | None",
    code: ExitCode,
    verbosity: int,
) -> ExitCode:
    """Print the summary and write the reports that were asked for; the exit code with what that adds."""
    if request.perf and verbosity >= 0:
        print_performance(stdout(), report)
    reporter.summary(report, str(folder.path))
    if saver is not None and (words := saver.words()):
        echo(words)
    if saver is not None and saver.trouble is not None:
        code = _told(saver.trouble, code)
    for trouble in write_reports(report, request.reports):
        code = _told(trouble, code)
    return code


class _Opened(Value):
    """What runs the cases: callers of this machine, or a cluster; and what the backend says of itself there."""

    name: str
    version: str
    callers: "list[Caller]" = field(default_factory=list)
    cluster: "ClusterScheduler | None" = None


@contextlib.contextmanager
def _opened(
    request: RunRequest,
    session: Session,
    left: tuple[Selected, ...],
    costs: dict[str, int],
    source: StoredCases,
    fork_server: "ForkServer | None",
) -> Iterator[_Opened]:
    if request.cluster is None:
        with open_callers(request, session.catalogue, fork_server) as callers:
            yield _Opened(callers[0].name, callers[0].version, callers)
        return
    from mluops_gtest.cluster.answers import OutputAudit
    from mluops_gtest.cluster.session import ClusterScheduler, open_cluster

    catalogue = session.catalogue
    options = options_of(request, catalogue, 1, 1)
    load = lambda one: source.load(one.unit.id)  # noqa: E731
    audit = partial(OutputAudit, load, catalogue.operators, options, everything=request.judge_here)
    operators = [case.operator for case in left if case.draft is not None]
    files = {case.id: case.path for case in left if case.path is not None}
    with open_cluster(request, operators, files, echo_error, audit) as (dispatcher, tried):
        scheduler = ClusterScheduler(dispatcher, costs, in_order=request.stop_at_first)
        yield _Opened(tried.name, tried.version, cluster=scheduler)


class _HostNotes:
    """Tells the progress line what each host of a cluster does."""

    def __init__(self, hosts: "Mapping[str, HostTally]", progress: RunProgress) -> None:
        self._hosts, self._progress = hosts, progress

    def __call__(self, event: Event) -> None:
        if isinstance(event, CaseStarted | CaseFinished):
            words = (f"{host}: {len(one.running)} running, {one.done} done" for host, one in self._hosts.items())
            self._progress.note(" · ".join(words))


def _saver(request: RunRequest, folder: ResultsFolder) -> "OutputSaver | None":
    if request.save_outputs is None:
        return None
    from mluops_gtest.results.saved_outputs import OutputSaver

    return OutputSaver(folder.path, request.save_outputs)


def _costs(source: StoredCases, cases: tuple[Selected, ...], times: RecordedTimes | None) -> dict[str, int]:
    """What the cases cost; unknown if the lock is broken, which every case reports itself."""
    try:
        return costs_of(case_sizes(source.lock, cases), times or RecordedTimes())
    except ContentError:
        return {}


def _told(error: UnwritableError, found: ExitCode) -> ExitCode:
    """Report the error; the exit code also counts what was found before."""
    echo_error(f"error: {error}")
    return ExitCode.worst([error.exit_code, found])
