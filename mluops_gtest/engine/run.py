"""A whole run: every planned case gets a result, events tell what happens."""

import datetime
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from msgspec import field
from msgspec.structs import replace

from mluops_gtest.engine.caller import Caller, LostDeviceError, ThreadsCaller
from mluops_gtest.engine.confirming import Confirming
from mluops_gtest.engine.execute import Executor, Options
from mluops_gtest.engine.explanation_room import ExplanationRoom
from mluops_gtest.engine.failures import not_judged, not_loaded
from mluops_gtest.engine.fingerprint import fingerprinted
from mluops_gtest.engine.lanes import AnyLanes, Lanes, PlannedCase
from mluops_gtest.engine.leaks import LeakWatch, calls_to_show
from mluops_gtest.engine.outputs import OutputKeeper
from mluops_gtest.engine.result_store import ResultsInMemory, ResultStore
from mluops_gtest.model import cause
from mluops_gtest.model.case import Case, CaseSource
from mluops_gtest.model.event import CaseFinished, CaseStarted, Event, Listener, RunFinished, RunStarted
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.value import Value

if TYPE_CHECKING:
    from mluops_gtest.engine.stressed_cases import StressedExecutor


class RunContext(Value):
    """What the report says about the run besides its results."""

    tool_version: str
    backend: Mapping[str, Any]
    environment: Mapping[str, Any]
    selection: Mapping[str, Any]
    # The options that a repro line needs after `mluops-test run CASE`.
    repro_options: tuple[str, ...] = ()
    # What runs a case under a debugger, around its id; None where no debugger would see it crash.
    debug_words: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


def shapes_of(operators: Mapping[str, Operator], failed: Set[str]) -> dict[str, dict[str, str]]:
    """The shapes in symbols of the operators of which some case failed: they name what the cases have in common."""
    return {name: {one.id: one.shape for one in operators[name].tensors} for name in sorted(failed & operators.keys())}


def run(
    plan: Sequence[PlannedCase],
    callers: Sequence[Caller],
    operators: Mapping[str, Operator],
    source: CaseSource,
    context: RunContext,
    options: Options,
    listeners: Sequence[Listener],
    store: ResultStore | None = None,
    keep: OutputKeeper | None = None,
) -> RunReport:
    """Run every planned case without a result in the store, side by side on the callers; `keep` may save outputs."""
    executors = [executor_of(caller, options, keep) for caller in callers]
    shared = LeakWatch(), Confirming()
    lanes: Lanes[PlannedCase, Event] = Lanes([CaseLane(one, operators, source, context, *shared) for one in executors])

    def timing() -> dict[str, float]:
        return {
            "backend": sum(executor.times.backend for executor in executors),
            "compare": sum(executor.times.compare for executor in executors),
        }

    return run_lanes(plan, callers[0].name, lanes, operators, context, options, listeners, timing, store)


def run_lanes(
    plan: Sequence[PlannedCase],
    backend: str,
    lanes: AnyLanes[PlannedCase, Event],
    operators: Mapping[str, Operator],
    context: RunContext,
    options: Options,
    listeners: Sequence[Listener],
    timing: Callable[[], dict[str, float]],
    store: ResultStore | None = None,
) -> RunReport:
    """Run every planned case that has no result in the store yet.

    Cases that are not reached are not_run, and an interrupt still gives a report.
    """
    store = ResultsInMemory() if store is None else store
    told: tuple[Listener, ...] = (store, *listeners)

    def tell(event: Event) -> None:
        for listener in told:
            listener(event)

    room, explained = ExplanationRoom(), set()
    for result in store:
        room.kept(result)
        if result.explained:
            explained.add(result.operator)
    todo = [planned for planned in plan if planned.id not in store]
    started = datetime.datetime.now(datetime.UTC)
    begin = time.perf_counter()
    tell(RunStarted(backend, len(todo)))
    interrupted = False
    try:
        for event in _events(lanes, todo, options, room, context):
            if isinstance(event, CaseFinished) and event.result.explained:
                explained.add(event.result.operator)
            tell(event)
    except KeyboardInterrupt:
        interrupted = True
        lanes.stop()
    except BaseException:
        # A listener that can no longer keep results, say: nothing more is begun, and the callers' owner closes them.
        lanes.stop()
        raise
    for planned in todo:
        if planned.id not in store:
            why = cause.Interrupted() if interrupted else lanes.lost or cause.StoppedAtFailure()
            not_run = CaseResult(planned.id, planned.operator, planned.tags, Outcome.NOT_RUN, causes=(why,))
            tell(CaseFinished(with_commands(fingerprinted(not_run), context)))
    report = RunReport(
        tool_version=context.tool_version,
        backend=context.backend,
        environment=context.environment,
        selection=context.selection,
        started=started.isoformat(timespec="seconds"),
        seconds=time.perf_counter() - begin,
        results=store.in_order(planned.id for planned in plan),
        timing=timing(),
        interrupted=interrupted or lanes.interrupted,
        labels=context.labels,
        shapes=shapes_of(operators, explained),
    )
    tell(RunFinished(report))
    return report


