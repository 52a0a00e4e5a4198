"""`mluops-test minimise`: searches the smallest case with the same failure, writes it, and says what became of it."""

import contextlib
import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import replace

from mluops_gtest.base.errors import ExitCode, UnwritableError, UsageError
from mluops_gtest.base.files import CASE_SUFFIXES, TEXT, place_below, replace_text
from mluops_gtest.cli.echo import echo, echo_error, one_interrupt, print_json
from mluops_gtest.cli.options import (
    adapter_options,
    backend_option,
    complete_ids,
    elementwise_option,
    file_options,
    flag_option,
    isolate_option,
    json_option,
    root_option,
    run_option,
    timeout_option,
    value_option,
)
from mluops_gtest.core.case import Query

if TYPE_CHECKING:
    from mluops_gtest.core.operator import Operator
    from mluops_gtest.core.result import CaseResult
    from mluops_gtest.search.minimise import Minimised, Step

_MAX_NAME: Final = 100


@click.command("minimise")
@click.argument("case", shell_complete=complete_ids)
@backend_option(
    "What the case fails on, as for `run`, e.g. -b my_kernels.py or -b c:./libmykernels.so.",
    required=True,
)
@value_option(
    "--out FILE",
    "file",
    "The smallest case, .prototxt or .pb, e.g. --out small.prototxt.  [default: ./<case>_minimised.prototxt]",
)
@value_option(
    "--standalone",
    click.Choice(["py", "c"]),
    "Also write one file beside --out that shows the failure without mluops-test, e.g. --standalone py.",
)
@value_option("--calls N", click.IntRange(2), "Call the backend at most so often, e.g. --calls 1000.", default=300)
@adapter_options
@isolate_option("a worker process")
@timeout_option("Take the case for hanging after so long, e.g. --timeout 5.")
@flag_option("--guard-pages", "Also find reads and writes outside a buffer, as `run` does.")
@flag_option("--bitwise", "Where a criterion is diff3 = 0, also require equal bits.")
@elementwise_option
@run_option("reseed", "Begin with the values of `run --reseed N`, e.g. --reseed 7.", metavar="N")
@flag_option("-q --quiet", "Print only the name of the file.")
@json_option()
@root_option
@file_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    case: str,
    roots: tuple[str, ...],
    backend: str,
    out: Path | None,
    standalone: str | None,
    calls: int,
    quiet: bool,
    form: str,
    **options: Any,
) -> int:
    """Find the smallest case that fails on a backend for the same cause as CASE, an id or a case file.

    Points, sites, channels, batches, spaces and kernels are taken away, and values become 0, 1 and small integers, as
    long as the failure stays: the same outcome, status and kind of mistake in the same output; a crash by the same
    signal, a hang. What the document takes for granted stays, too. Ctrl-C ends the search with the best case so far.

    Exit code 0: a smallest case is written. 5: the case does not fail, so there is nothing to minimise.

    Examples:
      mluops-test minimise voxel_pooling_forward/bevdepth_twin --backend my_kernels.py
      mluops-test minimise failing.prototxt -b c:./libmykernels.so --out small.prototxt
      mluops-test minimise get_indice_pairs/subm_3x3x3 -b c:./libmykernels.so --standalone c
      mluops-test minimise ball_query/random_8_float -b my_kernels.py --standalone py
      mluops-test minimise hangs.prototxt -b my_kernels.py --timeout 5
      mluops-test minimise ball_query/random_8_float -b my_kernels.py --format json   for programs
    """
    from mluops_gtest.casefiles.schema import Schema
    from mluops_gtest.casefiles.writer import write_case
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.standalone import describe_failure, standalone_of
    from mluops_gtest.core.operator_parts import REDUCTIONS
    from mluops_gtest.core.tensor import digest_bytes
    from mluops_gtest.documents import to_json
    from mluops_gtest.running.options import RunOptions
    from mluops_gtest.running.plan import refuse
    from mluops_gtest.search.minimise import minimise_case

    session = Session(roots)
    chosen = session.select_one(case)
    settings = None if ctx.obj is None else str(ctx.obj.path)
    request = RunOptions(Query((case,)), roots, backend, settings=settings, **options)
    refuse(request)
    is_typed = chosen.draft is not None and chosen.draft.is_typed
    # The words of a typed call are longer than a name should be.
    target = _target(out, f"{chosen.operator}_{digest_bytes(chosen.id.encode())[:8]}" if is_typed else chosen.id)
    alone = None if standalone is None else standalone_of(standalone, backend, request.runtime)
    with one_interrupt(), _progress(quiet) as report_step:
        smallest, confirmed, operator = minimise_case(session, request, case, calls, report_step)
    if not smallest.fails:
        if form == "json":
            print_json(to_json(smallest))
        return int(_report_passing(smallest.result, backend))
    operators = session.catalogue.operators
    reductions = operators.part(operator.name, REDUCTIONS)
    write_case(replace(smallest.case, id=target.stem), operator, target, Schema.of(operators.values()), readable=True)
    # Nothing changed, so that the words of the call say it exactly.
    repro = [
        "mluops-test",
        "run",
        case if smallest.is_unchanged and is_typed else str(target),
        *request.repro_options(),
    ]
    names = {"file": str(target), "repro": shlex.join(repro)}
    if alone is not None:
        path = target.with_suffix(alone.suffix)
        replace_text(path, alone.text(describe_failure(smallest.case, confirmed, operator, operators), path))
        names["standalone"] = alone.command(path)
    if form == "json":
        print_json(to_json(replace(smallest, result=confirmed), **names))
    elif quiet:
        echo(str(target))
    else:
        heads = {"file": "case: ", "repro": "repro:", "standalone": "alone:"}
        lines = _describe_search(smallest, confirmed, operator, has_reductions=bool(reductions))
        echo("\n".join([*lines, *(f"{heads[name]} {words}" for name, words in names.items())]))
    return int(ExitCode.INTERRUPTED if smallest.interrupted else ExitCode.OK)


