"""`mluops-test run`."""

import contextlib
import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from mluops_gtest.base.errors import UsageError
from mluops_gtest.cli.options import (
    ReseedType,
    backend_options,
    cluster_options,
    coverage_option,
    elementwise_option,
    file_options,
    report_options,
    sampling_options,
    selection_options,
    taken_lanes,
    taken_reports,
    worker_options,
)
from mluops_gtest.cli.settings import stands_in_settings, typed_options
from mluops_gtest.core.case import LARGEST_RESEED, Query

if TYPE_CHECKING:
    from mluops_gtest.results.folder import ResultsFolder
    from mluops_gtest.running.options import RunRequest
    from mluops_gtest.running.plan import RecordedTimes
    from mluops_gtest.running.workers.fork_server import ForkServer

_EPILOG = """\b
Examples:
  mluops-test run                                     the default set on numpy
  mluops-test run --tag network                       the sizes that real networks use
  mluops-test run masked_im2col_forward -x            one operator, stop at the first failure
  mluops-test run masked_im2col_forward/edge_top_float -v
  mluops-test run 'get_indice_pairs/subm_*' --repeat 5
  mluops-test run my_cases/ --backend my_kernels.py:backend --out results
  mluops-test run --backend c:./libmykernels.so -j 2 --timeout 20
  mluops-test run --backend c:./libmykernels.so --guard-pages     also find reads outside a buffer
  mluops-test run --backend c:./libmykernels.so --fresh-workers
  mluops-test run --backend c:./libmykernels.so --stress 60       look for races for a minute
  mluops-test run my_cases/ --backend c:./libmykernels.so --arbitrate   who is right: the kernel or the file?
  mluops-test run --shard 1/4 --out results-1         a quarter of the cases; then: mluops-test merge
  mluops-test run --shard 1/4 --times last-night      quarters that took the same time last night
  mluops-test run --tag network --perf --device-spec host.yaml
  mluops-test run --all --cluster tcp://node1:8786    on many machines, see docs/how-to/many-machines.md
  mluops-test run --junit junit.xml --html report.html
  mluops-test run --require-coverage 95%              exit 5 where more than a twentieth is skipped
  mluops-test run --reseed 7                          other random values, fresh baselines
  mluops-test run --failed results --out again        what did not pass there, the smallest case first
  mluops-test run --resume results                    go on after a crash, Ctrl-C or a full disk
  mluops-test run --out results --overwrite           the same folder again
"""
# Options allowed beside --resume: they change what is printed or where it runs, not what is run.
_BESIDE_RESUME = {"resume", "quiet", "verbose", "cluster"}
_ONLY_WITH_PERF = {"warmup", "samples", "cold_cache", "device_spec"}


