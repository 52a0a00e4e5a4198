"""`mluops-test run`."""

import contextlib
import datetime
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click
from msgspec.structs import replace

from mluops_gtest.base.errors import ExitCode, HarnessError, UsageError
from mluops_gtest.cli.options import (
    REPORT_FILES,
    GroupedCommand,
    flag_option,
    json_option,
    options_from,
    run_options,
    selection_options,
    stands_in_settings,
    typed_options,
    value_option,
)
from mluops_gtest.core.case import LARGEST_RESEED, NAMED_TAGS, Query
from mluops_gtest.version import __version__

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from mluops_gtest.catalog.source import StoredCases
    from mluops_gtest.cli.terminal import RunProgress
    from mluops_gtest.core.report import Event, Listener, RunReport
    from mluops_gtest.results.folder import ResultsFolder
    from mluops_gtest.results.reports.terminal import TerminalReporter
    from mluops_gtest.results.times import TimedResult
    from mluops_gtest.running.options import RunOptions
    from mluops_gtest.running.plan import RunPlan
    from mluops_gtest.running.session import FinishedRun, OpenBackend, Opener

# Gets the report while its files are open, the exit code, the folder and what could not be written; returns the code.
Tell = Callable[..., int]
# Options allowed beside --resume: they change what is printed or where it runs, not what is run.
_BESIDE_RESUME = {"resume", "quiet", "verbose", "durations", "cluster", "form"}
_MAX_ROWS = 60
_ABSENT = "–"


class _RunCommand(GroupedCommand):
    """`run`; the order of the options on its help page."""

    headings: ClassVar = {
        "Which cases": (
            *("operators", "tags", "keyword", "everything", "failed", "shard", "times", "allow_empty_shard", "reseed"),
            *("roots", "strict", "allow_outside_paths"),
        ),
        "What to test": ("backend", "runtime", "serve"),
        "How to call it": (
            *("isolate", "jobs", "devices", "timeout", "memory_limit", "fresh_workers", "repeat", "reruns", "stress"),
            *("stop_at_first", "cluster", "ship"),
        ),
        "What to check": (
            *("bitwise", "elementwise", "arbitrate", "guard_pages", "fail_on_leak", "require_coverage", "judge_here"),
        ),
        "How fast it is": ("perf", "warmup", "samples", "cold_cache", "device_spec"),
        "Where results go": (
            *("out", "overwrite", "resume", "save_outputs", *REPORT_FILES, "labels"),
            *("quiet", "verbose", "durations", "form"),
        ),
    }


