"""What a run works with, from what it is asked for: how each case is run, and what the report says of it all.

What a run needs of its options: those that do not go together are refused before anything starts.
"""

import contextlib
import os
import platform
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mluops_gtest.backends.registry import has_host_memory
from mluops_gtest.base.errors import UsageError
from mluops_gtest.base.float_state import own_floats
from mluops_gtest.catalog.bound_cache import KeptBounds
from mluops_gtest.catalog.selection import Catalogue, Selected, Session
from mluops_gtest.catalog.source import StoredCases
from mluops_gtest.core.buffers import Side
from mluops_gtest.core.case import Case, Query
from mluops_gtest.core.operator_parts import EXACT
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.result import CaseResult
from mluops_gtest.running.callers import open_callers
from mluops_gtest.running.case_run import Options
from mluops_gtest.running.confirming import Confirming
from mluops_gtest.running.options import RunRequest
from mluops_gtest.running.outputs import OutputKeeper
from mluops_gtest.running.run import CaseLane, PlannedCase, RunContext, executor_of, with_commands
from mluops_gtest.running.stress import LeakWatch
from mluops_gtest.version import __version__

if TYPE_CHECKING:
    from mluops_gtest.running.options import Stress
    from mluops_gtest.running.timing import Sampling


def options_of(request: RunRequest, catalogue: Catalogue, cases: int, lanes: int) -> Options:
    """How each of so many cases is run, side by side on so many lanes."""
    return Options(
        repeat=request.repeat,
        bitwise=request.bitwise,
        # Under stress a lost addition counts, however small.
        elementwise=True if request.elementwise is None and request.stress is not None else request.elementwise,
        bounds=KeptBounds(lambda operator: catalogue.root_of(operator).generators),
        arbitrate=(lambda operator: catalogue.operators.part(operator, EXACT)) if request.arbitrate else None,
        strict=request.strict,
        stop_at_first=request.stop_at_first,
        timeout=request.timeout,
        reruns=request.reruns,
        fail_on_leak=request.fail_on_leak,
        stress=None if request.stress is None else _stress(request.stress, cases, lanes),
        sampling=_sampling(request) if request.perf else None,
        sides=tuple(Side) if request.guard_pages else (None,),
    )


def _stress(word: str, cases: int, lanes: int) -> "Stress":
    from mluops_gtest.running.options import Stress  # late, as the next one: most runs ask for neither

    return Stress.parse(word).shared(cases, lanes)


def _sampling(request: RunRequest) -> "Sampling":
    from mluops_gtest.running.timing import Sampling

    return Sampling(request.warmup, request.samples, request.cold_cache)


