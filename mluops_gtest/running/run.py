"""Where the results of a run are while it lasts, so that the run itself need not hold them.

How much explanations may take in the files of a run; what is over keeps its cause and loses what illustrates it.

Cases side by side: each lane takes the next case when it is free; a lane that loses its device gives it back.

A whole run: every planned case gets a result, events tell what happens.
"""

import datetime
import queue
import shlex
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import msgspec
from msgspec import field
from msgspec.structs import replace

from mluops_gtest.base.frozen import Value
from mluops_gtest.core import cause
from mluops_gtest.core.case import Case, CaseSource
from mluops_gtest.core.cause import Cause
from mluops_gtest.core.explanation import Explanation
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import (
    CaseFinished,
    CasesRetracted,
    CaseStarted,
    Event,
    Listener,
    RunFinished,
    RunReport,
    RunStarted,
)
from mluops_gtest.core.result import CaseResult
from mluops_gtest.judging.fingerprint import with_fingerprint
from mluops_gtest.judging.verdict import not_judged, not_loaded
from mluops_gtest.running.caller import Caller, LostDeviceError, ThreadsCaller
from mluops_gtest.running.case_run import Executor, Options
from mluops_gtest.running.confirming import Confirming
from mluops_gtest.running.outputs import OutputKeeper
from mluops_gtest.running.stress import LeakWatch, calls_to_show

if TYPE_CHECKING:
    from mluops_gtest.running.stress import StressedExecutor


class ResultStore(Protocol):
    """Keeps the results of a run: a listener from which they come back."""

    def __call__(self, event: Event) -> None:
        """Keep the result of a case that has finished."""

    def __contains__(self, case: str) -> bool:
        """That case has a result."""

    def __iter__(self) -> Iterator[CaseResult]:
        """All results, as they came."""

    def in_order(self, cases: Iterable[str]) -> Sequence[CaseResult]:
        """The results of these cases, which all have one."""


class ResultsInMemory:
    """For runs of which nothing is written."""

    def __init__(self) -> None:
        self._results: dict[str, CaseResult] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, CaseFinished):
            self._results[event.result.case] = event.result
        elif isinstance(event, CasesRetracted):
            for case in event.cases:
                del self._results[case]

    def __contains__(self, case: str) -> bool:
        return case in self._results

    def __iter__(self) -> Iterator[CaseResult]:
        return iter(self._results.values())

    def in_order(self, cases: Iterable[str]) -> tuple[CaseResult, ...]:
        return tuple(self._results[case] for case in cases)


_MAX_CASE: Final = 16 << 10
_MAX_RUN: Final = 50 << 20


class ExplanationRoom:
    """The room that is left in one run."""

    def __init__(self, of_run: int = _MAX_RUN, of_case: int = _MAX_CASE) -> None:
        self._left, self._of_case = of_run, of_case

    def kept(self, result: CaseResult) -> CaseResult:
        """The result with as much of its explanations as there is room for."""
        kept = result.explained
        if not kept:
            return result
        for less in (_without_samples, _without_map, _told_alone, _first_output, _nothing):
            if _size(kept) <= min(self._of_case, self._left):
                break
            kept = less(kept)
        self._left -= _size(kept)
        return replace(result, explained=kept)


def _size(explained: tuple[Explanation, ...]) -> int:
    return len(msgspec.json.encode(explained)) if explained else 0


def _without_samples(explained: tuple[Explanation, ...]) -> tuple[Explanation, ...]:
    return tuple(msgspec.structs.replace(one, samples=()) for one in explained)


def _without_map(explained: tuple[Explanation, ...]) -> tuple[Explanation, ...]:
    return tuple(msgspec.structs.replace(one, map=None) for one in explained)


def _told_alone(explained: tuple[Explanation, ...]) -> tuple[Explanation, ...]:
    """Without the laws and sets that hold besides what is told."""
    return tuple(
        msgspec.structs.replace(one, fitted=(msgspec.structs.replace(one.best_fit, also=()),)) for one in explained
    )


def _first_output(explained: tuple[Explanation, ...]) -> tuple[Explanation, ...]:
    return explained[:1]