@click.command("run", cls=_RunCommand)
@selection_options
@run_options("backend", "allow_empty_shard")
@value_option(
    "--resume DIR",
    "existing folder",
    "Finish an interrupted run with the options it had, e.g. --resume mluops-results/20260101-120000.",
)
@run_options("cluster", "labels")
@flag_option("-q --quiet", "Print only the closing lines.")
@flag_option("-v --verbose", "Print a line per case, and what the backend printed.")
@value_option(
    "--durations N",
    click.IntRange(0),
    "Also print the N cases that took the backend longest, e.g. --durations 10.",
    default=0,
    show_default=False,
)
@json_option(words="What to print, e.g. --format json: one object; all else goes to stderr.")
@run_options("strict", "allow_outside_paths")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    query: Query,
    resume: Path | None,
    quiet: bool,
    verbose: bool,
    durations: int,
    form: str,
    **given: Any,
) -> int:
    """Run cases on a backend and judge the results.

    SELECT is a case id, an operator, a glob over ids, a case file, a folder of case files, or a call of
    your own. Without any selection the default set runs: every declared case except those tagged network,
    race, heavy, undefined or subnormal.

    Examples:
      mluops-test run                                     the default set on numpy
      mluops-test run --tag network                       the sizes that real networks use
      mluops-test run masked_im2col_forward -x            one operator, stop at the first failure
      mluops-test run masked_im2col_forward/edge_top_float -v
      mluops-test run 'get_indice_pairs/subm_*' --repeat 5
      mluops-test run ball_query:B=2,M=1,N=2,dtype=half   a shape of your own; a wrong name lists those that there are
      mluops-test run my_cases/ --backend my_kernels.py:backend --out results
      mluops-test run --backend c:./libmykernels.so -j 2 --timeout 20
      mluops-test run --backend c:./libmykernels.so --guard-pages     also find reads outside a buffer
      mluops-test run --backend c:./libmykernels.so --fresh-workers
      mluops-test run --backend c:./libmykernels.so --stress 60       look for races for a minute
      mluops-test run my_cases/ --backend c:./libmykernels.so --arbitrate   who is right: the kernel or the file?
      mluops-test run --shard 1/4 --out results-1         a quarter of the cases; then: mluops-test merge
      mluops-test run --shard 1/4 --times last-night      quarters that took the same time last night
      mluops-test run --tag network --perf --device-spec host.yaml
      mluops-test run --all --cluster tcp://node1:8786    on many machines: mluops-test docs many-machines
      mluops-test run --junit junit.xml --html report.html
      mluops-test run --require-coverage 95%              exit 5 where more than a twentieth is skipped
      mluops-test run --reseed 7                          other random values, fresh baselines
      mluops-test run --failed latest                     what did not pass last time, the smallest case first
      mluops-test run --resume results                    go on after a crash, Ctrl-C or a full disk
      mluops-test run --out results --overwrite           the same folder again
      mluops-test run ball_query -x --format json         for programs: the summary and the causes of failures
    """
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.echo import echo, echo_error
    from mluops_gtest.running.options import OPTIONS
    from mluops_gtest.running.plan import refuse
    from mluops_gtest.running.session import early_fork_server, opener_here
    from mluops_gtest.running.settings import unfit_settings

    def tell(report: "RunReport", code: ExitCode, folder: Path | None = None, errors: Sequence[str] = ()) -> int:
        if form == "json":
            from mluops_gtest.cli.echo import print_json
            from mluops_gtest.documents import to_json

            print_json(to_json(report, exit_code=code, folder=str(folder or ""), errors=errors))
        return int(code)

    if quiet and verbose:
        raise UsageError("--quiet and --verbose contradict each other; leave out -q or -v.")
    verbosity = -1 if quiet else int(verbose)
    if resume is not None:
        _refuse_beside_resume(ctx)
        return _resume(resume, verbosity, durations, given["cluster"], tell)
    given["reseed"] = _seed(given["reseed"], given["shard"])
    options = options_from(ctx, query, given)
    # Defaults that do not fit are left out; the same options, typed, are refused.
    unfit = [name for name in unfit_settings(options) if stands_in_settings(ctx, name)]
    options = replace(options, **{name: OPTIONS[name].default for name in unfit})
    refuse(options, typed_options(ctx).keys())
    with early_fork_server(options) as fork_server:
        # Late: the fork server starts meanwhile.
        from mluops_gtest.results.reports.files import check_reports
        from mluops_gtest.running.plan import plan_run

        plan = plan_run(options, Session(options.roots), lambda words: echo_error(f"warning: {words}"))
        if not plan.cases:
            from mluops_gtest.core.report import RunReport

            echo("This shard has no cases.")
            return tell(RunReport(__version__, {}, {}, {}, "", 0.0, ()), ExitCode.OK)
        typed = (case.draft for case in plan.cases if case.draft is not None and case.draft.is_typed)
        for draft in typed if verbosity >= 0 else ():
            expected = draft.expect.check and f"  (the check {draft.expect.check} answers {draft.expect.status.name})"
            echo(f"{draft.id}{expected or ''}")
        with _new_folder(options) as folder:
            check_reports(options.reports, folder.path)
            return _execute(plan, folder, verbosity, durations, opener_here(fork_server), tell)


def _seed(reseed: int | str | None, shard: str | None) -> int | None:
    """The seed of the run; `random` is drawn here, so that run.json and every repro line have the number."""
    if not isinstance(reseed, str):
        return reseed
    if shard is not None:
        raise UsageError(
            "--reseed random: all shards of a run need the same values; give each the same number, e.g. --reseed 7."
        )
    import secrets

    return secrets.randbelow(LARGEST_RESEED + 1)


def _refuse_beside_resume(ctx: click.Context) -> None:
    given = [
        option
        for name, option in typed_options(ctx).items()
        if name not in _BESIDE_RESUME and ctx.params.get(name) not in (None, ())
    ]
    if given:
        raise UsageError(f"--resume reads all options from the folder's run.json; leave out {', '.join(given)}.")


