"""`mluops-test run`."""

import dataclasses
import datetime
import os
import platform
from pathlib import Path
from typing import Any

import click

from mluops_gtest import __version__
from mluops_gtest.cli.options import file_options, selection_options

_EPILOG = """\b
Examples:
  mluops-test run                                     the default set on numpy
  mluops-test run --tag network                       the sizes that real networks use
  mluops-test run --op masked_im2col_forward -x       one operator, stop at the first failure
  mluops-test run masked_im2col_forward/edge_top_float -v
  mluops-test run 'get_indice_pairs/subm_*' --repeat 5
  mluops-test run my_cases/ --backend my_kernels.py:backend --out results
"""


@click.command("run", epilog=_EPILOG)
@selection_options
@click.option(
    "--backend",
    "-b",
    default="numpy",
    show_default=True,
    help="numpy, reference, an entry point, module:attribute or path/file.py:attribute, e.g. -b my_kernels.py:backend.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for results.jsonl and report.json, e.g. --out results.  [default: ./mluops-results/<time>]",
)
@click.option(
    "--repeat",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Run each case N times; outputs must be the same bit for bit, e.g. --repeat 5.",
)
@click.option("--bitwise", is_flag=True, help="Where diff3 = 0 is asked, also require equal bits (−0, NaN payloads).")
@click.option("-x", "--exitfirst", "stop_at_first", is_flag=True, help="Stop at the first case that fails.")
@click.option("-q", "--quiet", is_flag=True, help="Only the closing lines.")
@click.option("-v", "--verbose", is_flag=True, help="A line per case.")
@file_options
def command(
    root: Path | None,
    backend: str,
    out: Path | None,
    repeat: int,
    bitwise: bool,
    stop_at_first: bool,
    quiet: bool,
    verbose: bool,
    strict: bool,
    allow_outside_paths: bool,
    **selection: Any,
) -> int:
    """Run cases on a backend and judge the results.

    SELECT is a case id, a glob over ids, a case file or a folder of case files. Without any selection
    the default set runs: every declared case but those tagged network or undefined.
    """
    from mluops_gtest.backends.registry import load_backend
    from mluops_gtest.cli.consoles import stderr, stdout
    from mluops_gtest.cli.session import Session
    from mluops_gtest.engine.execute import Options
    from mluops_gtest.engine.run import PlannedCase, RunContext, run
    from mluops_gtest.reports.files import ResultFiles
    from mluops_gtest.reports.terminal import TerminalReporter

    query = {key: list(value) if isinstance(value, tuple) else value for key, value in selection.items()}
    session = Session(root)
    chosen = session.select(selection)
    operators = session.catalogue.operators
    loaded = load_backend(backend, operators)
    reporter = TerminalReporter(stdout(), stderr(), -1 if quiet else int(verbose))
    source = session.source(
        chosen.cases,
        strict=strict,
        allow_outside_paths=allow_outside_paths,
        on_generate=lambda case_id: reporter.note(f"making {case_id}"),
    )
    files = ResultFiles(out or _default_folder())
    context = RunContext(
        tool_version=__version__,
        backend={"name": loaded.name, "spec": backend},
        environment=_environment(),
        selection={
            **query,
            "root": str(root) if root else None,
            "cases": len(chosen.cases),
            "left_out": chosen.left_out,
        },
        repro_options=_repro_options(root, backend, repeat, bitwise),
    )
    report = run(
        [PlannedCase(case.id, case.operator, case.tags) for case in chosen.cases],
        loaded,
        operators,
        source,
        context,
        Options(repeat, bitwise, stop_at_first),
        [files, reporter],
    )
    report = dataclasses.replace(
        report, timing={"generate": source.times.generate, "load": source.times.load, **report.timing}
    )
    files.write_report(report)
    reporter.summary(report, str(files.folder))
    if chosen.left_out and not quiet:
        click.echo(
            f"{chosen.left_out} declared cases were not selected; --all selects every one but those tagged undefined "
            "(--tag undefined), --tag network the network scales."
        )
    return int(report.exit_code)


def _default_folder() -> Path:
    stamp = datetime.datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    folder = Path("mluops-results", stamp)
    number = 2
    while folder.exists():
        folder = folder.with_name(f"{stamp}-{number}")
        number += 1
    return folder


def _environment() -> dict[str, Any]:
    import numpy as np

    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
    }


def _repro_options(root: Path | None, backend: str, repeat: int, bitwise: bool) -> tuple[str, ...]:
    options: list[str] = []
    if root is not None:
        options += ["--root", str(root)]
    if backend != "numpy":
        options += ["--backend", backend]
    if repeat > 1:
        options += ["--repeat", str(repeat)]
    if bitwise:
        options.append("--bitwise")
    return tuple(options)
