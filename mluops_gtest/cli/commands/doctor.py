"""`mluops-test doctor` and `mluops-test backends`: what can be tested, and whether it keeps its promises."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mluops_gtest.cli.options import (
    adapter_options,
    backend_option,
    flag_option,
    json_option,
    root_option,
    run_option,
)

if TYPE_CHECKING:
    from mluops_gtest.backends.doctor import Diagnosis

# Parts compared both ways: two cells and a rest.
_COMPARED = 70_000


@click.command("doctor")
@backend_option("The backend to check (named as for `run`), e.g. -b my_kernels.py:backend.")
@flag_option("--self own", "Check mluops-test itself: what it runs on, and its native core.")
@click.option("--op", "operators", multiple=True, help="Only this operator, e.g. --op get_indice_pairs.")
@adapter_options
@run_option("timeout", "Stop a case after so long, e.g. --timeout 60.", default=20.0, show_default=True)
@root_option
@json_option()
def command(
    roots: tuple[str, ...],
    backend: str | None,
    own: bool,
    operators: tuple[str, ...],
    runtime: str | None,
    serve: bool,
    timeout: float,
    form: str,
) -> int:
    """Check a backend before you test it: what it offers, which promise it breaks, what to do about it.

    It runs small cases in a worker process. Exit 0 if the backend keeps every promise, 1 if it breaks one.

    Examples:
      mluops-test doctor --backend my_kernels.py:backend
      mluops-test doctor --backend c:./libmykernels.so --op voxel_pooling_forward
      mluops-test doctor --backend my_kernels.py:backend --format json   for programs
      mluops-test doctor --self
    """
    if own:
        return _check_self(form)
    if backend is None:
        raise click.UsageError("Say what to check: --backend BACKEND, or --self.")
    from mluops_gtest.backends.doctor import Verdict, check_behaviour, check_interface
    from mluops_gtest.base.errors import ExitCode
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.echo import echo
    from mluops_gtest.cli.terminal import stderr, stdout, track
    from mluops_gtest.core.case import Query
    from mluops_gtest.results.reports.terminal import FOLD, escape, table_of
    from mluops_gtest.running.caller import BackendChoice
    from mluops_gtest.running.case_run import CaseRun, Options
    from mluops_gtest.running.workers.fork_server import ForkServer
    from mluops_gtest.running.workers.pool import IsolatedCaller

    session = Session(roots)
    chosen = session.select(Query(operators=operators, tags=("smoke", "negative"))).cases
    source = session.source(chosen)
    known = session.catalogue.operators
    fork_server = ForkServer()
    caller = IsolatedCaller(fork_server, BackendChoice(backend, session.catalogue.root_paths, runtime, serve))
    try:
        caller.start()
        case_run = CaseRun(caller, Options(repeat=2, timeout=timeout))
        loaded = track((source.load(case.id) for case in chosen), len(chosen), stderr())
        findings = [
            check_interface(caller.offers, caller.misfits),
            *check_behaviour(
                ((case, known[case.operator]) for case in loaded), case_run.run_case, deterministic=caller.deterministic
            ),
        ]
    finally:
        caller.close()
        fork_server.close()
    if form == "json":
        return _print_json(caller.name, findings)
    colours = {Verdict.OK: "green", Verdict.PROBLEM: "bold red", Verdict.SKIPPED: "yellow"}
    table = table_of((("promise", "", escape(f"backend {caller.name}")), FOLD))
    for finding in findings:
        verdict = f"[{colours[finding.verdict]}]{finding.verdict.value}[/]"
        table.add_row(finding.name, verdict, escape(finding.detail))
    stdout().print(table)
    problems = sum(finding.verdict is Verdict.PROBLEM for finding in findings)
    echo(f"{problems} problems" if problems else "every promise is kept")
    return int(ExitCode.FAILED if problems else ExitCode.OK)


def _print_json(backend: str, findings: "Sequence[Diagnosis]") -> int:
    """Print what was found out about each promise, and what the harness runs on; returns the exit code."""
    from mluops_gtest.backends.doctor import Verdict
    from mluops_gtest.base.errors import ExitCode
    from mluops_gtest.cli.echo import print_json
    from mluops_gtest.cli.main import describe_installation
    from mluops_gtest.documents import DOCTOR
    from mluops_gtest.results.shapes import fill

    problems = sum(finding.verdict is Verdict.PROBLEM for finding in findings)
    about = {"installation": dict(describe_installation()), "promises": findings, "problems": problems}
    print_json(fill(DOCTOR, backend=backend, **about))
    return int(ExitCode.FAILED if problems else ExitCode.OK)


def _check_self(form: str) -> int:
    from mluops_gtest.backends.doctor import Diagnosis, Verdict
    from mluops_gtest.base.errors import ExitCode
    from mluops_gtest.base.native.library import ENVIRONMENT, native_core
    from mluops_gtest.cli.echo import echo
    from mluops_gtest.cli.main import describe_installation

    wrong = disagreements()
    verdict, words = Verdict.OK, "the native core and numpy find the same figures, bit for bit"
    if wrong:
        verdict = Verdict.PROBLEM
        words = (
            f"the native core finds other figures than numpy for {', '.join(wrong)}: set {ENVIRONMENT}=0 and report it"
        )
    elif native_core().library is None:
        verdict, words = Verdict.SKIPPED, ""
    if form == "json":
        return _print_json("", [Diagnosis("native core", verdict, words)])
    echo("\n".join([*(f"{name:12} {value}" for name, value in describe_installation()), *filter(None, [words])]))
    return int(ExitCode.FAILED if wrong else ExitCode.OK)


def disagreements() -> list[str]:
    """The data types in which the native core finds other figures than numpy; none is what is promised."""
    import numpy as np

    from mluops_gtest.base.native.library import numpy_alone
    from mluops_gtest.core.tensor import CriterionKind, DType
    from mluops_gtest.judging.criteria import compare

    kinds = (CriterionKind.DIFF1, CriterionKind.DIFF2, CriterionKind.DIFF3, CriterionKind.DIFF3_2)
    wrong = []
    for dtype in (DType.HALF, DType.BFLOAT16, DType.FLOAT, DType.DOUBLE, DType.INT8, DType.INT32, DType.INT64):
        # Random bits, NaN and infinities among them; every other part is equal on both sides.
        bits = np.random.Philox(key=1).random_raw(2 * _COMPARED).view(f"u{dtype.itemsize}")
        evaluated, baseline = bits[:_COMPARED].copy(), bits[_COMPARED : 2 * _COMPARED]
        evaluated[::2] = baseline[::2]
        pair = evaluated.view(dtype.storage), baseline.view(dtype.storage)
        with numpy_alone():
            expected = compare(*pair, dtype, kinds)
        # As text: a NaN is equal to itself there.
        if repr(compare(*pair, dtype, kinds)) != repr(expected):
            wrong.append(dtype.value)
    return wrong


@click.command("backends")
def backends() -> None:
    """Show which backends are installed and whether they load.

    Any Python object can be a backend, too: module:attribute or path/file.py[:attribute].

    Examples:
      mluops-test backends
      mluops-test run --backend reference
      mluops-test run --backend my_package.kernels:backend
      mluops-test run --backend ./my_kernels.py:backend
    """
    from mluops_gtest.backends.registry import known_backends
    from mluops_gtest.cli.terminal import stdout
    from mluops_gtest.results.reports.terminal import FOLD, escape, table_of

    table = table_of((("backend", "status", "from"), FOLD))
    for backend in known_backends():
        table.add_row(escape(backend.name), escape(backend.problem or "ready"), escape(backend.origin))
    stdout().print(table)