def _nothing(explained: tuple[Explanation, ...]) -> tuple[Explanation, ...]:  # noqa: ARG001
    """The causes of the result say what is wrong without it."""
    return ()


T = TypeVar("T")
E = TypeVar("E")
T_contra = TypeVar("T_contra", contravariant=True)
E_co = TypeVar("E_co", covariant=True)


class PlannedCase(Value):
    """A case to run, known before it is loaded."""

    id: str
    operator: str
    tags: tuple[str, ...]


class Lane(Protocol[T_contra, E_co]):
    """What runs cases one after the other."""

    def start(self, planned: T_contra) -> E_co:
        """Say which case comes next."""

    def run(self, planned: T_contra) -> E_co:
        """Run it; LostDeviceError ends the lane."""


class AnyLanes(Protocol[T_contra, E_co]):
    """What runs cases and tells of each: lanes of this machine, or a cluster."""

    @property
    def lost(self) -> Cause | None:
        """Why nothing can be run any more, once that is so."""

    @property
    def interrupted(self) -> bool:
        """It ended before its time, and somebody may go on with it."""

    def run(self, cases: Iterable[T_contra]) -> Iterator[E_co]:
        """The events of every case; each is asked for when somebody can run it."""

    def stop(self) -> None:
        """Begin no further case."""


class Lanes(Generic[T, E]):
    """Runs cases on one or more lanes and yields their events in the caller's thread."""

    def __init__(self, lanes: Sequence[Lane[T, E]]) -> None:
        self._lanes = lanes
        self._cases: Iterator[T] = iter(())
        self._given_back: deque[T] = deque()
        self._in_hand = 0
        self._stopped = False
        self._changed = threading.Condition()
        # Why no lane is left, once that is so.
        self.lost: Cause | None = None
        self.interrupted = False

    def stop(self) -> None:
        """Take no further case."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def run(self, cases: Iterable[T]) -> Iterator[E]:
        """The events of every case that is taken; each is asked for when a lane is free, by one lane at a time."""
        self._cases = iter(cases)
        if len(self._lanes) == 1:
            # One lane needs no thread, and an interrupt arrives where the work is.
            yield from self._work(self._lanes[0])
            return
        events: queue.SimpleQueue[E | BaseException | None] = queue.SimpleQueue()
        for lane in self._lanes:
            threading.Thread(target=self._work_aside, args=(lane, events), daemon=True).start()
        running = len(self._lanes)
        while running:
            event = events.get()
            if event is None:
                running -= 1
            elif isinstance(event, BaseException):
                self.stop()
                raise event
            else:
                yield event

    def _work_aside(self, lane: Lane[T, E], events: "queue.SimpleQueue[E | BaseException | None]") -> None:
        try:
            for event in self._work(lane):
                events.put(event)
        except BaseException as error:
            events.put(error)
        finally:
            events.put(None)

    def _work(self, lane: Lane[T, E]) -> Iterator[E]:
        while (planned := self._take()) is not None:
            yield lane.start(planned)
            try:
                yield lane.run(planned)
            except LostDeviceError as error:
                self._put_back(planned, error.cause)
                return
            self._finished()

    def _take(self) -> T | None:
        """The next case; while another lane may still give one back, wait for it."""
        with self._changed:
            while not self._stopped:
                planned = self._given_back.popleft() if self._given_back else next(self._cases, None)
                if planned is not None:
                    self._in_hand += 1
                    return planned
                if not self._in_hand:
                    return None
                self._changed.wait()
            return None

    def _put_back(self, planned: T, why: Cause) -> None:
        with self._changed:
            self._given_back.appendleft(planned)
            self.lost = why
            self._in_hand -= 1
            self._changed.notify_all()

    def _finished(self) -> None:
        with self._changed:
            self._in_hand -= 1
            self._changed.notify_all()


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
            tell(CaseFinished(with_commands(with_fingerprint(not_run), context)))
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
    from mluops_gtest.running.stress import StressedExecutor

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
            return with_fingerprint(not_judged(blank, error))


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