def executor_of(caller: Caller, options: Options, keep: OutputKeeper | None = None) -> "Executor | StressedExecutor":
    """What runs cases through one caller in the way that the options ask for."""
    if options.stress is None:
        return Executor(caller, options, keep)
    from mluops_gtest.engine.stressed_cases import StressedExecutor

    assert isinstance(caller, ThreadsCaller), "cases under stress run in worker processes"
    return StressedExecutor(caller, options, options.stress, keep)


def _events(
    lanes: AnyLanes[PlannedCase, Event],
    todo: Sequence[PlannedCase],
    options: Options,
    room: ExplanationRoom,
    context: RunContext,
) -> Iterator[Event]:
    for event in lanes.run(todo):
        if isinstance(event, CaseFinished):
            yield CaseFinished(with_commands(room.kept(event.result), context))
        else:
            yield event
        if options.stop_at_first and isinstance(event, CaseFinished) and event.result.outcome.blocks:
            lanes.stop()


class CaseLane(Value):
    """One caller's way through the cases."""

    executor: "Executor | StressedExecutor"
    operators: Mapping[str, Operator]
    source: CaseSource
    context: RunContext
    leaks: LeakWatch
    confirming: Confirming

    def start(self, planned: PlannedCase) -> Event:
        return CaseStarted(planned.id)

    def run(self, planned: PlannedCase) -> CaseFinished:
        """Load the case and give its verdict."""
        try:
            case = self.source.load(planned.id)
        except Exception as error:
            result = not_loaded(planned.id, planned.operator, planned.tags, error)
        else:
            result = self._executed(planned, case)
        return CaseFinished(result)

    def _executed(self, planned: PlannedCase, case: Case) -> CaseResult:
        operator = self.operators.get(case.operator)
        try:
            result = self.confirming.executed(self.executor, case, self.source, self.operators)
            return self.leaks.checked(self.executor, case, operator, result)
        except LostDeviceError:
            raise
        except Exception as error:
            blank = CaseResult(planned.id, planned.operator, planned.tags, Outcome.ERROR)
            return fingerprinted(not_judged(blank, error))


def with_commands(result: CaseResult, context: RunContext) -> CaseResult:
    """The result with the commands that run its case again, and where it crashed do so under a debugger.

    Whoever ran the case has no say in them: people paste them into a shell.
    """
    before = (one.case for one in result.causes if isinstance(one, cause.OnlyAfter) and not one.case.startswith("-"))
    ids = (*before, result.case)
    often: tuple[str, ...] = ()
    if result.leak is not None and "--stress" not in context.repro_options:
        # One call keeps too little for anybody to look.
        often = ("--repeat", str(calls_to_show(result.leak)))
    repro = f"mluops-test run {shlex.join((*ids, *context.repro_options, *often))}"
    debug = ""
    if result.outcome is Outcome.CRASHED and context.debug_words is not None:
        first, last = context.debug_words
        debug = shlex.join([*first, *ids, *last])
    return replace(result, repro=repro, debug=debug)