def _target(out: Path | None, case_id: str) -> Path:
    """Where the case goes; refused before the search where nothing can be written."""
    name = re.sub(
        r"[^A-Za-z0-9_.-]", "_", Path(case_id).stem if case_id.endswith(CASE_SUFFIXES) else case_id.rpartition("/")[2]
    )
    target = Path(f"{name[:_MAX_NAME]}_minimised{TEXT}") if out is None else out
    if out is None:
        place_below(Path(), target)
    if target.suffix not in CASE_SUFFIXES:
        raise UsageError(f"--out {target}: the name must end in {' or '.join(CASE_SUFFIXES)}.")
    if not target.parent.is_dir():
        raise UsageError(f"--out {target}: there is no folder {target.parent}; make it, or name another file.")
    if not os.access(target.parent, os.W_OK) and not target.exists():
        raise UnwritableError(f"{target}: cannot be written: Permission denied. Name another file by --out.")
    return target


@contextlib.contextmanager
def _progress(quiet: bool) -> "Iterator[Callable[[Step], None]]":
    """A line on a terminal: calls, elements left, what is tried."""
    from rich.progress import BarColumn, Progress, TextColumn

    from mluops_gtest.cli.terminal import stderr

    console = stderr()
    columns = (BarColumn(bar_width=20), TextColumn("{task.completed}/{task.total} calls, {task.description}"))
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        task = progress.add_task("the case itself", total=None)

        def report_step(step: "Step") -> None:
            words = f"{step.elements} elements left, trying fewer {step.tried}"
            progress.update(task, completed=step.calls, total=step.limit, description=words)

        yield report_step


def _report_passing(result: "CaseResult", backend: str) -> ExitCode:
    """Says why there is nothing to minimise; returns the exit code for that."""
    from mluops_gtest.core.outcome import Outcome

    if result.outcome is Outcome.PASSED:
        met = ", ".join(f"{one.output}: {one.criterion} {one.value:.4g} ≤ {one.threshold:g}" for one in result.readings)
        echo_error(f"{result.case} passes on {backend} ({met or 'its status is right'}): there is nothing to minimise.")
        return ExitCode.EMPTY
    echo_error(f"{result.case} on {backend}: {result.outcome.words['en']}: {result.reason}")
    if result.bug:
        return ExitCode.BUG
    if result.content_error:
        echo_error("The case itself is broken, so there is no failure of the backend to minimise.")
        return ExitCode.CONTENT
    echo_error("That is no failure of the backend: there is nothing to minimise.")
    return ExitCode.EMPTY


def _describe_search(
    smallest: "Minimised", confirmed: "CaseResult", operator: "Operator", *, has_reductions: bool
) -> Iterator[str]:
    """Yields what became smaller, how it fails, and what the search could not do."""
    from mluops_gtest.search.fuzz import headline_of
    from mluops_gtest.search.minimise import FailureCause, what_shrank

    before, after = smallest.elements
    calls, result = smallest.calls, smallest.result
    if smallest.interrupted:
        yield f"Interrupted after {calls} calls; the best case so far has {after} of {before} elements."
    elif smallest.is_unchanged:
        yield f"The case is minimal already: nothing can be taken away ({calls} calls, {after} elements)."
    else:
        yield f"{before} → {after} elements in {calls} calls."
    yield f"{what_shrank(smallest)}; fails with: {result.outcome.words['en']}: {result.reason}"
    if confirmed.explained:
        yield headline_of([confirmed], [confirmed], operator)
    if not smallest.interrupted:
        for name, (_, left) in smallest.sizes.items():
            if left > 1 and smallest.finished and name in smallest.refused:
                yield f"no fewer {name}: {smallest.refused[name]}"
        if not FailureCause.of(result).is_also_of(confirmed):
            yield (
                "Asked once more, the case did not fail so: the failure does not come every time. "
                "`run --repeat` shows it."
            )
        if not smallest.finished:
            yield f"All {calls} calls are used up; --calls {4 * calls} goes on looking."
    if not has_reductions:
        yield f"{operator.name} declares neither axes nor reductions, so only values could become plainer."
