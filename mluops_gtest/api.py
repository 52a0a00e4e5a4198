"""What Python programs call: the functions of the commands, with values instead of pages and exit codes."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace

from mluops_gtest.authoring.calls import dtype_of
from mluops_gtest.backends import numpy_backend
from mluops_gtest.backends.labels import run_labels
from mluops_gtest.backends.registry import checked_backend
from mluops_gtest.base.errors import UnwritableError, UsageError
from mluops_gtest.base.float_state import own_floats, require_float_state
from mluops_gtest.base.frozen import Value
from mluops_gtest.catalog.operators import Operators
from mluops_gtest.catalog.produce import plan_generation
from mluops_gtest.catalog.root import BUILTIN
from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.binding import baseline_of
from mluops_gtest.core.call import OpCall
from mluops_gtest.core.case import Backend, Query
from mluops_gtest.core.operator import Baseline, Operator
from mluops_gtest.core.report import CaseFinished, Event, Listener, RunReport
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.tensor import Array, Criterion, CriterionKind, DType
from mluops_gtest.judging.criteria import compare as measured
from mluops_gtest.judging.criteria import judge
from mluops_gtest.results.folder import ResultsFolder
from mluops_gtest.results.gate.decision import Decision
from mluops_gtest.results.gate.request import GateRequest, reach_decision
from mluops_gtest.results.writer import ResultFiles, write_causes
from mluops_gtest.running.caller import Caller, InlineCaller
from mluops_gtest.running.callers import open_callers
from mluops_gtest.running.case_handle import CaseHandle
from mluops_gtest.running.options import RunRequest
from mluops_gtest.running.run import PlannedCase
from mluops_gtest.running.run import run as run_planned
from mluops_gtest.running.session import context_of, options_of, refuse_guard_pages, timed, under_stress


class ArrayVerdict(Value):
    """What two arrays came to: every criterion's value, and the worst element."""

    # By criterion: its value, its threshold, and whether it is within; None where there are too few elements to say.
    readings: Mapping[str, tuple[float, float, bool | None]]
    compared: int
    unequal: int
    # Of the worst element; None where all are equal.
    index: tuple[int, ...] | None
    got: Any
    expected: Any
    max_ulp: int | None

    @property
    def passed(self) -> bool:
        """Something was compared, and no criterion is exceeded."""
        return self.compared > 0 and all(within is not False for _, _, within in self.readings.values())

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        told = ", ".join(
            f"{kind} {value:.4g} {'≤' if within is not False else '>'} {threshold:.4g}"
            for kind, (value, threshold, within) in self.readings.items()
        )
        worst = "" if self.index is None else f"; worst at {list(self.index)}: {self.got}, expected {self.expected}"
        word = "passed" if self.passed else "failed"
        return f"<{word}: {told}; {self.unequal} of {self.compared} elements differ{worst}>"


@own_floats()
def compare(
    got: Any, expected: Any, criteria: Mapping[str, float] | Sequence[Criterion], *, dtype: str | None = None
) -> ArrayVerdict:
    """Hold `got` to `expected`: `criteria` as in `{"diff1": 3e-3, "diff2": 3e-3}`.

    Both must be of one type and shape. `dtype` names a type that numpy lacks, e.g. "bfloat16" for uint16 bits.
    """
    evaluated, baseline = np.asarray(got), np.asarray(expected)
    element = _dtype(baseline, dtype)
    if evaluated.dtype != element.storage or evaluated.shape != baseline.shape:
        raise UsageError(
            f"got is {evaluated.dtype.name} {list(evaluated.shape)}, expected is {baseline.dtype.name} "
            f"{list(baseline.shape)}; both must be {element.storage.name} of one shape."
        )
    wanted = _criteria(criteria)
    evaluated, baseline = np.ascontiguousarray(evaluated), np.ascontiguousarray(baseline)
    found = measured(evaluated, baseline, element, [criterion.kind for criterion in wanted])
    readings = {}
    for criterion in wanted:
        value = found.readings[criterion.kind.canonical]
        within = judge(criterion.kind, value, criterion.threshold, found)
        readings[criterion.kind.value] = (value, criterion.threshold, within)
    worst = None if found.worst is None else tuple(map(int, np.unravel_index(found.worst, baseline.shape)))
    got_there, expected_there = (None, None) if worst is None else (evaluated[worst], baseline[worst])
    return ArrayVerdict(readings, found.compared, found.unequal, worst, got_there, expected_there, found.max_ulp)


def _dtype(array: Array, word: str | None) -> DType:
    if word is not None:
        try:
            return DType.named(word)
        except KeyError:
            raise UsageError(f"dtype={word!r}: unknown; known are {', '.join(d.value for d in DType)}.") from None
    try:
        return dtype_of(array)
    except KeyError:
        raise UsageError(f"expected is {array.dtype.name}; name the type that it stands for with dtype=….") from None


