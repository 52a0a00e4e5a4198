"""A run as the command line asks for it: planned, executed, written, summed up; new and resumed ones alike."""

import contextlib
import os
import platform
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mluops_gtest import __version__
from mluops_gtest.backends.registry import can_be_debugged, is_native, runs_inline
from mluops_gtest.cli.consoles import stderr, stdout
from mluops_gtest.cli.labelling import run_labels
from mluops_gtest.cli.lines import complain, say
from mluops_gtest.cli.output_saver import OutputSaver, Which
from mluops_gtest.cli.pages.performance import print_performance
from mluops_gtest.cli.planning import case_sizes
from mluops_gtest.cli.reporting import ReportFormat, write_reports
from mluops_gtest.cli.run_progress import RunProgress
from mluops_gtest.cli.session import Session, root_words
from mluops_gtest.content.root import recorded_roots
from mluops_gtest.content.selection import Selected
from mluops_gtest.engine.buffers import Side
from mluops_gtest.engine.caller import Caller, InlineCaller
from mluops_gtest.engine.costs import RecordedTimes, costs_of
from mluops_gtest.engine.execute import Options
from mluops_gtest.engine.lanes import PlannedCase
from mluops_gtest.engine.loading import BackendChoice
from mluops_gtest.engine.perf import Sampling
from mluops_gtest.engine.run import RunContext, run
from mluops_gtest.errors import ContentError, ExitCode, UnwritableError, shown
from mluops_gtest.files.typed import Source, convert
from mluops_gtest.generate.source import StoredCases
from mluops_gtest.model.event import Listener
from mluops_gtest.model.query import Query
from mluops_gtest.model.report import RunReport, exit_code
from mluops_gtest.model.result import CaseResult
from mluops_gtest.reports.terminal import TerminalReporter
from mluops_gtest.results.checks import check_labels
from mluops_gtest.results.folder import ResultsFolder
from mluops_gtest.results.writer import ResultFiles
from mluops_gtest.timing.device_spec import read_device_spec

# Smallest values of a request, as the command line has them.
_MIN = {
    "jobs": 1,
    "devices": 0,
    "timeout": 0,
    "memory_limit": 1,
    "repeat": 1,
    "reruns": 0,
    "warmup": 0,
    "samples": 1,
}
# Innermost frames that a debugger shows at once: the kernel's own, without all of Python's below them.
_FRAMES = 12


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything that decides what a run does; run.json holds it."""

    selection: Query
    # Folders, or `builtin`.
    roots: tuple[str, ...]
    backend: str
    runtime: str | None = None
    serve: bool = False
    isolate: bool | None = None
    # Every case gets its own worker.
    fresh_workers: bool = False
    jobs: int = 1
    devices: tuple[int, ...] = ()
    timeout: float | None = None
    memory_limit: int | None = None
    guard_pages: bool = False
    repeat: int = 1
    bitwise: bool = False
    stop_at_first: bool = False
    reruns: int = 0
    perf: bool = False
    warmup: int = 3
    # None: as many as it takes.
    samples: int | None = None
    cold_cache: bool = False
    device_spec: str | None = None
    shard: str | None = None
    # Digest of the recorded times that the shards were cut by.
    times: str | None = None
    strict: bool = False
    allow_outside_paths: bool = False
    # None: the declared values.
    reseed: int | None = None
    save_outputs: Which | None = None
    # What the user says, and from the beginning of the run on also what the harness recorded.
    labels: dict[str, str] = field(default_factory=dict)
    # Format → file, written at the end.
    reports: dict[ReportFormat, str] = field(default_factory=dict)
    # The settings file that was in force; its values are resolved here.
    settings: str | None = None

    @property
    def isolated(self) -> bool:
        """Run in worker processes: if asked to, or by default for everything that is not built in."""
        return not runs_inline(self.backend) if self.isolate is None else self.isolate

    @property
    def lanes(self) -> tuple[int | None, ...]:
        """One device (or none in particular) per worker."""
        return self.devices or (None,) * self.jobs

    def repro_options(self) -> tuple[str, ...]:
        """What a repro line needs after `mluops-test run CASE`."""
        options = list(root_words(self.roots, self.settings))
        if self.runtime is not None:
            options += ["--runtime", self.runtime]
        if self.backend != "numpy" or self.settings is not None:
            options += ["--backend", self.backend]
        if self.timeout is not None:
            options += ["--timeout", str(self.timeout).removesuffix(".0")]
        if self.memory_limit is not None:
            options += ["--memory-limit", str(self.memory_limit)]
        if self.repeat > 1:
            options += ["--repeat", str(self.repeat)]
        if self.reruns:
            options += ["--reruns", str(self.reruns)]
        if self.samples is not None:
            options += ["--samples", str(self.samples)]
        if self.reseed is not None:
            options += ["--reseed", str(self.reseed)]
        flags = (
            ("--serve", self.serve),
            ("--bitwise", self.bitwise),
            ("--guard-pages", self.guard_pages),
            ("--perf", self.perf),
            ("--cold-cache", self.cold_cache),
            ("--fresh-workers", self.fresh_workers),
            ("--isolate", self.isolate is True),
            ("--no-isolate", self.isolate is False),
        )
        options += [name for name, value in flags if value]
        return tuple(options)

    def debug_words(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """The words before and after a case id that run it under gdb, in the process that gdb starts."""
        if self.guard_pages or not can_be_debugged(self.backend):
            return None
        inline = replace(self, isolate=False, timeout=None, memory_limit=None, fresh_workers=False)
        debugger = ("gdb", "-ex", "run", "-ex", f"backtrace {_FRAMES}", "--args")
        return (*debugger, sys.executable, "-m", "mluops_gtest", "run"), inline.repro_options()

    def to_json(self, ids: list[str], left_out: int) -> dict[str, Any]:
        """For run.json; the ids are written out, so that a resumed run plans the very same cases."""
        return {"format": 1, "tool_version": __version__, **asdict(self), "cases": ids, "left_out": left_out}

    @staticmethod
    def from_json(record: dict[str, Any], source: Source) -> "RunRequest":
        """The request in run.json; a request that no command line could make is refused."""
        request = convert({**record, "roots": recorded_roots(record)}, RunRequest, source)
        check_labels(request.labels, replace(source, at="$.labels"))
        for name, least in _MIN.items():
            values = getattr(request, name)
            for value in values if isinstance(values, tuple) else (values,):
                if value is not None and not least <= value < 2**63:
                    raise source.error(f"{value} is too small; it must be at least {least}", f".{name}")
        named = {name: getattr(request, name) for name in ("backend", "roots", "runtime", "device_spec")}
        named |= {f"reports.{form}": file for form, file in request.reports.items()}
        for name, values in named.items():
            for value in values if isinstance(values, tuple) else (values or "",):
                if "\0" in value:
                    raise source.error(f"{shown(value)} is not a valid name", f".{name}")
        return request


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What run.json says beside the request."""

    cases: tuple[str, ...]
    left_out: int


