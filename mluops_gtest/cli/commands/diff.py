"""`mluops-test diff`: the worst elements of every output of one case, and a map of where they are.

The outputs come from a call that is made now or from what a run saved; `--save` writes them for other tools.
"""

import math
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from mluops_gtest.base.errors import UsageError
from mluops_gtest.cli.echo import echo, print_json
from mluops_gtest.cli.options import (
    adapter_options,
    backend_option,
    complete_ids,
    file_options,
    isolate_option,
    json_option,
    reseed_option,
    root_option,
    stands_in_settings,
    timeout_option,
    typed_options,
    value_option,
)
from mluops_gtest.core.case import Query

if TYPE_CHECKING:
    from rich.table import Table

    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.core.case import Case
    from mluops_gtest.core.result import CaseResult
    from mluops_gtest.results.saved_outputs import CaseOutputs, OutputDifference
    from mluops_gtest.running.options import RunOptions

_MAX_ROWS = 16
_MAX_COLUMNS = 64
# What stands beside the cells of the map.
_MARGIN = 14
_EQUAL, _LOST = "·", "!"
# The largest relative error of a cell, below so much, its sign and its colour.
_SIGNS = (
    (1e-6, "-", "green"),
    (1e-4, "=", "green"),
    (1e-2, "+", "yellow"),
    (1.0, "*", "red"),
    (math.inf, "#", "red"),
)
_SCRIPT = "look.py"
# Options allowed beside --from; run.json has the rest.
_BESIDE_FROM = {"case", "results", "number", "save_to", "form"}


@click.command("diff")
@click.argument("case", shell_complete=complete_ids)
@backend_option("Run the case now on this backend (named as for `run`), e.g. -b my_kernels.py:backend.")
@value_option(
    "--from results RESULTS",
    "results folder",
    "Use the outputs that `run --save-outputs` kept in this results folder, e.g. --from results.",
)
@value_option("-n number N", click.IntRange(1), "Show the N worst elements, e.g. -n 30.", default=10)
@value_option(
    "--save save_to DIR",
    "folder",
    "Write inputs, outputs and expected values as .npy files, and a script that loads them, e.g. --save values.",
)
@json_option()
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
    form: str,
    roots: tuple[str, ...],
    **options: Any,
) -> int:
    """Show where the outputs of one case differ from the expected values.

    For each output it prints the elements with the largest errors (the last column is the error divided by
    max(|expected|, rms of expected)) and a map of where the errors are. Exit 0 if the case passes, 1 if not.

    Examples:
      mluops-test diff voxel_pooling_forward/bevdepth_twin --backend my_kernels.py:backend
      mluops-test diff voxel_pooling_forward/bevdepth_twin --backend c:./libmykernels.so -n 30
      mluops-test diff path/to/case.prototxt -b exec:./my_program --save values
      mluops-test run -b my_kernels.py:backend --save-outputs failed --out results
      mluops-test diff voxel_pooling_forward/bevdepth_twin --from results
      mluops-test diff ball_query/random_8_float -b my_kernels.py --format json   for programs
    """
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.terminal import print_page, stdout
    from mluops_gtest.core.report import exit_code
    from mluops_gtest.running.options import RunOptions
    from mluops_gtest.search.fuzz import headline_of

    if results is not None and stands_in_settings(ctx, "backend"):
        backend = None
    if (backend is None) == (results is None):
        raise UsageError(
            "diff needs either --backend, to run the case now, or --from, to use the outputs that a run kept, "
            "e.g. --backend my_kernels.py:backend or --from results."
        )
    before: CaseResult | None = None
    recorded: CaseResult | None = None
    outputs: CaseOutputs | None
    if results is not None:
        from mluops_gtest.results.folder import read_done

        if refused := [option for name, option in typed_options(ctx).items() if name not in _BESIDE_FROM]:
            raise UsageError(f"--from reads all options from the folder's run.json; leave out {', '.join(refused)}.")
        outputs = _read_outputs(results, case)
        loaded, result = outputs.case, outputs.result
        before = read_done(results).get(loaded.id)
        recorded = None if before is None or before.outcome is result.outcome else before
    else:
        assert backend is not None
        request = RunOptions(selection=Query((case,)), roots=roots, backend=backend, **options)
        if not request.isolated and request.timeout is not None:
            if not stands_in_settings(ctx, "timeout"):
                raise UsageError(f"--timeout needs a worker process; backend {backend!r} runs inline: add --isolate.")
            request = replace(request, timeout=None)
        session = Session(roots)
        loaded = _load(session, request, case)
        result, outputs = _run_now(session, request, loaded)
    console = stdout()
    differences = _differences(outputs, number, console.width - _MARGIN)
    saved = [] if save_to is None else _save(save_to, loaded, outputs)
    if form == "json":
        from mluops_gtest.documents import DIFF
        from mluops_gtest.results.shapes import fill

        print_json(fill(DIFF, result=result, recorded=recorded, outputs=differences, saved=saved))
        return int(exit_code([result]))
    # Saved outputs are judged by the case alone; the run also compared it with the cases beside it.
    explained = before or result
    if outputs is not None and explained.explained:
        echo(headline_of([explained], [explained], outputs.operator))
    print_page(console, _verdict_lines(result))
    if recorded is not None:
        echo(f"the run itself: {recorded.outcome.value}: {recorded.reason}")
    print_page(console, _page(differences))
    if save_to is not None:
        echo(f"\nSaved in {save_to}: {', '.join(saved)}")
    return int(exit_code([result]))


