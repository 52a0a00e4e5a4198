"""A run from its options to its report, for the command line and for Python programs alike.

Single cases have two ways beside it: a backend that is open for any number of them, and for Python programs a case
whose data are read when first asked for, with the verdict on outputs computed elsewhere.
"""

import contextlib
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import field
from msgspec.structs import replace

from mluops_gtest.backends.labels import run_labels
from mluops_gtest.backends.registry import can_be_debugged
from mluops_gtest.base.errors import ExitCode, UnwritableError, UsageError
from mluops_gtest.base.float_state import own_floats
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.gc_tuning import gc_frozen
from mluops_gtest.catalog.selection import Catalogue, Selected, Session
from mluops_gtest.catalog.source import BoundCache, StoredCases
from mluops_gtest.core.buffers import Side
from mluops_gtest.core.call import OpCall, Params, Status
from mluops_gtest.core.case import Case
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.operator_parts import EXACT
from mluops_gtest.core.report import Event, Listener, RunReport
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.tensor import Array, Tensor
from mluops_gtest.judging.elementwise import Expectation, expectation_of
from mluops_gtest.results.folder import ResultsFolder
from mluops_gtest.results.saved_outputs import OutputListener, OutputSaver
from mluops_gtest.results.writer import ResultFiles, write_causes
from mluops_gtest.running.caller import Caller, InlineCaller, open_callers
from mluops_gtest.running.case_run import CaseRun, Options, PlannedCase, draft_result
from mluops_gtest.running.guarded_call import GuardedCall, Task
from mluops_gtest.running.options import OPTIONS, RunOptions, Stress
from mluops_gtest.running.plan import RunPlan
from mluops_gtest.running.repetition import Confirmation, LeakWatch
from mluops_gtest.running.run import RunContext, SchedulerProtocol, run, with_commands
from mluops_gtest.version import __version__

if TYPE_CHECKING:
    from mluops_gtest.running.workers.fork_server import ForkServer

# A day.
_LOOKED_AT_SECONDS = 86400.0
# Innermost frames that a debugger shows at once: the kernel's own, without all of Python's below them.
_FRAMES: Final = 12


class OpenBackend(Value):
    """What runs the cases, on this machine or on a cluster, and what the backend says of itself."""

    name: str
    version: str
    callers: Sequence[Caller] = ()
    scheduler: SchedulerProtocol[PlannedCase, CaseResult | Event] | None = None
    # Of a cluster: what each host does.
    hosts: Mapping[str, Any] = field(default_factory=dict)


Opener = Callable[[RunPlan, StoredCases], contextlib.AbstractContextManager[OpenBackend]]


def opener_here(fork_server: "ForkServer | None" = None) -> Opener:
    """Opens the backend on this machine; `fork_server` is one that was started ahead."""

    @contextlib.contextmanager
    def open_here(plan: RunPlan, _: StoredCases) -> Iterator[OpenBackend]:
        with open_callers(plan.options, plan.session.catalogue, fork_server) as callers:
            yield OpenBackend(callers[0].name, callers[0].version, callers)

    return open_here


def early_fork_server(options: RunOptions) -> "contextlib.AbstractContextManager[ForkServer | None]":
    """Where the workers of this run will start, while it is planned; None where it has none on this machine."""
    if not options.isolated or options.cluster is not None:
        return contextlib.nullcontext()
    from mluops_gtest.running.workers.fork_server import ForkServer

    return contextlib.closing(ForkServer(len(options.slots)))


class FinishedRun(Value):
    """What came of a run, while its files are open."""

    report: RunReport
    saver: OutputSaver | None
    # What could not be written in the end.
    troubles: tuple[UnwritableError, ...]