def _resume(path: Path, verbosity: int, durations: int, cluster: str | None, tell: Tell) -> int:
    from mluops_gtest.base.typed_files import convert
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.echo import echo
    from mluops_gtest.results.folder import REPORT, ResultsFolder, read_done, read_report, read_request, request_source
    from mluops_gtest.results.reports.files import check_reports
    from mluops_gtest.running.options import RunOptions, RunRecord
    from mluops_gtest.running.plan import RunPlan
    from mluops_gtest.running.session import opener_here

    with ResultsFolder(path) as folder:
        record, source = read_request(path), request_source(path)
        options, planned = RunOptions.from_json(record, source), convert(record, RunRecord, source)
        if cluster is not None:
            options = replace(options, cluster=cluster)
        if (path / REPORT).exists():
            report = read_report(path)
            if not report.interrupted:
                echo(f"{path}: the run is finished; nothing is left to run.")
                return tell(report, report.exit_code, path)
        session = Session(options.roots)
        check_reports(options.reports, path)
        cases = session.select(Query(planned.cases)).cases if planned.cases else ()
        plan = RunPlan(options, session, cases, planned.left_out, done=read_done(path))
        return _execute(plan, folder, verbosity, durations, opener_here(), tell)


def _new_folder(options: "RunOptions") -> "ResultsFolder":
    from mluops_gtest.results.folder import RUN, RUNS, ResultsFolder

    if options.out is None:
        stamp = datetime.datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
        return ResultsFolder.fresh(RUNS, stamp)
    # What `merge` wrote has no plan to go on with.
    resume = f"`--resume {options.out}` goes on with it, " if (Path(options.out) / RUN).exists() else ""
    advice = f"{resume}--overwrite replaces it, another --out keeps both"
    return ResultsFolder.new(Path(options.out), overwrite=options.overwrite, advice=advice)


def _execute(
    plan: "RunPlan", folder: "ResultsFolder", verbosity: int, durations: int, open_backend: "Opener", tell: Tell
) -> int:
    """Run the planned cases into the folder, and print what comes of them."""
    from mluops_gtest.backends.registry import is_native
    from mluops_gtest.cli.echo import echo, echo_error, one_interrupt
    from mluops_gtest.cli.terminal import RunProgress, stderr, stdout
    from mluops_gtest.results.reports.terminal import TerminalReporter
    from mluops_gtest.running.session import run_session

    options = plan.options
    reporter = TerminalReporter(stdout(), verbosity, durations=durations)
    source = plan.source(lambda case_id: progress.note(f"making {case_id}"))
    # With -v every case has its own line.
    shown = verbosity == 0
    costs = plan.costs(source) if shown and stderr().is_terminal else {}
    progress = RunProgress(stderr(), costs, shown=shown)
    listeners: list[Listener] = [reporter, progress]
    if options.isolate is False and is_native(options.backend):
        echo_error("warning: --no-isolate with native code: if the kernel crashes or hangs, so does this run.")
    if options.cluster is not None:
        open_backend = _opener_on_cluster(listeners, progress)
    with contextlib.ExitStack() as files:
        with one_interrupt(), contextlib.closing(progress):
            finished = files.enter_context(run_session(plan, source, open_backend, listeners, folder))
        code, errors = _print_end(finished, options, folder, reporter, verbosity)
        answer = tell(finished.report, code, folder.path, errors)
    if finished.report.interrupted:
        echo(f"Interrupted. To run what is left: {shlex.join(['mluops-test', 'run', '--resume', str(folder.path)])}")
    # A user who selected cases knows that the rest is left out.
    if plan.left_out and options.selection.is_default and verbosity >= 0:
        echo(
            f"{plan.left_out} declared cases were not selected; --all selects all except those tagged "
            f"{', '.join(NAMED_TAGS)}; --tag network the network scales."
        )
    return answer


def _opener_on_cluster(listeners: "list[Listener]", progress: "RunProgress") -> "Opener":
    """Opens the backend on the cluster; the progress line then says what each host does."""
    from mluops_gtest.cli.echo import echo_error
    from mluops_gtest.cluster.session import opener_on_cluster
    from mluops_gtest.core.report import CaseFinished, CaseStarted

    @contextlib.contextmanager
    def open_backend(plan: "RunPlan", source: "StoredCases") -> "Iterator[OpenBackend]":
        with opener_on_cluster(echo_error)(plan, source) as opened:

            def note_hosts(event: "Event") -> None:
                if isinstance(event, CaseStarted | CaseFinished):
                    hosts = opened.hosts.items()
                    words = (f"{host}: {len(one.running)} running, {one.done} done" for host, one in hosts)
                    progress.note(" · ".join(words))

            listeners.append(note_hosts)
            yield opened

    return open_backend