def _load(session: "Session", request: "RunOptions", name: str) -> "Case":
    """Returns the case with the values that the request asks for."""
    chosen = session.select_one(name)
    source = session.source(
        (chosen,), strict=request.strict, allow_outside_paths=request.allow_outside_paths, reseed=request.reseed
    )
    return source.load(chosen.id)


def _run_now(session: "Session", request: "RunOptions", case: "Case") -> "tuple[CaseResult, CaseOutputs | None]":
    """Runs the case as a run does; without outputs where the call did not answer, or had nothing to compute."""
    import numpy as np

    from mluops_gtest.results.saved_outputs import CaseOutputs
    from mluops_gtest.running.caller import open_callers
    from mluops_gtest.running.case_run import CaseRun, Options

    kept: list[CaseOutputs] = []

    def keep(outputs: CaseOutputs) -> None:
        # The buffers go with the worker.
        arrays = {name: np.array(array) for name, array in outputs.arrays.items()}
        kept.append(replace(outputs, arrays=arrays, scalars=dict(outputs.scalars)))

    with open_callers(request, session.catalogue) as (caller, *_):
        case_run = CaseRun(caller, Options(timeout=request.timeout, strict=request.strict), keep)
        result = case_run.run_case(case, session.catalogue.operators.get(case.operator))
    return result, kept[-1] if kept else None


def _read_outputs(folder: Path, name: str) -> "CaseOutputs":
    """Returns the outputs that a run saved for the case, judged again."""
    from mluops_gtest.catalog.root import root_words
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.results.folder import read_request, request_source
    from mluops_gtest.results.saved_outputs import judge_saved, read_outputs
    from mluops_gtest.running.options import RunOptions

    request = RunOptions.from_json(read_request(folder, "--from"), request_source(folder))
    session = Session(request.roots)
    case = _load(session, request, name)
    operator = session.catalogue.operators.get(case.operator)
    saved = None if operator is None else read_outputs(folder, case)
    if operator is not None and saved is not None:
        return judge_saved(case, operator, *saved)
    words = ["mluops-test", "diff", case.id, "--backend", request.backend, *root_words(request.roots)]
    for option, value in (("--runtime", request.runtime), ("--reseed", request.reseed)):
        words += [] if value is None else [option, str(value)]
    flags = {
        "--serve": request.serve,
        "--isolate": request.isolate is True,
        "--no-isolate": request.isolate is False,
    }
    now = shlex.join([*words, *(option for option, is_set in flags.items() if is_set)])
    raise UsageError(
        f"{folder}: no outputs of {case.id}. `run --save-outputs failed` keeps those of cases that fail and "
        f"answer, `--save-outputs all` those of all that compute; `{now}` runs the case now."
    )


def _save(folder: Path, case: "Case", outputs: "CaseOutputs | None") -> list[str]:
    """Writes inputs, got and expected as .npy files and a script that loads them; returns the names of the files."""
    from mluops_gtest.base.files import replace_text
    from mluops_gtest.core.tensor import widened
    from mluops_gtest.results.saved_outputs import write_npy

    files = {f"{t.id}.npy": (t.values, t.desc.dtype) for t in case.inputs if t.data is not None}
    if outputs is not None:
        # Only the rows that are compared.
        compared = {pair.tensor.id: (pair.got, pair.expected) for pair in outputs.pairs()}
        for tensor in outputs.expectation.outputs:
            sides = compared.get(tensor.id, (outputs.arrays[tensor.id], tensor.values))
            for side, array in zip(("got", "expected"), sides, strict=True):
                files[f"{tensor.id}.{side}.npy"] = (array, tensor.desc.dtype)
    for name, (array, dtype) in files.items():
        write_npy(folder / name, widened(array, dtype))
    if outputs is None:
        return [*files]
    worst = outputs.result.worst
    replace_text(folder / _SCRIPT, _script(outputs.expectation.outputs[0].id if worst is None else worst.output))
    return [*files, _SCRIPT]