@contextlib.contextmanager
def run_session(
    plan: RunPlan,
    source: StoredCases,
    open_backend: Opener,
    listeners: Sequence[Listener] = (),
    folder: ResultsFolder | None = None,
) -> Iterator[FinishedRun]:
    """Run the planned cases, into the folder where there is one; an UnwritableError ends a run that cannot keep them.

    Results that lie in files are read while this is open.
    """
    options, session, ids = plan.options, plan.session, [case.id for case in plan.cases]
    device = None
    if options.device_spec is not None:
        from mluops_gtest.results.times import read_device_spec

        device = read_device_spec(Path(options.device_spec)).figures
    operators, todo = session.catalogue.operators, len(plan.todo)
    planned = [PlannedCase(case.id, case.operator, case.tags) for case in plan.cases]
    with contextlib.ExitStack() as stack:
        files, saver, troubles = None, None, []
        with open_backend(plan, source) as opened:
            labels = run_labels(options.labels, options.backend, options.runtime, opened.version)
            options = replace(options, labels=labels)
            case_options = options_of(options, session.catalogue, todo, max(len(opened.callers), 1))
            roots = session.catalogue.root_paths
            context = context_of(options, roots, opened.name, len(ids), plan.left_out, device)
            if folder is not None:
                if plan.done is None:
                    folder.clear()
                if options.save_outputs is not None:
                    saver = OutputSaver(folder.path, options.save_outputs)
                done = plan.done or {}
                before = (done.pop(case) for case in ids if case in done)
                files = stack.enter_context(ResultFiles(folder, options.to_json(ids, plan.left_out), before))
            stack.enter_context(gc_frozen())
            shared = Confirmation(), LeakWatch()
            slots = [CaseRun(caller, case_options, saver, source, operators, *shared) for caller in opened.callers]
            try:
                report = run(
                    planned, opened.name, slots, operators, context, case_options, listeners, files, opened.scheduler
                )
            except UnwritableError as error:
                if files is not None:
                    error.exit_code = ExitCode.worst([error.exit_code, files.tally.exit_code])
                raise
            times = {"generate": source.times.generate, "load": source.times.load, **report.timing}
            report = replace(report, timing={**times, "write": 0.0 if files is None else files.seconds})
            if folder is not None and files is not None:
                try:
                    files.write_report(report, ids)
                    write_causes(folder.path, report)
                except UnwritableError as error:
                    troubles.append(error)
        yield FinishedRun(report, saver, tuple(troubles))


def options_of(request: RunOptions, catalogue: Catalogue, cases: int, slots: int) -> Options:
    """How each of so many cases is run, side by side in so many slots."""
    sampling = None
    if request.perf:
        from mluops_gtest.running.timing import Sampling  # late: most runs time nothing

        sampling = Sampling(request.warmup, request.samples, request.cold_cache)
    # What an option of a run and one of its cases are called alike they mean alike; what follows is worked out.
    alike = {name: getattr(request, name) for name in Options.__struct_fields__ if name in OPTIONS}
    derived: dict[str, Any] = {
        # Under stress a lost addition counts, however small.
        "elementwise": True if request.elementwise is None and request.stress is not None else request.elementwise,
        "arbitrate": (lambda operator: catalogue.operators.part(operator, EXACT)) if request.arbitrate else None,
        "stress": None if request.stress is None else Stress.parse(request.stress).shared(cases, slots),
        "sides": tuple(Side) if request.guard_pages else (None,),
    }
    bounds = BoundCache(lambda operator: catalogue.root_of(operator).generators)
    return Options(**{**alike, **derived}, bounds=bounds, sampling=sampling)


