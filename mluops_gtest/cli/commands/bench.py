"""`mluops-test bench` and `device-spec`: two backends beside each other, and a machine beside its limits."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mluops_gtest.base.errors import ExitCode, UsageError
from mluops_gtest.cli.options import (
    adapter_options,
    backend_option,
    file_options,
    flag_option,
    run_option,
    sampling_options,
    selection_options,
    value_option,
)
from mluops_gtest.core.case import Query

if TYPE_CHECKING:
    from rich.console import Console

    from mluops_gtest.results.statistics import TimedPair


@click.command("bench")
@selection_options
@backend_option(
    "Give it twice: the backend to compare with, then the backend to judge, e.g. -b c:./old.so -b c:./new.so.",
    into="backends",
    multiple=True,
)
@adapter_options
@run_option(
    "isolate",
    "Run both backends in worker processes, or in this one.  [default: isolated unless both are built in]",
)
@sampling_options
@file_options
def command(
    query: Query,
    roots: tuple[str, ...],
    backends: tuple[str, ...],
    runtime: str | None,
    serve: bool,
    isolate: bool | None,
    strict: bool,
    allow_outside_paths: bool,
    **sampling: Any,
) -> int:
    """Run two backends in turn, sample by sample, and say for each case which is faster.

    Every case is checked on both backends before and after it is timed; wrong results are not compared. The answer is
    faster or slower when the medians differ by at least 5 % and by more than chance explains, otherwise inconclusive. A
    call that takes hardly longer than an empty call is too short to judge.

    Examples:
      mluops-test bench --tag network --backend numpy --backend torch
      mluops-test bench 'masked_im2col_forward/retinanet_*' -b c:./old.so -b c:./new.so
      mluops-test bench --op get_indice_pairs --tag smoke -b numpy -b my_kernels.py:backend --samples 200
    """
    import contextlib

    from mluops_gtest.backends.registry import is_in_process, is_native
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.terminal import stderr, stdout, track
    from mluops_gtest.core.report import exit_code
    from mluops_gtest.running.caller import open_callers
    from mluops_gtest.running.case_run import CaseRun, Options
    from mluops_gtest.running.options import RunOptions
    from mluops_gtest.running.timing import Sampling, bench_cases

    if len(backends) != 2:
        raise UsageError(
            f"bench compares two backends, but got {len(backends)}: write e.g. --backend numpy --backend torch."
        )
    if query.is_default:
        raise UsageError(
            "bench needs seconds per case: choose cases by id, --op, --tag, -k or --all, e.g. --tag network."
        )
    if isolate is None:
        # Isolate both or neither: memory shared by two processes has different costs.
        isolate = not all(is_in_process(spec) for spec in backends)
    session = Session(roots)
    cases = session.select(query).cases
    source = session.source(cases, strict=strict, allow_outside_paths=allow_outside_paths)
    with contextlib.ExitStack() as stack:
        case_runs = []
        for spec in backends:
            request = RunOptions(
                selection=query,
                roots=roots,
                backend=spec,
                runtime=runtime if is_native(spec) else None,
                serve=serve and spec.startswith("exec:"),
                isolate=isolate,
            )
            (caller,) = stack.enter_context(open_callers(request, session.catalogue))
            case_runs.append(CaseRun(caller, Options(strict=strict)))
        rows = bench_cases(
            [case.id for case in cases], source, session.catalogue.operators, case_runs, Sampling(**sampling)
        )
        found = list(track(rows, len(cases), stderr()))
    _print(stdout(), backends, found)
    # Wrong results fail as in a run; being slower is an answer, not a failure.
    code = exit_code(result for one in found for result in one.results)
    return int(ExitCode.EMPTY if code is ExitCode.OK and all(one.problem for one in found) else code)


def _print(console: "Console", backends: Sequence[str], found: "Sequence[TimedPair]") -> None:
    """A row per case that was timed, then what was not compared, then the sums."""
    from mluops_gtest.cli.terminal import whole_table
    from mluops_gtest.results.reports.terminal import LINE, RIGHT, escape, table_of
    from mluops_gtest.results.statistics import TimeVerdict, compare_backends
    from mluops_gtest.results.times import duration, timing_stats

    colours = {TimeVerdict.FASTER: "green", TimeVerdict.SLOWER: "red"}
    first, second = (f"{number}: {escape(spec)}" for number, spec in enumerate(backends, 1))
    figures = (first, second, "2 over 1", "interval", "samples")
    table = table_of((("case",), LINE), (figures, RIGHT), (("2 is", ""), LINE))
    compared = [one for one in found if not one.problem]
    answers: Counter[TimeVerdict] = Counter()
    for one in compared:
        ours, theirs = one.samples
        said = compare_backends(ours, theirs, len(compared), one.overhead_ns)
        answers[said.answer] += 1
        word = said.answer.value
        table.add_row(
            escape(one.results[0].case),
            duration(timing_stats(ours).median),
            duration(timing_stats(theirs).median),
            f"{said.ratio:.3f}",
            f"{said.low:.3f} – {said.high:.3f}",
            str(len(ours)),
            f"[{colours[said.answer]}]{word}[/]" if said.answer in colours else word,
            said.remark,
        )
    if compared:
        whole_table(console, table)
    for one in found:
        if one.problem:
            result = next((result for result in one.results if result.outcome.blocks), one.results[0])
            console.print(
                f"[{result.outcome.tone.terminal}]{escape(result.case)}[/]: {escape(one.problem)}", soft_wrap=True
            )
    words = [f"{answers[answer]} {answer.value}" for answer in TimeVerdict if answers[answer]]
    left = len(found) - len(compared)
    words += [f"{left} not compared"] if left else []
    console.print(f"{second} against {first}: {', '.join(words)}", soft_wrap=True)


@click.command("device-spec")
@click.argument("file", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@flag_option("--measure", "Measure this machine with numpy: memory copies and matrix products.")
@value_option(
    "-o --out FILE", "file", "Write the measured description here, e.g. -o host.yaml.  [default: standard output]"
)
def device_spec(file: Path | None, measure: bool, out: Path | None) -> None:
    """Check and show the description of a device, or measure this machine.

    `run --perf --device-spec FILE` then says how much of the bandwidth and peak each case reaches.

    Examples:
      mluops-test device-spec --measure -o host.yaml   measure this machine
      mluops-test device-spec my_device.yaml           check a description and show it

    A description is YAML that you can write yourself:
      name: my-device
      bandwidth_bytes_per_s: 1.2e+12
      peak_ops_per_s: {float: 1.6e+13, half: 6.4e+13}   or one number
    """
    from mluops_gtest.base.files import replace_text
    from mluops_gtest.cli.echo import echo
    from mluops_gtest.results.times import DeviceSpec, device_spec_text, read_device_spec

    if measure == (file is not None):
        raise UsageError("Name a description, e.g. device-spec host.yaml, or give --measure.")
    if file is not None:
        if out is not None:
            raise UsageError("-o goes with --measure; a description that exists is only shown.")
        spec = read_device_spec(file)
        peaks = spec.peak if isinstance(spec.peak, Mapping) else {"": spec.peak}
        echo(f"name       {spec.name}")
        echo(f"bandwidth  {spec.bandwidth:.4g} bytes/s")
        for dtype, peak in peaks.items():
            balance = f"{peak / spec.bandwidth:.4g} operations per byte make both a limit"
            echo(f"peak       {peak:.4g} operations/s{f' ({dtype})' if dtype else ''}; {balance}")
        return
    from mluops_gtest.results.statistics import describe_host, measure_bandwidth, measure_peak

    text = device_spec_text(DeviceSpec("host", measure_bandwidth(), measure_peak()), describe_host())
    if out is None:
        echo(text.removesuffix("\n"))
        return
    replace_text(out, text)
    echo(f"Written: {out}")