def _script(output: str) -> str:
    """Five lines that load an output and print its worst element."""
    return f"""import numpy as np, pathlib
got, expected = (np.load(pathlib.Path(__file__).with_name(f"{output}.{{side}}.npy")) for side in ("got", "expected"))
error = np.where((got == expected) | np.isnan(got) & np.isnan(expected), 0, np.abs(got - expected.astype("c16")))
worst = np.unravel_index(np.argmax(np.nan_to_num(error, nan=np.inf)), error.shape)
print(f"{output}{{[int(i) for i in worst]}} = {{got[worst]}}, expected {{expected[worst]}}, error {{error[worst]}}")
"""


def _verdict_lines(result: "CaseResult") -> Iterator[str]:
    """Yields what the case came to; a failure as a run reports it, without a repro line."""
    from mluops_gtest.results.reports.terminal import escape, failure_lines

    if result.outcome.blocks:
        yield from (line for line in failure_lines(result, verbose=False) if not line.startswith("  repro:"))
    else:
        reason = f": {escape(result.reason)}" if result.reason else ""
        yield f"[{result.outcome.tone.terminal}]{result.outcome.value}[/] [bold]{escape(result.case)}[/]{reason}"


def _differences(outputs: "CaseOutputs | None", number: int, width: int) -> "list[OutputDifference]":
    """Every output that is compared, that with the worst element first."""
    if outputs is None:
        return []
    cells, worst = (_MAX_ROWS, max(8, min(_MAX_COLUMNS, width))), outputs.result.worst
    pairs = sorted(outputs.pairs(), key=lambda pair: worst is not None and pair.tensor.id != worst.output)
    return [pair.difference(number, cells) for pair in pairs]


def _page(differences: "list[OutputDifference]") -> "Iterator[Table | str]":
    """Yields what is known of each output; below the last map what its signs mean."""
    for one in differences:
        yield ""
        yield from _describe_output(one)
    if any(one.profile is not None for one in differences):
        steps = "  ".join(f"{sign} < {limit:g}" if limit < math.inf else f"{sign} ≥ 1" for limit, sign, _ in _SIGNS)
        yield f"\nmaps: on the left the flat index; {_EQUAL} equal  {steps}  {_LOST} NaN or infinite"


def _describe_output(one: "OutputDifference") -> "Iterator[Table | str]":
    from mluops_gtest.core.cause import format_share
    from mluops_gtest.results.reports.terminal import LINE, RIGHT, escape, table_of

    rows = "" if one.rows is None else f", its first {one.rows} rows"
    head = f"[bold]{escape(f'{one.output}{list(one.dims)} {one.dtype.value}{rows}')}[/]"
    if one.profile is None:
        bits = f" ({one.bits_unequal} differ in their bits)" if one.bits_unequal else ""
        yield f"{head}: [green]all elements are equal[/]{bits}"
        return
    share = format_share(one.beyond, one.unequal, one.bits_unequal, one.compared, equality=one.threshold == 0)
    yield f"{head}: {escape(share)}"
    table = table_of((("index",), LINE), (("flat", "got", "expected", "error", "relative"), RIGHT))
    for element in one.elements:
        figures = [f"{element.error:.4g}", f"{element.relative:.4g}"]
        table.add_row(escape(str(list(element.index))), str(element.flat), element.got, element.expected, *figures)
    yield table
    yield from _draw_map(one)


def _draw_map(one: "OutputDifference") -> Iterator[str]:
    profile = one.profile
    assert profile is not None, "some elements differ"
    dims = one.dims if one.rows is None else (one.rows, *one.dims[1:])
    size = math.prod(dims)
    across = profile.width or (dims[-1] if dims else 1)
    down = -(-size // across)
    yield f"largest relative error per cell, {across} elements from left to right:"
    for row in range(profile.rows):
        cells = profile.cells[row * profile.columns : (row + 1) * profile.columns]
        first = -(-row * down // profile.rows) * across
        # The last line of a folded output may end before the others.
        exists = [first - (-column * across // profile.columns) < size for column in range(profile.columns)]
        signs = (_sign_of(cell) for cell, is_there in zip(cells, exists, strict=True) if is_there)
        yield f"{first:>12}  {''.join(signs)}"


def _sign_of(error: float) -> str:
    if error == 0:
        return _EQUAL
    if not math.isfinite(error):
        return f"[red]{_LOST}[/]"
    return next(f"[{colour}]{sign}[/]" for limit, sign, colour in _SIGNS if error < limit)