def _criteria(criteria: Mapping[str, float] | Sequence[Criterion]) -> list[Criterion]:
    if not criteria:
        raise UsageError('criteria: give at least one, e.g. {"diff1": 3e-3, "diff2": 3e-3}.')
    if not isinstance(criteria, Mapping):
        return list(criteria)
    known = {kind.value: kind for kind in CriterionKind if kind.has_formula}
    for name in criteria.keys() - known.keys():
        raise UsageError(f"criteria: {name!r} is unknown; known are {', '.join(known)}.")
    return [Criterion(known[name], float(threshold)) for name, threshold in criteria.items()]


@own_floats()
def generate_cases(
    *select: str,
    out: str | Path | None = None,
    form: Literal["prototxt", "pb"] = "prototxt",
    check: bool = False,
    jobs: int = 1,
    operators: Sequence[str] = (),
    tags: Sequence[str] = (),
    keyword: str = "",
    everything: bool = False,
    roots: Sequence[str] = (BUILTIN,),
) -> list[str]:
    """Make cases as `mluops-test generate` does; what is wrong or differs, a line each, and nothing where all is well.

    With `out` every case is written there, large ones too; with `check` nothing is written.
    """
    query = Query(select, tuple(operators), tuple(tags), keyword, everything)
    work = plan_generation(Session(tuple(roots)), query, None if out is None else Path(out), form, check=check)
    produced = list(work.produce(jobs))
    problems = sorted(item.problem for item in produced if item.problem)
    if check:
        return problems + work.differences()
    for _ in work.lock(produced):
        pass
    for item in produced:
        if item.unwritable:
            raise UnwritableError(item.unwritable)
    return problems


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
    return replace(report, results=tuple(report.results))


def _telling(on_result: Callable[[CaseResult], None]) -> Listener:
    def listen(event: Event) -> None:
        if isinstance(event, CaseFinished):
            on_result(event.result)

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


def decide(
    results: RunReport | str | Path,
    against: RunReport | str | Path,
    *,
    waivers: str | Path | None = None,
    subset: bool = False,
    cross_backend: bool = False,
    strict_accuracy: bool = False,
    strict_perf: bool = False,
    allow_outliers: bool = False,
    require_coverage: str | None = None,
    require_isolated: bool = False,
) -> Decision:
    """Whether a change may be merged, and why; each argument means what the option of `mluops-test gate` means."""
    return reach_decision(
        GateRequest(
            results=results if isinstance(results, RunReport) else Path(results),
            against=against if isinstance(against, RunReport) else Path(against),
            waivers=None if waivers is None else Path(waivers),
            subset=subset,
            cross_backend=cross_backend,
            strict_accuracy=strict_accuracy,
            strict_perf=strict_perf,
            allow_outliers=allow_outliers,
            require_coverage=require_coverage,
            require_isolated=require_isolated,
        )
    )


@own_floats()
def reference(call: OpCall, *, roots: Sequence[str] = (BUILTIN,)) -> Baseline:
    """The right answer to a call that computes; UsageError where the operator would refuse it."""
    operator = operators_of(tuple(roots)).find(call.operator)
    answer = operator.answer(call)
    if not answer.computes:
        message = "" if answer.check is None else f" ({operator.check(answer.check).message})"
        raise UsageError(f"{call.operator} computes nothing for this call: it answers {answer.status.name}{message}.")
    broken = operator.broken(call)
    if broken is not None:
        raise UsageError(f"{call.operator} does not define this call: {broken}.")
    return baseline_of(operator, call)


class NumpyBackend(numpy_backend.NumpyBackend):
    """Runs every operator's own float32 kernel; a backend that has a few operators may hand it the others."""

    def __init__(self, *, roots: Sequence[str] = (BUILTIN,)) -> None:
        super().__init__(operators_of(tuple(roots)))


@cache
def operators_of(roots: tuple[str, ...]) -> Operators:
    """The operators of these roots, each loaded when first asked for."""
    return Session(roots).catalogue.operators


def cases(
    *select: str,
    operators: Sequence[str] = (),
    tags: Sequence[str] = (),
    keyword: str = "",
    everything: bool = False,
    roots: Sequence[str] = (BUILTIN,),
) -> list[CaseHandle]:
    """The cases that these words select, as `mluops-test run` would: ids, operators, globs, files, folders."""
    session = Session(tuple(roots))
    query = Query(select, tuple(operators), tuple(tags), keyword, everything)
    return handles(session, query)


def handles(session: Session, query: Query) -> list[CaseHandle]:
    """The cases of that query; nothing of their data is read yet."""
    chosen = session.select(query).cases
    source = session.source(chosen)

    def operator_of(name: str) -> Operator:
        return session.catalogue.operators.find(name)

    return [CaseHandle(one, lambda case_id=one.id: source.load(case_id), operator_of) for one in chosen]  # type: ignore[misc]