def execute(
    session: Session,
    request: RunRequest,
    cases: tuple[Selected, ...],
    left_out: int,
    folder: ResultsFolder,
    verbosity: int,
    done: dict[str, CaseResult] | None = None,
    times: RecordedTimes | None = None,
) -> ExitCode:
    """Run the planned cases into the folder and print the summary; without `done` the run is a new one."""
    resumed, done = done is not None, done or {}
    device = None if request.device_spec is None else read_device_spec(Path(request.device_spec)).figures
    reporter = TerminalReporter(stdout(), verbosity)
    source = session.source(
        cases,
        strict=request.strict,
        allow_outside_paths=request.allow_outside_paths,
        on_generate=lambda case_id: progress.note(f"making {case_id}"),
        reseed=request.reseed,
    )
    left = tuple(case for case in cases if case.id not in done)
    # With -v every case has its own line.
    shown = verbosity == 0 and stderr().is_terminal
    progress = RunProgress(stderr(), _costs(source, left, times) if shown else {}, shown=shown)
    if request.isolate is False and is_native(request.backend):
        complain("warning: --no-isolate with native code: if the kernel crashes or hangs, so does this run.")
    with _one_interrupt(), open_callers(session, request) as callers, contextlib.closing(progress):
        planned = [PlannedCase(case.id, case.operator, case.tags) for case in cases]
        labels = run_labels(request.labels, request.backend, request.runtime, callers[0].version)
        request = replace(request, labels=labels)
        record = request.to_json([case.id for case in cases], left_out)
        sampling = Sampling(request.warmup, request.samples, request.cold_cache) if request.perf else None
        options = Options(
            request.repeat,
            request.bitwise,
            request.stop_at_first,
            request.timeout,
            request.reruns,
            sampling,
            tuple(Side) if request.guard_pages else (None,),
        )
        context = _context(request, session.root_paths, callers[0].name, len(cases), left_out, device)
        if not resumed:
            folder.clear()
        saver = None if request.save_outputs is None else OutputSaver(folder.path, request.save_outputs)
        with ResultFiles(folder, record, tuple(done[case.id] for case in cases if case.id in done)) as files:
            operators = session.catalogue.operators
            listeners: list[Listener] = [files, reporter, progress]
            try:
                report = run(planned, callers, operators, source, context, options, listeners, done, saver)
            except UnwritableError as error:
                return _told(error, exit_code(files.finished))
            report = _timed(report, source, files.seconds)
            code = report.exit_code
            try:
                files.write_report(report)
            except UnwritableError as error:
                code = _told(error, code)
    if request.perf and verbosity >= 0:
        print_performance(stdout(), report)
    reporter.summary(report, str(folder.path))
    if saver is not None:
        code = _saved(saver, code)
    for trouble in write_reports(report, request.reports):
        code = _told(trouble, code)
    if report.interrupted:
        say(f"Interrupted. To run what is left: {shlex.join(['mluops-test', 'run', '--resume', str(folder.path)])}")
    # A user who selected cases knows that the rest is left out.
    if left_out and request.selection.is_default and verbosity >= 0:
        say(
            f"{left_out} declared cases were not selected; --all selects all except those tagged undefined "
            "(--tag undefined), --tag network the network scales."
        )
    return code