@click.command("run", epilog=_EPILOG)
@selection_options
@backend_options
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for run.json, results.jsonl and report.json, e.g. --out results.  [default: ./mluops-results/<time>]",
)
@click.option("--overwrite", is_flag=True, help="Replace the run in the --out folder, e.g. --out results --overwrite.")
@worker_options
@click.option(
    "--repeat",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Run each case N times and require outputs that are equal bit for bit, e.g. --repeat 5.",
)
@click.option(
    "--stress",
    metavar="SECONDS|Nx",
    help="Look for races: repeat the cases for so long in all, or each N times, in workers with different numbers of "
    "threads (OMP_NUM_THREADS and the like), and count the repetitions that fail or leave other bits; elements "
    "further off than arithmetic allows fail. Without a selection it takes the cases tagged race; e.g. --stress 60 or "
    "--stress 20x.",
)
@click.option(
    "--reruns",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Try a failed case up to N more times; one that then passes is flaky, e.g. --reruns 2.",
)
@click.option(
    "--fail-on-leak",
    is_flag=True,
    help="Fail a case whose call keeps more memory each time; without this it is a note, e.g. --backend c:./libk.so "
    "--fail-on-leak.",
)
@click.option(
    "--bitwise", is_flag=True, help="Where a criterion is diff3 = 0, also require equal bits (−0, NaN payloads)."
)
@elementwise_option
@click.option(
    "--arbitrate",
    is_flag=True,
    help="Where outputs differ from their baselines, recompute the worst 1000 elements exactly and echo who is right, "
    "e.g. my_cases/ --backend c:./libmykernels.so --arbitrate.",
)
@click.option(
    "-x",
    "--exitfirst",
    "stop_at_first",
    is_flag=True,
    help="Stop at the first case that fails; run the smallest cases first.",
)
@click.option("--perf", is_flag=True, help="Also time every case that computes and passes, e.g. --perf --tag network.")
@sampling_options
@click.option(
    "--device-spec",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Compare times with what the device can do at best, e.g. --device-spec host.yaml (see: device-spec --help).",
)
@click.option(
    "--reseed",
    type=ReseedType(),
    metavar="N|random",
    help="Use other random values and fresh baselines, so that no lookup table passes, e.g. --reseed 7.",
)
@click.option(
    "--save-outputs",
    type=click.Choice(["failed", "all"]),
    help="Keep what the backend computed as .npy files in the results folder, for `diff`, e.g. --save-outputs failed.",
)
@coverage_option
@click.option("--shard", metavar="I/N", help="Run only part I of N of the selected cases, e.g. --shard 2/5.")
@click.option(
    "--failed",
    type=click.Path(path_type=Path, exists=True),
    metavar="RESULTS",
    help="Run only what did not pass in an earlier run (a results folder or a report.json), the smallest cases first, "
    "e.g. --failed results --op get_indice_pairs.",
)
@click.option(
    "--times",
    type=click.Path(path_type=Path, exists=True),
    metavar="RESULTS",
    help="Balance the shards by the times of an earlier run (a results folder or a report.json), e.g. --shard 2/5 "
    "--times last-night.",
)
@click.option(
    "--allow-empty-shard", is_flag=True, help="Accept a shard without cases, e.g. --shard 9/9 --allow-empty-shard."
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Finish an interrupted run with the options it had, e.g. --resume mluops-results/20260101-120000.",
)
@cluster_options
@click.option(
    "--judge-here",
    is_flag=True,
    help="With --cluster: fetch the outputs of all cases and judge them on this machine; else 2 % are, by draw.",
)
@report_options
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="Name this run in history, compare and reports, e.g. --label device=mlu370 --label compiler=4.1.0; git "
    "commit and backend file are always recorded.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only the closing lines.")
@click.option("-v", "--verbose", is_flag=True, help="Print a line per case, and what the backend printed.")
@file_options
@click.pass_context
def command(ctx: click.Context, /, query: Query, resume: Path | None, **options: Any) -> int:
    """Run cases on a backend and judge the results.

    SELECT is a case id, an operator, a glob over ids, a case file or a folder of case files. Without any
    selection the default set runs: every declared case except those tagged network, race,
    heavy, undefined or subnormal.
    """
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.options import given_labels
    from mluops_gtest.cli.run_command import empty_shard, only_failed, plan_new
    from mluops_gtest.running.options import RunRequest
    from mluops_gtest.running.session import refuse_guard_pages, refuse_inline, refuse_on_cluster, under_stress

    verbosity = -1 if options.pop("quiet") else int(options.pop("verbose"))
    options.pop("verbose", None)
    if resume is not None:
        _refuse_beside_resume(ctx)
        return _resume(resume, verbosity, options["cluster"])
    unused = [option for name, option in typed_options(ctx).items() if name in _ONLY_WITH_PERF]
    if unused and not options["perf"]:
        raise UsageError(f"{', '.join(unused)}: only timed cases use this; add --perf.")
    _leave_out_unfit(ctx, options)
    if options["stress"] is not None:
        query = under_stress(query, options)
    out, allow_empty = options.pop("out"), options.pop("allow_empty_shard")
    overwrite = options.pop("overwrite")
    if overwrite and out is None:
        raise UsageError("--overwrite replaces the folder of --out; name it, e.g. --out results --overwrite.")
    jobs, devices = taken_lanes(options)
    if options["perf"] and (jobs or 1) > 1:
        raise UsageError(
            "--perf times one call at a time: leave out -j. --devices works, since each device has its own worker."
        )
    options["reports"] = taken_reports(options)
    options["labels"] = given_labels(options["labels"])
    if ctx.obj is not None:
        options["labels"] = {**ctx.obj.settings.get("labels", {}), **options["labels"]}
        options["settings"] = str(ctx.obj.path)
    options["reseed"] = _seed(options["reseed"], options["shard"])
    failed, session = options.pop("failed"), Session(options["roots"])
    smallest_first = options["stop_at_first"] or failed is not None
    times = _times(options.pop("times"), of_use=options["shard"] is not None or smallest_first)
    if failed is not None:
        query = only_failed(session, query, failed)
    request = RunRequest(
        selection=query,
        jobs=jobs or 1,
        devices=devices,
        times=None if times is None else times.digest,
        **options,
    )
    refuse_on_cluster(request, jobs)
    if not request.isolated:
        refuse_inline(request.backend, jobs, devices, options)
    if request.guard_pages:
        refuse_guard_pages(request)
    with _fork_server(request) as fork_server:
        # Late: the fork server starts meanwhile.
        from mluops_gtest.cli.run_command import execute
        from mluops_gtest.results.reports.files import check_reports

        cases, left_out = plan_new(session, request, times, by_size=smallest_first)
        if not cases:
            return int(empty_shard(allow_empty))
        with _new_folder(out, overwrite=overwrite) as folder:
            check_reports(request.reports, folder.path)
            return int(execute(session, request, cases, left_out, folder, verbosity, None, times, fork_server))


