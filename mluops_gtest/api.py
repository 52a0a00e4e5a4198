"""What Python programs call: the functions of the commands, with values instead of pages and exit codes."""

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace

from mluops_gtest.authoring.calls import dtype_of
from mluops_gtest.backends import numpy_backend
from mluops_gtest.backends.registry import checked_backend
from mluops_gtest.base.errors import HarnessError, UnwritableError, UsageError
from mluops_gtest.base.float_state import FloatState, own_floats, require_float_state
from mluops_gtest.base.frozen import Value
from mluops_gtest.catalog.operators import Operators
from mluops_gtest.catalog.produce import plan_generation
from mluops_gtest.catalog.root import BUILTIN
from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.buffers import baseline_of
from mluops_gtest.core.call import OpCall
from mluops_gtest.core.case import Backend, Query
from mluops_gtest.core.declaration import Baseline
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.report import CaseFinished, Event, Listener, ReportFormat, RunReport
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.tensor import Array, Criterion, CriterionKind, DType
from mluops_gtest.judging.criteria import compare as measured
from mluops_gtest.judging.criteria import judge
from mluops_gtest.results.folder import ResultsFolder
from mluops_gtest.results.gate import Decision
from mluops_gtest.results.gate_request import GateRequest, reach_decision
from mluops_gtest.results.writer import CauseSummary, causes_of
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.options import OPTIONS, RunOptions
from mluops_gtest.running.plan import plan_run, refuse
from mluops_gtest.running.session import CaseHandle, OpenBackend, Opener, early_fork_server, opener_here, run_session
from mluops_gtest.running.settings import label_words, parse_labels, with_settings
from mluops_gtest.search.fuzz import FuzzReport
from mluops_gtest.search.minimise import Minimised, minimise_case
from mluops_gtest.search.minimise_candidates import LIMIT


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
    runtime: str | None = None,
    serve: bool = False,
    isolate: bool | None = None,
    jobs: int = 1,
    devices: Sequence[int] = (),
    timeout: float | None = None,
    memory_limit: int | None = None,
    fresh_workers: bool = False,
    guard_pages: bool = False,
    fail_on_leak: bool = False,
    repeat: int = 1,
    reruns: int = 0,
    stress: str | None = None,
    elementwise: bool | None = None,
    bitwise: bool = False,
    arbitrate: bool = False,
    stop_at_first: bool = False,
    reseed: int | None = None,
    strict: bool = False,
    allow_outside_paths: bool = False,
    perf: bool = False,
    warmup: int = 3,
    samples: int | None = None,
    cold_cache: bool = False,
    device_spec: str | Path | None = None,
    save_outputs: Literal["failed", "all"] | None = None,
    labels: Mapping[str, str] | None = None,
    require_coverage: str | None = None,
    shard: str | None = None,
    allow_empty_shard: bool = False,
    failed: str | Path | None = None,
    times: str | Path | None = None,
    cluster: str | None = None,
    ship: Sequence[str] = (),
    judge_here: bool = False,
    reports: Mapping[ReportFormat, str | Path] | None = None,
    settings: str | Path | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    on_result: Callable[[CaseResult], None] | None = None,
) -> RunReport:
    """Run cases on a backend; each argument means what the option of `mluops-test run` means.

    `backend` is a word as for `--backend`, or an object with `name` and `run`, which runs in this process. With `out`
    the results are written there as they come; `reports` maps a format to its file. What `settings`, a file like
    mluops-test.toml, has stands in for arguments that are left out. `on_result` is told every result as it comes.
    """
    options = _options(Query(select, tuple(operators), tuple(tags), keyword, everything), locals())
    if options.save_outputs is not None and options.out is None:
        raise UsageError("save_outputs: outputs are files of a results folder; name it, e.g. out='results'.")
    with contextlib.ExitStack() as stack:
        before = stack.enter_context(own_floats())
        fork_server = stack.enter_context(early_fork_server(options))
        plan = plan_run(options, Session(options.roots), _warn)
        folder = None
        if options.out is not None:
            advice = "name another one, or say overwrite=True"
            folder = ResultsFolder.new(Path(options.out), overwrite=options.overwrite, advice=advice)
            stack.enter_context(folder)
        if options.reports:
            from mluops_gtest.results.reports.files import check_reports

            check_reports(options.reports, Path() if folder is None else folder.path)
        if not isinstance(backend, str):
            opener = _opener_of(options.backend, backend, before)
        elif options.cluster is not None:
            from mluops_gtest.cluster.session import opener_on_cluster

            opener = opener_on_cluster(_warn)
        else:
            opener = opener_here(fork_server)
        listeners = [] if on_result is None else [_telling(on_result)]
        with run_session(plan, plan.source(), opener, listeners, folder) as finished:
            report = replace(finished.report, results=tuple(finished.report.results))
        saving = None if finished.saver is None else finished.saver.trouble
        _raise_first((*finished.troubles, saving))
        if options.reports:
            from mluops_gtest.results.reports.files import write_reports

            _raise_first(tuple(write_reports(report, options.reports)))
    # No command line can name an object of this process.
    return report if isinstance(backend, str) else report.without_commands()