def context_of(
    options: RunOptions, content: tuple[str, ...], name: str, count: int, left_out: int, device: dict[str, Any] | None
) -> RunContext:
    """What the report says about the run besides its results."""
    measured = {}
    if options.perf:
        how = {"warmup": options.warmup, "samples": options.samples or "auto", "cold_cache": options.cold_cache}
        measured = {"perf": how, "device": device}
    selection = {**options.selection.to_json(), "roots": list(options.roots), "shard": options.shard}
    is_elementwise = options.elementwise is not False
    selection |= {"times": options.times, "reseed": options.reseed, "elementwise": is_elementwise}
    if options.require_coverage is not None:
        selection["require_coverage"] = options.require_coverage
    return RunContext(
        tool_version=__version__,
        backend={
            "name": name,
            "spec": options.backend,
            "runtime": options.runtime,
            "isolated": options.isolated,
            "repeat": options.repeat,
            "guard_pages": options.guard_pages,
            **({} if options.stress is None else {"stress": options.stress}),
        },
        environment={
            "python": platform.python_version(),
            "numpy": np.__version__,
            "platform": _platform(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "content": list(content),
            "settings": options.settings,
            **measured,
        },
        selection={**selection, "cases": count, "left_out": left_out},
        repro_options=options.repro_options(),
        debug_words=_debug_words(options),
        labels=options.labels,
    )


def _debug_words(options: RunOptions) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The words before and after a case id that run it under gdb: in the process that gdb starts, but with guard pages
    in the worker, which has as long as somebody looks at it."""
    if not can_be_debugged(options.backend):
        return None
    follow = list[str]()
    if options.guard_pages:
        follow, inline = ["-ex", "set follow-fork-mode child"], replace(options, timeout=_LOOKED_AT_SECONDS)
    else:
        unused = {name: one.default for name, one in OPTIONS.items() if one.needs == "workers"}
        inline = replace(options, **{**unused, "isolate": False})
    debugger = ("gdb", *follow, "-ex", "run", "-ex", f"backtrace {_FRAMES}", "--args")
    return (*debugger, sys.executable, "-m", "mluops_gtest", "run"), inline.repro_options()


def _platform() -> str:
    """What platform.platform() says; on Linux without the process that it starts for a word it leaves out."""
    if platform.system() != "Linux":
        return platform.platform()
    libc = "".join(platform.libc_ver())
    return "-".join(filter(None, (platform.system(), platform.release(), platform.machine(), libc and f"with-{libc}")))


class CaseRunner:
    """The backend of a request, open for any number of cases."""

    def __init__(self, session: Session, request: RunOptions, keep: OutputListener | None = None) -> None:
        """`keep` sees the outputs of every call that answered and should have computed."""
        self._session, self._request, self._keep = session, request, keep
        self._open = contextlib.ExitStack()
        self._case_run: CaseRun | None = None
        # What the backend calls itself, and its version; empty where it says nothing.
        self.backend = self.version = ""

    @own_floats()
    def __enter__(self) -> "CaseRunner":
        """Load the backend; an error says why that is impossible."""
        catalogue, request = self._session.catalogue, self._request
        callers = self._open.enter_context(open_callers(request, catalogue))
        options = options_of(request, catalogue, 1, len(callers))
        self._context = context_of(request, catalogue.root_paths, callers[0].name, 1, 0, None)
        self.backend, self.version, self.precision = callers[0].name, callers[0].version, callers[0].precision
        self.is_reference = callers[0].is_reference
        self._source = _OneByOne(self._session, request)
        self._case_run = CaseRun(callers[0], options, self._keep, self._source, catalogue.operators)
        return self

    def __exit__(self, *_: object) -> None:
        self._case_run = None
        self._open.close()

    def prepare(self, operator: str) -> None:
        """Read all that is the same for every declared case of the operator, before somebody looks at the clock."""
        _ = self._session.catalogue.operators[operator], self._source.of_operator(operator).lock

    @own_floats()
    def run(self, case: Selected) -> CaseResult:
        """Load the case, call the backend, judge."""
        assert self._case_run is not None, "the runner is open"
        self._source.cases[case.id] = case
        result = self._case_run.run(PlannedCase(case.id, case.operator, case.tags))
        return with_commands(result, self._context)


class _OneByOne:
    """Loads the cases that were asked for; locks and schema are read once per operator."""

    def __init__(self, session: Session, request: RunOptions) -> None:
        self._session, self._request = session, request
        self._sources: dict[str, StoredCases] = {}
        self.cases: dict[str, Selected] = {}

    def load(self, case_id: str) -> Case:
        case = self.cases[case_id]
        if not case.is_declared:
            return self._source((case,)).load(case_id)
        return self.of_operator(case.operator).load(case_id)

    def of_operator(self, operator: str) -> StoredCases:
        """The source of its declared cases."""
        if operator not in self._sources:
            drafts = self._session.catalogue.drafts_of(operator).values()
            declared = tuple(Selected(one.id, one.operator, one.tags, draft=one) for one in drafts)
            self._sources[operator] = self._source(declared)
        return self._sources[operator]

    def _source(self, cases: tuple[Selected, ...]) -> StoredCases:
        request = self._request
        return self._session.source(
            cases, strict=request.strict, allow_outside_paths=request.allow_outside_paths, reseed=request.reseed
        )


class CaseHandle:
    """A declared case, or a case in a file.

    Arrays are read-only and have the tensor's own type; half is float16, bfloat16 comes as its bits in uint16.
    """

    def __init__(self, selected: Selected, load: Callable[[], Case], operator_of: Callable[[str], Operator]) -> None:
        self._selected, self._load, self._operator_of = selected, load, operator_of

    def __repr__(self) -> str:
        return f"<case {self.id}>"

    def _repr_html_(self) -> str:
        from mluops_gtest.results.reports.html import case_html

        return case_html(self._case)

    @property
    def id(self) -> str:
        """`operator/name`, or the path of the file."""
        return self._selected.id

    @property
    def operator(self) -> str:
        """The operator's name."""
        return self._selected.operator or self._case.operator

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the declaration; none for a file."""
        return self._selected.tags

    @property
    def doc(self) -> str:
        """What the case shows, with the section of the design document."""
        return self._case.doc

    @property
    def params(self) -> Params:
        """The parameters that a backend gets; None where the case passes no parameters."""
        return dict(self.call().params or {})

    @cached_property
    def inputs(self) -> dict[str, Array]:
        """The inputs by name; one that the case gives no values is left out."""
        return _arrays(self._case.inputs)

    @property
    def status(self) -> Status:
        """The status that the operator must answer."""
        return self._expectation.answer.status

    @property
    def check_name(self) -> str | None:
        """The parameter check that must answer; None where the operator computes."""
        return self._expectation.answer.check

    @property
    def computes(self) -> bool:
        """The operator must write its outputs; False where it must refuse or return at once."""
        return self._expectation.answer.computes

    @cached_property
    def expected(self) -> dict[str, Array]:
        """The right outputs by name; empty where the operator computes nothing."""
        return _arrays(self._expectation.outputs) if self.computes else {}

    @property
    def results(self) -> dict[str, int]:
        """The results of the call that are no tensors, e.g. num_act_out."""
        return dict(self._expectation.results)

    def call(self) -> OpCall:
        """The call as a backend gets it, without a workspace, outputs preset or poisoned; make one for each use."""
        nobody = InlineCaller(_ComputedElsewhere({}, Status.SUCCESS, {}))
        task = Task(self._case, self._operator, self._expectation, draft_result(self._case))
        return GuardedCall(task, nobody).call

    @own_floats()
    def check(
        self,
        outputs: Mapping[str, Any] | None = None,
        *,
        status: Status = Status.SUCCESS,
        results: Mapping[str, int] | None = None,
        elementwise: bool | None = None,
    ) -> CaseResult:
        """The verdict on these outputs, as a run would reach it; `elementwise=True` fails on single elements, too."""
        computed = _ComputedElsewhere(self._fitting(outputs or {}), status, dict(results or {}))
        case_run = CaseRun(InlineCaller(computed), Options(elementwise=elementwise, strict=False))
        return case_run.run_case(self._case, self._operator)

    def _fitting(self, outputs: Mapping[str, Any]) -> dict[str, Array]:
        """The arrays, of the very types and shapes that the case has: a silent conversion could hide a mistake."""
        wanted = {tensor.id: tensor.desc for tensor in self._case.outputs}
        fitting = {}
        for name, values in outputs.items():
            if name not in wanted:
                raise UsageError(f"{self.id}: there is no output {name!r}; it has {', '.join(wanted)}.")
            array, desc = np.asarray(values), wanted[name]
            if array.dtype != desc.dtype.storage or array.shape != desc.dims:
                raise UsageError(
                    f"{self.id}: {name} must be {desc.dtype.storage.name} {list(desc.dims)}, not {array.dtype.name} "
                    f"{list(array.shape)}; convert it yourself, so that nothing is rounded unseen."
                )
            fitting[name] = array
        return fitting

    @cached_property
    @own_floats()
    def _case(self) -> Case:
        return self._load()

    @cached_property
    def _operator(self) -> Operator:
        return self._operator_of(self._case.operator)

    @cached_property
    @own_floats()
    def _expectation(self) -> Expectation:
        return expectation_of(self._case, self._operator)


class _ComputedElsewhere:
    """Answers with what somebody computed elsewhere; an output that is not given stays as it was."""

    name = "given outputs"

    def __init__(self, outputs: Mapping[str, Array], status: Status, results: Mapping[str, int]) -> None:
        self._outputs, self._status, self._results = outputs, status, results

    def run(self, call: OpCall) -> Status:
        for name, values in self._outputs.items():
            call.array(name)[...] = values
        call.scalars.update(self._results)
        return self._status


def _arrays(tensors: tuple[Tensor, ...]) -> dict[str, Array]:
    """The values of those that have any, read-only."""
    found = {tensor.id: tensor.values.view() for tensor in tensors if tensor.data is not None}
    for array in found.values():
        array.flags.writeable = False
    return found