def _costs(source: StoredCases, cases: tuple[Selected, ...], times: RecordedTimes | None) -> dict[str, int]:
    """What the cases cost; unknown if the lock is broken, which every case reports itself."""
    try:
        return costs_of(case_sizes(source, cases), times or RecordedTimes())
    except ContentError:
        return {}


def _saved(saver: OutputSaver, code: ExitCode) -> ExitCode:
    """Says what was saved beside the results, and what could not be."""
    if words := saver.words():
        say(words)
    return code if saver.trouble is None else _told(saver.trouble, code)


def _told(error: UnwritableError, found: ExitCode) -> ExitCode:
    """Report the error; the exit code also counts what was found before."""
    complain(f"error: {error}")
    return ExitCode.worst([error.exit_code, found])


@contextlib.contextmanager
def _one_interrupt() -> Iterator[None]:
    """The first Ctrl-C ends the run; a second one must not lose the report that is then written."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def open_callers(session: Session, request: RunRequest) -> Iterator[list[Caller]]:
    """The loaded backend, inline or in one worker process per lane; one that does not load is an error at once."""
    choice = BackendChoice(request.backend, session.root_paths, request.runtime, request.serve)
    if not request.isolated:
        inline = InlineCaller(choice.load(session.catalogue.operators))
        with contextlib.closing(inline):
            yield [inline]
        return
    from mluops_gtest.engine.isolation.caller import IsolatedCaller
    from mluops_gtest.engine.isolation.descriptors import make_room
    from mluops_gtest.engine.isolation.forking import ForkServer

    fork_server = ForkServer(len(request.lanes))
    callers: list[IsolatedCaller] = []
    try:
        # After the fork server has started, so that backends keep the limit that the user gave them.
        make_room(len(request.lanes))
        callers += (
            IsolatedCaller(
                fork_server,
                choice,
                device=device,
                memory_limit=request.memory_limit,
                fresh_workers=request.fresh_workers,
                guard_pages=request.guard_pages,
            )
            for device in request.lanes
        )
        callers[0].start()
        yield [*callers]
    finally:
        for caller in callers:
            caller.close()
        fork_server.close()


def _context(
    request: RunRequest, content: tuple[str, ...], name: str, count: int, left_out: int, device: dict[str, Any] | None
) -> RunContext:
    import numpy as np

    measured = {}
    if request.perf:
        how = {"warmup": request.warmup, "samples": request.samples or "auto", "cold_cache": request.cold_cache}
        measured = {"perf": how, "device": device}
    selection = {**request.selection.to_json(), "roots": list(request.roots), "shard": request.shard}
    selection = {**selection, "times": request.times, "reseed": request.reseed}
    return RunContext(
        tool_version=__version__,
        backend={
            "name": name,
            "spec": request.backend,
            "runtime": request.runtime,
            "isolated": request.isolated,
            "repeat": request.repeat,
            "guard_pages": request.guard_pages,
        },
        environment={
            "python": platform.python_version(),
            "numpy": np.__version__,
            "platform": platform.platform(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "content": list(content),
            "settings": request.settings,
            **measured,
        },
        selection={**selection, "cases": count, "left_out": left_out},
        repro_options=request.repro_options(),
        debug_words=request.debug_words(),
        labels=request.labels,
    )


def _timed(report: RunReport, source: StoredCases, writing: float) -> RunReport:
    times = {"generate": source.times.generate, "load": source.times.load}
    return replace(report, timing={**times, **report.timing, "write": writing})