def _fork_server(request: "RunRequest") -> "contextlib.AbstractContextManager[ForkServer | None]":
    """Where the workers of this run will start; None where it has none on this machine."""
    if not request.isolated or request.cluster is not None:
        return contextlib.nullcontext()
    from mluops_gtest.running.workers.fork_server import ForkServer

    return contextlib.closing(ForkServer(len(request.lanes)))


def _leave_out_unfit(ctx: click.Context, options: dict[str, Any]) -> None:
    """Drop settings that this run cannot use; typed options of that kind are refused elsewhere."""
    from mluops_gtest.backends.registry import is_in_process

    inline = is_in_process(options["backend"]) if options["isolate"] is None else not options["isolate"]
    unfit = {"jobs": inline or options["perf"] or options["devices"], "timeout": inline}
    options.update((name, None) for name, found in unfit.items() if found and stands_in_settings(ctx, name))
    if inline and stands_in_settings(ctx, "fail_on_leak"):
        options["fail_on_leak"] = False


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


def _times(path: Path | None, *, of_use: bool) -> "RecordedTimes | None":
    from mluops_gtest.running.plan import RecordedTimes

    if path is not None and not of_use:
        raise UsageError("--times only helps --shard I/N, -x and --failed; add one of them or leave out --times.")
    return None if path is None else RecordedTimes.read(path)


def _refuse_beside_resume(ctx: click.Context) -> None:
    given = [
        option
        for name, option in typed_options(ctx).items()
        if name not in _BESIDE_RESUME and ctx.params.get(name) not in (None, ())
    ]
    if given:
        raise UsageError(f"--resume reads all options from the folder's run.json; leave out {', '.join(given)}.")


def _resume(path: Path, verbosity: int, cluster: str | None) -> int:
    from mluops_gtest.base.typed_files import convert
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.echo import echo
    from mluops_gtest.cli.run_command import execute
    from mluops_gtest.results.folder import REPORT, ResultsFolder, read_done, read_report, read_request, request_source
    from mluops_gtest.results.reports.files import check_reports
    from mluops_gtest.running.options import RunRecord, RunRequest

    with ResultsFolder(path) as folder:
        record, source = read_request(path), request_source(path)
        request, planned = RunRequest.from_json(record, source), convert(record, RunRecord, source)
        if cluster is not None:
            request = replace(request, cluster=cluster)
        if (path / REPORT).exists():
            report = read_report(path)
            if not report.interrupted:
                echo(f"{path}: the run is finished; nothing is left to run.")
                return int(report.exit_code)
        session = Session(request.roots)
        check_reports(request.reports, path)
        cases = session.select(Query(planned.cases)).cases if planned.cases else ()
        return int(execute(session, request, cases, planned.left_out, folder, verbosity, read_done(path)))


def _new_folder(out: Path | None, *, overwrite: bool) -> "ResultsFolder":
    from mluops_gtest.results.folder import ResultsFolder

    if out is None:
        stamp = datetime.datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
        return ResultsFolder.fresh(Path("mluops-results"), stamp)
    advice = f"`--resume {out}` goes on with it, --overwrite replaces it, another --out keeps both"
    return ResultsFolder.new(out, overwrite=overwrite, advice=advice)
