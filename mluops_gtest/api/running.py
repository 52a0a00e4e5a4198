"""A run for Python programs: the engine of `mluops-test run`, a report instead of an exit code, files only if asked."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mluops_gtest.api.explained_causes import write_causes
from mluops_gtest.api.report import CaseResult, RunReport
from mluops_gtest.api.run_conditions import refuse_guard_pages, under_stress
from mluops_gtest.api.run_labels import run_labels
from mluops_gtest.api.run_setup import context_of, options_of, timed
from mluops_gtest.api.session import Session
from mluops_gtest.backends.registry import checked_backend
from mluops_gtest.content.root import BUILTIN
from mluops_gtest.engine.caller import Caller, InlineCaller
from mluops_gtest.engine.callers import open_callers
from mluops_gtest.engine.float_state import own_floats, require_float_state
from mluops_gtest.engine.lanes import PlannedCase
from mluops_gtest.engine.request import RunRequest
from mluops_gtest.engine.run import run as run_planned
from mluops_gtest.errors import UsageError
from mluops_gtest.model.backend import Backend
from mluops_gtest.model.event import CaseFinished, Event, Listener
from mluops_gtest.model.query import Query
from mluops_gtest.results.folder import ResultsFolder
from mluops_gtest.results.writer import ResultFiles


def run(
    *select: str,
    backend: str | Backend = "numpy",
    operators: Sequence[str] = (),
    tags: Sequence[str] = (),
    keyword: str = "",
    everything: bool = False,
    roots: Sequence[str] = (BUILTIN,),
    isolate: bool | None = None,
    jobs: int = 1,
    devices: Sequence[int] = (),
    timeout: float | None = None,
    memory_limit: int | None = None,
    guard_pages: bool = False,
    fail_on_leak: bool = False,
    repeat: int = 1,
    reruns: int = 0,
    stress: str | None = None,
    elementwise: bool | None = None,
    bitwise: bool = False,
    stop_at_first: bool = False,
    reseed: int | None = None,
    strict: bool = False,
    perf: bool = False,
    samples: int | None = None,
    labels: Mapping[str, str] | None = None,
    require_coverage: str | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    on_result: Callable[[CaseResult], None] | None = None,
) -> RunReport:
    """Run cases on a backend; each argument means what the option of `mluops-test run` means.

    `backend` is a word as for `--backend`, or an object with `name` and `run`, which runs in this process. With `out`
    the results are written there as they come. `on_result` is told every result as it comes.
    """
    spec = backend if isinstance(backend, str) else f"object:{getattr(backend, 'name', '?')}"
    query = Query(select, tuple(operators), tuple(tags), keyword, everything)
    if stress is not None:
        beside = {"repeat": repeat, "reruns": reruns, "perf": perf, "guard_pages": guard_pages}
        query = under_stress(query, {"stress": stress, "failed": None, **beside})
    request = RunRequest(
        selection=query,
        roots=tuple(roots),
        backend=spec,
        isolate=isolate if isinstance(backend, str) else _inline(isolate),
        jobs=jobs,
        devices=tuple(devices),
        timeout=timeout,
        memory_limit=memory_limit,
        guard_pages=guard_pages,
        fail_on_leak=fail_on_leak,
        repeat=repeat,
        reruns=reruns,
        stress=stress,
        elementwise=elementwise,
        bitwise=bitwise,
        stop_at_first=stop_at_first,
        reseed=reseed,
        strict=strict,
        perf=perf,
        samples=samples,
        labels=dict(labels or {}),
        require_coverage=require_coverage,
    )
    _refuse(request)
    session = Session(request.roots)
    with contextlib.ExitStack() as stack:
        before = stack.enter_context(own_floats())
        folder = None
        if out is not None:
            advice = "name another one, or say overwrite=True"
            folder = stack.enter_context(ResultsFolder.new(Path(out), overwrite=overwrite, advice=advice))
        if isinstance(backend, str):
            callers = stack.enter_context(open_callers(request, session.catalogue))
        else:
            # Whoever made the object closes it.
            require_float_state(spec)
            callers = [InlineCaller(checked_backend(spec, backend), before)]
        report = _run(session, request, callers, folder, on_result)
    # No command line can name an object of this process.
    return report if isinstance(backend, str) else report.without_commands()


def _run(
    session: Session,
    request: RunRequest,
    callers: list[Caller],
    folder: ResultsFolder | None,
    on_result: Callable[[CaseResult], None] | None,
) -> RunReport:
    chosen = session.select(request.selection)
    source = session.source(chosen.cases, strict=request.strict, reseed=request.reseed)
    labels = run_labels(request.labels, request.backend, request.runtime, callers[0].version)
    request = replace(request, labels=labels)
    options = options_of(request, session.catalogue, len(chosen.cases), len(callers))
    roots = session.catalogue.root_paths
    context = context_of(request, roots, callers[0].name, len(chosen.cases), chosen.left_out, None)
    planned = [PlannedCase(case.id, case.operator, case.tags) for case in chosen.cases]
    listeners: list[Listener] = [] if on_result is None else [_telling(on_result)]
    with contextlib.ExitStack() as stack:
        files = None
        if folder is not None:
            folder.clear()
            record = request.to_json([case.id for case in chosen.cases], chosen.left_out)
            files = stack.enter_context(ResultFiles(folder, record))
            listeners.insert(0, files)
        report = run_planned(planned, callers, session.catalogue.operators, source, context, options, listeners)
        report = timed(report, source, 0.0 if files is None else files.seconds)
        if folder is not None and files is not None:
            files.write_report(report, (case.id for case in chosen.cases))
            write_causes(folder.path, report)
    return RunReport.of(report)


def _telling(on_result: Callable[[CaseResult], None]) -> Listener:
    def listen(event: Event) -> None:
        if isinstance(event, CaseFinished):
            on_result(CaseResult.of(event.result))

    return listen


def _inline(isolate: bool | None) -> bool:
    if isolate:
        raise UsageError(
            "isolate=True: an object of this process cannot move into another one. Name the backend as `--backend` "
            "does, e.g. backend='my_kernels.py:backend'."
        )
    return False


def _refuse(request: RunRequest) -> None:
    """Refuse what no command line would accept."""
    least: dict[str, Any] = {"jobs": 1, "repeat": 1, "reruns": 0, "samples": 1}
    for name, minimum in least.items():
        value = getattr(request, name)
        if value is not None and value < minimum:
            raise UsageError(f"{name}={value} is too small; it must be at least {minimum}.")
    if request.jobs > 1 and request.devices:
        raise UsageError("Use either jobs or devices: with devices each device has one worker.")
    if request.perf and request.jobs > 1:
        raise UsageError("perf=True times one call at a time: leave out jobs.")
    isolated = ("devices", "timeout", "memory_limit", "guard_pages", "fail_on_leak", "stress")
    asked = [name for name in isolated if getattr(request, name)]
    if not request.isolated and (asked or request.jobs > 1):
        names = " and ".join([*asked, *(["jobs"] if request.jobs > 1 else [])])
        raise UsageError(
            f"{names}: this needs worker processes, and {request.backend!r} runs in this one. Say isolate=True with a "
            "backend that `--backend` could name."
        )
    if request.guard_pages:
        refuse_guard_pages(request)