def _options(query: Query, given: Mapping[str, Any]) -> RunOptions:
    """The options among these arguments, with those of the settings; what does not go together is refused."""
    values = {name: _plain(value) for name, value in given.items() if name in OPTIONS and value is not None}
    backend = values["backend"]
    if not isinstance(backend, str):
        values["backend"] = f"object:{getattr(backend, 'name', '?')}"
        if values.get("isolate"):
            raise UsageError(
                "isolate=True: an object of this process cannot move into another one. Name the backend as "
                "`--backend` does, e.g. backend='my_kernels.py:backend'."
            )
        values["isolate"] = False
    if "labels" in values:
        parse_labels(label_words(values["labels"]))
    options = RunOptions(query, **values)
    if options.settings is not None:
        options = with_settings(options, Path(options.settings))
    refuse(options, in_python=True)
    return options


def _plain(value: Any) -> Any:
    """The value as the options of a run have it."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {name: str(one) for name, one in value.items()}
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _warn(words: str) -> None:
    warnings.warn(words, stacklevel=3)


def _opener_of(spec: str, backend: Any, floats: FloatState) -> Opener:
    """Calls an object of this process; whoever made it closes it."""

    @contextlib.contextmanager
    def open_object(*_: object) -> Iterator[OpenBackend]:
        require_float_state(spec)
        caller = InlineCaller(checked_backend(spec, backend), floats)
        yield OpenBackend(caller.name, caller.version, [caller])

    return open_object


def _telling(on_result: Callable[[CaseResult], None]) -> Listener:
    def listen(event: Event) -> None:
        if isinstance(event, CaseFinished):
            on_result(event.result)

    return listen


def _raise_first(troubles: Iterable[HarnessError | None]) -> None:
    for trouble in troubles:
        if trouble is not None:
            raise trouble


@own_floats()
def fuzz(
    *operators: str,
    backend: str,
    tags: Sequence[str] = (),
    keyword: str = "",
    valid: bool = False,
    seconds: float | None = None,
    cases: int | None = None,
    seed: int | None = None,
    corpus: str | Path = "mluops-corpus",
    stress: str | None = None,
    roots: Sequence[str] = (BUILTIN,),
    runtime: str | None = None,
    serve: bool = False,
    isolate: bool | None = None,
    jobs: int = 1,
    devices: Sequence[int] = (),
    timeout: float | None = None,
    memory_limit: int | None = None,
    fresh_workers: bool = False,
    guard_pages: bool = False,
    cluster: str | None = None,
    ship: Sequence[str] = (),
    settings: str | Path | None = None,
) -> FuzzReport:
    """Draw calls of these operators, or of all, as `mluops-test fuzz` does; what fails is kept in the corpus.

    Without `seconds` and `cases` it takes a minute. What the options mean, they mean for the command.
    """
    from mluops_gtest.search.fuzz import SECONDS, FuzzRequest, run_fuzz

    run = _options(Query(), {**locals(), "elementwise": True})
    seconds = SECONDS if seconds is None and cases is None else seconds
    request = FuzzRequest(run, operators, Path(corpus), seed, cases, seconds, tuple(tags), keyword, valid)
    session = Session(run.roots)
    if run.cluster is None:
        return run_fuzz(request, session)
    from mluops_gtest.cluster.session import fuzz_on_cluster

    return fuzz_on_cluster(request, session, lambda *_: None, lambda *_: None, _warn)


@own_floats()
def minimise(
    case: str,
    *,
    backend: str,
    out: str | Path | None = None,
    calls: int = LIMIT,
    roots: Sequence[str] = (BUILTIN,),
    runtime: str | None = None,
    serve: bool = False,
    isolate: bool | None = None,
    timeout: float | None = None,
    guard_pages: bool = False,
    bitwise: bool = False,
    elementwise: bool | None = None,
    reseed: int | None = None,
    strict: bool = False,
    allow_outside_paths: bool = False,
) -> Minimised:
    """The smallest case that fails on the backend for the same cause, as `mluops-test minimise` finds it.

    Its `fails` is false where the case does not fail. With `out` the case is written there.
    """
    options = _options(Query((case,)), {**locals(), "out": None})
    session = Session(options.roots)
    found, confirmed, operator = minimise_case(session, options, case, calls)
    if out is not None and found.fails:
        from mluops_gtest.casefiles.schema import Schema
        from mluops_gtest.casefiles.writer import write_case

        schema = Schema.of(session.catalogue.operators.values())
        write_case(replace(found.case, id=Path(out).stem), operator, Path(out), schema, readable=True)
    return replace(found, result=confirmed)


def explain(results: RunReport | str | Path, *, operator: str | None = None) -> tuple[CauseSummary, ...]:
    """Why cases failed, cause by cause, those of most cases first: what `mluops-test explain` prints."""
    return causes_of(results if isinstance(results, RunReport) else RunReport.load(results), operator)


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
    given = locals()
    paths = {name: Path(given[name]) for name in ("results", "against", "waivers") if isinstance(given[name], str)}
    return reach_decision(GateRequest(**given | paths))


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