def _print_end(
    finished: "FinishedRun",
    options: "RunOptions",
    folder: "ResultsFolder",
    reporter: "TerminalReporter",
    verbosity: int,
) -> tuple[ExitCode, list[str]]:
    """Print the summary and write the reports that were asked for; the exit code, and all that could not be written."""
    from mluops_gtest.cli.echo import echo, echo_error
    from mluops_gtest.cli.terminal import stdout
    from mluops_gtest.results.reports.files import write_reports

    code, errors = finished.report.exit_code, []

    def complain_of(troubles: Iterable[HarnessError]) -> None:
        nonlocal code
        for trouble in troubles:
            echo_error(f"error: {trouble}")
            errors.append(str(trouble))
            code = ExitCode.worst([trouble.exit_code, code])

    complain_of(finished.troubles)
    if options.perf and verbosity >= 0:
        _print_performance(stdout(), finished.report)
    reporter.summary(finished.report, str(folder.path))
    if finished.saver is not None:
        if words := finished.saver.words():
            echo(words)
        complain_of([finished.saver.trouble] if finished.saver.trouble is not None else [])
    complain_of(write_reports(finished.report, options.reports))
    return code, errors


def _print_performance(console: "Console", report: "RunReport") -> None:
    """The times of a run: a row per case, the slowest first where there are many."""
    from mluops_gtest.cli.terminal import whole_table
    from mluops_gtest.results.times import timed_results

    device: Mapping[str, Any] | None = report.environment.get("device")
    timed = timed_results(report, device)
    if not timed:
        console.print("No case was timed: only cases that compute and pass are timed.")
        return
    shown = timed
    if len(timed) > _MAX_ROWS:
        shown = tuple(sorted(timed, key=lambda one: -one.latency.median)[:_MAX_ROWS])
    whole_table(console, _performance_table(shown, with_device=device is not None))
    if len(shown) < len(timed):
        console.print(f"… and {len(timed) - len(shown)} faster cases; all are in the report.")
    if device is None:
        console.print(
            "No efficiencies: describe the device with --device-spec FILE; "
            "`mluops-test device-spec --measure -o host.yaml` describes this machine.",
            soft_wrap=True,
        )
    console.print()


def _performance_table(timed: "Sequence[TimedResult]", *, with_device: bool) -> "Table":
    """Median with its interval, spread, and shares of the device."""
    from mluops_gtest.results.reports.terminal import LINE, RIGHT, escape, table_of
    from mluops_gtest.results.times import duration

    with_interface = any(one.device is not None for one in timed)
    interface = ("interface",) if with_interface else ()
    device = ("io_eff", "compute_eff", "bottleneck", "verdict") if with_device else ()
    columns = ("median", *interface, "95 % interval", "MAD", "cv", "samples", "workspace", *device)
    table = table_of((("case", "time"), LINE), (columns, RIGHT))
    for one in timed:
        figures = one.latency
        assert one.result.perf is not None
        table.add_row(
            escape(one.result.case),
            "device" if one.device is not None else "interface",
            duration(figures.median),
            *([duration(one.interface.median)] if with_interface else ()),
            f"{duration(figures.low)} – {duration(figures.high)}" if figures.low else _ABSENT,
            duration(figures.mad),
            f"{figures.cv:.1%}",
            str(figures.count),
            str(one.result.perf.workspace_bytes),
            *(_efficiency(one) if with_device else ()),
        )
    return table


def _efficiency(one: "TimedResult") -> list[str]:
    share = one.efficiency
    if share is None:
        return [_ABSENT] * 4
    below = f"[yellow]below {share.wanted:.0%}[/]"
    verdict = {True: "[green]accepted[/]", False: below, None: "too short to judge"}[share.accepted]
    compute = _ABSENT if share.compute is None else _percent(share.compute)
    return [_percent(share.io), compute, share.side, verdict]


def _percent(share: float) -> str:
    return f"{share * 100:.3g}%"