def context_of(
    request: RunRequest, content: tuple[str, ...], name: str, count: int, left_out: int, device: dict[str, Any] | None
) -> RunContext:
    """What the report says about the run besides its results."""
    import numpy as np

    measured = {}
    if request.perf:
        how = {"warmup": request.warmup, "samples": request.samples or "auto", "cold_cache": request.cold_cache}
        measured = {"perf": how, "device": device}
    selection = {**request.selection.to_json(), "roots": list(request.roots), "shard": request.shard}
    looked = request.elementwise is not False
    selection = {**selection, "times": request.times, "reseed": request.reseed, "elementwise": looked}
    if request.require_coverage is not None:
        selection["require_coverage"] = request.require_coverage
    return RunContext(
        tool_version=__version__,
        backend={
            "name": name,
            "spec": request.backend,
            "runtime": request.runtime,
            "isolated": request.isolated,
            "repeat": request.repeat,
            "guard_pages": request.guard_pages,
            **({} if request.stress is None else {"stress": request.stress}),
        },
        environment={
            "python": platform.python_version(),
            "numpy": np.__version__,
            "platform": _platform(),
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


def _platform() -> str:
    """What platform.platform() says; on Linux without the process that it starts for a word it leaves out."""
    if platform.system() != "Linux":
        return platform.platform()
    libc = "".join(platform.libc_ver())
    return "-".join(filter(None, (platform.system(), platform.release(), platform.machine(), libc and f"with-{libc}")))


def timed(report: RunReport, source: StoredCases, writing: float) -> RunReport:
    """The report with the seconds that making, loading and writing took."""
    times = {"generate": source.times.generate, "load": source.times.load}
    return replace(report, timing={**times, **report.timing, "write": writing})


def under_stress(query: Query, options: dict[str, Any]) -> Query:
    """The cases to repeat: those in which threads must collide, unless the user selects others."""
    from mluops_gtest.running.options import Stress

    Stress.parse(options["stress"])
    beside = {
        "--repeat": options["repeat"] > 1,
        "--reruns": options["reruns"] > 0,
        "--perf": options["perf"],
        "--guard-pages": options["guard_pages"],
    }
    named = [name for name, given in beside.items() if given]
    if named:
        raise UsageError(f"--stress repeats every case itself: leave out {' and '.join(named)}.")
    return replace(query, tags=("race",)) if query.is_default and options["failed"] is None else query


def refuse_inline(backend: str, jobs: int | None, devices: tuple[int, ...], options: dict[str, Any]) -> None:
    """Refuse options that only worker processes can keep."""
    asked = {
        "-j": (jobs or 1) > 1,
        "--devices": bool(devices),
        "--timeout": options["timeout"] is not None,
        "--memory-limit": options["memory_limit"] is not None,
        "--guard-pages": options["guard_pages"],
        "--fresh-workers": options["fresh_workers"],
        "--fail-on-leak": options.get("fail_on_leak"),
        "--stress": options["stress"] is not None,
    }
    named = [name for name, given in asked.items() if given]
    if named:
        raise UsageError(
            f"{' and '.join(named)} needs worker processes; backend {backend!r} runs inline: add --isolate."
        )


def refuse_guard_pages(request: RunRequest) -> None:
    """Only host memory that a worker maps can be guarded, and calls that are timed must not pay for it."""
    if request.perf:
        raise UsageError("--guard-pages changes the memory of the calls that --perf times: leave out one of them.")
    if sys.platform != "linux":
        raise UsageError("--guard-pages needs Linux.")
    if not has_host_memory(request.backend, request.runtime):
        what = f"backend {request.backend!r}" + (
            "" if request.runtime is None else f" with --runtime {request.runtime}"
        )
        raise UsageError(
            f"--guard-pages works on host memory, but {what} has its own memory; use it with Python objects, "
            "numpy and reference with --isolate, and c:LIBRARY without a runtime."
        )


def refuse_on_cluster(request: RunRequest, jobs: int | None) -> None:
    """Refuse what a cluster cannot do, and what only a cluster can."""
    if request.cluster is None:
        if request.ship:
            raise UsageError("--ship sends files to the workers of a cluster: add --cluster ADDRESS.")
        if request.judge_here:
            raise UsageError("--judge-here is about workers of a cluster: add --cluster ADDRESS.")
        return
    refused = {
        "-j": (jobs or 1) > 1,
        "--save-outputs": request.save_outputs is not None,
        "--stress SECONDS": request.stress is not None and not request.stress.endswith("x"),
    }
    advice = {
        "-j": "a cluster has as many workers as it has",
        "--save-outputs": "outputs stay on the workers; run the failing case here with it",
        "--stress SECONDS": "say how often each case is repeated, e.g. --stress 20x",
    }
    for name, given in refused.items():
        if given:
            raise UsageError(f"{name} does not go with --cluster: {advice[name]}.")
    for file in request.ship:
        if file not in request.backend:
            raise UsageError(f"--ship {file}: --backend {request.backend} does not name that file.")


class CaseRunner:
    """The backend of a request, open for any number of cases."""

    def __init__(self, session: Session, request: RunRequest, keep: OutputKeeper | None = None) -> None:
        """`keep` sees the outputs of every call that answered and should have computed."""
        self._session, self._request, self._keep = session, request, keep
        self._open = contextlib.ExitStack()
        self._lane: CaseLane | None = None
        # What the backend says of its version; empty where it says nothing.
        self.version = ""

    @own_floats()
    def __enter__(self) -> "CaseRunner":
        """Load the backend; an error says why that is impossible."""
        catalogue, request = self._session.catalogue, self._request
        callers = self._open.enter_context(open_callers(request, catalogue))
        options = options_of(request, catalogue, 1, len(callers))
        context = context_of(request, catalogue.root_paths, callers[0].name, 1, 0, None)
        executor = executor_of(callers[0], options, self._keep)
        self.version, self.precision = callers[0].version, callers[0].precision
        self.is_reference = callers[0].is_reference
        self._source = _OneByOne(self._session, request)
        self._lane = CaseLane(executor, catalogue.operators, self._source, context, LeakWatch(), Confirming())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lane = None
        self._open.__exit__(kind, error, trace)

    @property
    def backend(self) -> str:
        """The name that the backend gives itself."""
        assert self._lane is not None, "the runner is open"
        return str(self._lane.context.backend["name"])

    def prepare(self, operator: str) -> None:
        """Read all that is the same for every declared case of the operator, before somebody looks at the clock."""
        _ = self._session.catalogue.operators[operator], self._source.of_operator(operator).lock

    @own_floats()
    def run(self, case: Selected) -> CaseResult:
        """Load the case, call the backend, judge."""
        assert self._lane is not None, "the runner is open"
        self._source.cases[case.id] = case
        finished = self._lane.run(PlannedCase(case.id, case.operator, case.tags))
        return with_commands(finished.result, self._lane.context)


class _OneByOne:
    """Loads the cases that were asked for; locks and schema are read once per operator."""

    def __init__(self, session: Session, request: RunRequest) -> None:
        self._session, self._request = session, request
        self._sources: dict[str, StoredCases] = {}
        self.cases: dict[str, Selected] = {}

    def load(self, case_id: str) -> Case:
        case = self.cases[case_id]
        if case.draft is None:
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
