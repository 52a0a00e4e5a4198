"""`mluops-test diff`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from mluops_gtest.base.errors import UsageError
from mluops_gtest.cli.options import (
    adapter_options,
    backend_option,
    complete_ids,
    file_options,
    isolate_option,
    reseed_option,
    root_option,
    timeout_option,
)
from mluops_gtest.cli.settings import stands_in_settings, typed_options
from mluops_gtest.core.case import Query

if TYPE_CHECKING:
    from mluops_gtest.running.outputs import CaseOutputs

_EPILOG = """\b
Examples:
  mluops-test diff voxel_pooling_forward/bevdepth_twin --backend my_kernels.py:backend
  mluops-test diff voxel_pooling_forward/bevdepth_twin --backend c:./libmykernels.so -n 30
  mluops-test diff path/to/case.prototxt -b exec:./my_program --save values
  mluops-test run -b my_kernels.py:backend --save-outputs failed --out results
  mluops-test diff voxel_pooling_forward/bevdepth_twin --from results
"""
# Options allowed beside --from; run.json has the rest.
_BESIDE_FROM = {"case", "results", "number", "save_to"}


@click.command("diff", epilog=_EPILOG)
@click.argument("case", shell_complete=complete_ids)
@backend_option("Run the case now on this backend (named as for `run`), e.g. -b my_kernels.py:backend.")
@click.option(
    "--from",
    "results",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="RESULTS",
    help="Use the outputs that `run --save-outputs` kept in this results folder, e.g. --from results.",
)
@click.option(
    "-n",
    "number",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    metavar="N",
    help="Show the N worst elements, e.g. -n 30.",
)
@click.option(
    "--save",
    "save_to",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write inputs, outputs and expected values as .npy files, and a script that loads them, e.g. --save values.",
)
@reseed_option
@adapter_options
@isolate_option("a worker process")
@timeout_option("Stop the worker after so long, e.g. --timeout 20.")
@root_option
@file_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    case: str,
    backend: str | None,
    results: Path | None,
    number: int,
    save_to: Path | None,
    roots: tuple[str, ...],
    **options: Any,
) -> int:
    """Show where the outputs of one case differ from the expected values.

    For each output it prints the elements with the largest errors (the last column is the error divided by
    max(|expected|, rms of expected)) and a map of where the errors are. Exit 0 if the case passes, 1 if not.
    """
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.case_outputs import from_results, read_run, recorded, run_now, save
    from mluops_gtest.cli.echo import say
    from mluops_gtest.cli.pages.diff import diff_page, verdict_lines
    from mluops_gtest.cli.terminal import print_page, stdout
    from mluops_gtest.core.report import exit_code
    from mluops_gtest.running.options import RunOptions

    if results is not None and stands_in_settings(ctx, "backend"):
        backend = None
    if (backend is None) == (results is None):
        raise UsageError(
            "diff needs either --backend, to run the case now, or --from, to use the outputs that a run kept, "
            "e.g. --backend my_kernels.py:backend or --from results."
        )
    remark = ""
    outputs: CaseOutputs | None
    if results is not None:
        if refused := [option for name, option in typed_options(ctx).items() if name not in _BESIDE_FROM]:
            raise UsageError(f"--from reads all options from the folder's run.json; leave out {', '.join(refused)}.")
        request = read_run(results)
        outputs = from_results(Session(request.roots), request, case, results)
        loaded, result, remark = outputs.case, outputs.result, recorded(results, outputs)
    else:
        assert backend is not None
        request = RunOptions(selection=Query((case,)), roots=roots, backend=backend, **options)
        if not request.isolated and request.timeout is not None:
            if not stands_in_settings(ctx, "timeout"):
                raise UsageError(f"--timeout needs a worker process; backend {backend!r} runs inline: add --isolate.")
            request = replace(request, timeout=None)
        loaded, result, outputs = run_now(Session(roots), request, case)
    console = stdout()
    print_page(console, verdict_lines(result))
    if remark:
        say(remark)
    if outputs is not None:
        print_page(console, diff_page(outputs, number, console.width))
    if save_to is not None:
        say(f"\nSaved in {save_to}: {', '.join(save(save_to, loaded, outputs))}")
    return int(exit_code([result]))
