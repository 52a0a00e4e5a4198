"""`mluops-test fuzz`."""

import contextlib
from pathlib import Path
from typing import Any

import click

from mluops_gtest.cli.options import (
    backend_options,
    cluster_options,
    complete_operators,
    root_option,
    taken_lanes,
    worker_options,
)

_SECONDS = 60.0
_EPILOG = """\b
Examples:
  mluops-test fuzz --backend my_kernels.py                       every operator, for a minute
  mluops-test fuzz --backend c:./libk.so --op ball_query         one operator
  mluops-test fuzz --backend c:./libk.so --seconds 3600 -j 2     for an hour, in two workers
  mluops-test fuzz --backend c:./libk.so --cases 2000 --seed 7   2000 draws per operator, the same ones everywhere
  mluops-test fuzz --backend c:./libk.so --guard-pages           also find reads outside a buffer
  mluops-test fuzz --backend c:./libk.so --stress 5x             each draw five times, with changing threads
  mluops-test fuzz --backend c:./libk.so --corpus corpus         go on where the last run stopped, old failures first
  mluops-test fuzz --backend mlu --cluster tcp://node1:8786      on many machines, see docs/how-to/many-machines.md
"""


@click.command("fuzz", epilog=_EPILOG)
@click.option(
    "--op",
    "operators",
    multiple=True,
    help="Only this operator, e.g. --op ball_query (repeat it: all of them).",
    shell_complete=complete_operators,
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="S",
    help="Draw for so long, e.g. --seconds 600.  [default: 60]",
)
@click.option(
    "--cases", type=click.IntRange(0), metavar="N", help="Draw so many cases per operator, e.g. --cases 2000."
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    metavar="N",
    help="Draw the calls of this seed, e.g. --seed 7; another one on every machine.  "
    "[default: that of the last fuzz run in the corpus, else 0]",
)
@click.option(
    "--corpus",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("mluops-corpus"),
    show_default=True,
    metavar="DIR",
    help="Folder for the cases that fail; they are run first the next time, e.g. --corpus corpus.",
)
@click.option(
    "--stress",
    metavar="Nx",
    help="Look for races: repeat each draw N times in workers with different numbers of threads, e.g. --stress 5x.",
)
@backend_options
@worker_options
@cluster_options
@click.option("-q", "--quiet", is_flag=True, help="Print only what is found and the closing lines.")
@root_option
@click.pass_context
def command(ctx: click.Context, /, corpus: Path, quiet: bool, **options: Any) -> int:
    """Draw calls that nobody declared, and keep what fails.

    Calls come from the parameter space that each operator declares: valid, just valid, just invalid, wrong in two ways,
    with sizes around powers of two and special values. Every element is held to what arithmetic allows. Of each cause
    the smallest case is kept in the corpus. The same seed draws the same calls. Exit 1 if anything fails.
    """
    from mluops_gtest.base.errors import UsageError
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.echo import echo_error, one_interrupt
    from mluops_gtest.cli.pages.fuzz import fuzz_page
    from mluops_gtest.cli.progress import FuzzProgress
    from mluops_gtest.cli.terminal import print_page, stderr, stdout
    from mluops_gtest.core.case import Query
    from mluops_gtest.running.options import RunRequest
    from mluops_gtest.running.session import refuse_guard_pages, refuse_inline, refuse_on_cluster
    from mluops_gtest.search.fuzz_session import HuntRequest, hunt, hunt_exit_code

    taken = {name: options.pop(name) for name in ("operators", "seconds", "cases", "seed")}
    if taken["seconds"] is None and taken["cases"] is None:
        taken["seconds"] = _SECONDS
    jobs, devices = taken_lanes(options)
    if options["stress"] is not None and options["guard_pages"]:
        raise UsageError("--stress repeats every case itself: leave out --guard-pages.")
    settings = None if ctx.obj is None else str(ctx.obj.path)
    run = RunRequest(selection=Query(), jobs=jobs or 1, devices=devices, elementwise=True, settings=settings, **options)
    refuse_on_cluster(run, jobs)
    if not run.isolated and run.cluster is None:
        refuse_inline(run.backend, jobs, devices, options)
    if run.guard_pages:
        refuse_guard_pages(run)
    request = HuntRequest(run=run, corpus=corpus, **taken)
    progress = FuzzProgress(stderr(), taken["seconds"], shown=not quiet)
    session = Session(options["roots"])
    with one_interrupt(), contextlib.closing(progress):
        if run.cluster is None:
            report = hunt(request, session, progress.start, progress)
        else:
            from mluops_gtest.cluster.fuzzing import hunt_on_cluster

            report = hunt_on_cluster(request, session, progress.start, progress, echo_error)
    print_page(stdout(), fuzz_page(report, run.repro_options(), corpus))
    return int(hunt_exit_code(report))
