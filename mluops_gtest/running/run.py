"""A whole run: a scheduler hands planned cases to worker slots, every case gets a result, events tell what happens."""

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
from mluops_gtest.running.caller import LostDeviceError
from mluops_gtest.running.case_run import CaseRun, Options, PlannedCase
from mluops_gtest.running.repetition import calls_to_show

if TYPE_CHECKING:
    from mluops_gtest.results.writer import ResultFiles

T = TypeVar("T")
R = TypeVar("R")
T_contra = TypeVar("T_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class WorkerSlot(Protocol[T_contra, R_co]):
    """What runs cases one after the other."""

    def run(self, planned: T_contra) -> R_co:
        """Run the case; LostDeviceError ends the slot."""


class SchedulerProtocol(Protocol[T_contra, R_co]):
    """What runs cases and tells of each: slots of this machine, or a cluster."""

    @property
    def lost(self) -> Cause | None:
        """Why nothing can be run any more, once that is so."""

    @property
    def interrupted(self) -> bool:
        """It ended before its time, and somebody may go on with it."""

    def run(self, cases: Iterable[T_contra]) -> Iterator[R_co]:
        """What becomes of every case; each is asked for when somebody can run it."""

    def stop(self) -> None:
        """Begin no further case."""


class Scheduler(Generic[T, R]):
    """Gives the next case to whichever slot is free; a slot that loses its device gives its case back."""

    def __init__(self, slots: Sequence[WorkerSlot[T, R]]) -> None:
        self._slots = slots
        self._cases: Iterator[T] = iter(())
        self._returned: deque[T] = deque()
        self._running = 0
        self._stopped = False
        self._changed = threading.Condition()
        # Why no slot is left, once that is so.
        self.lost: Cause | None = None
        self.interrupted = False

    def stop(self) -> None:
        """Take no further case."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def run(self, cases: Iterable[T]) -> Iterator[T | R]:
        """Each case when it begins, and what comes of it; a case is asked for when a slot is free, by one at a time."""
        self._cases = iter(cases)
        if len(self._slots) == 1:
            # One slot needs no thread, and an interrupt arrives where the work is.
            yield from self._work(self._slots[0])
            return
        events: queue.SimpleQueue[T | R | BaseException | None] = queue.SimpleQueue()
        for slot in self._slots:
            threading.Thread(target=self._work_in_thread, args=(slot, events), daemon=True).start()
        running = len(self._slots)
        while running:
            event = events.get()
            if event is None:
                running -= 1
            elif isinstance(event, BaseException):
                self.stop()
                raise event
            else:
                yield event

    def _work_in_thread(
        self, slot: WorkerSlot[T, R], events: "queue.SimpleQueue[T | R | BaseException | None]"
    ) -> None:
        try:
            for event in self._work(slot):
                events.put(event)
        except BaseException as error:
            events.put(error)
        finally:
            events.put(None)

    def _work(self, slot: WorkerSlot[T, R]) -> Iterator[T | R]:
        while (planned := self._next_case()) is not None:
            yield planned
            try:
                yield slot.run(planned)
            except LostDeviceError as error:
                self._finish(lost=(planned, error.cause))
                return
            self._finish()

    def _next_case(self) -> T | None:
        """The next case; while another slot may still give one back, wait for it."""
        with self._changed:
            while not self._stopped:
                planned = self._returned.popleft() if self._returned else next(self._cases, None)
                if planned is not None:
                    self._running += 1
                    return planned
                if not self._running:
                    return None
                self._changed.wait()
            return None

    def _finish(self, lost: tuple[T, Cause] | None = None) -> None:
        """One case less is running; one whose device is `lost` waits for another slot."""
        with self._changed:
            self._running -= 1
            if lost is not None:
                self._returned.appendleft(lost[0])
                self.lost = lost[1]
            self._changed.notify_all()


class ResultsInMemory:
    """Keeps the results of a run of which nothing is written; a listener from which they come back, as ResultFiles."""

    def __init__(self) -> None:
        self._results: dict[str, CaseResult] = {}

    def __call__(self, event: Event) -> None:
        """Keep the result of a case that has finished."""
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
        """The results of these cases, which all have one."""
        return tuple(self._results[case] for case in cases)


class ExplanationSizeLimit:
    """What explanations may take in the files of a run; what is over keeps its cause and loses what illustrates it."""

    def __init__(self, of_run: int = 50 << 20, of_case: int = 16 << 10) -> None:
        self._left, self._of_case = of_run, of_case

    def apply(self, result: CaseResult) -> CaseResult:
        """The result with as much of its explanations as there is room for."""
        explained = result.explained
        if not explained:
            return result
        for shorten in _SHORTER:
            if _size(explained) <= min(self._of_case, self._left):
                break
            explained = shorten(explained)
        self._left -= _size(explained)
        return replace(result, explained=explained)


Explanations = tuple[Explanation, ...]


def _size(explained: Explanations) -> int:
    return len(msgspec.json.encode(explained)) if explained else 0


# What goes first: samples, the map, laws and sets beside the best fit, further outputs. The causes of the result say
# what is wrong without any of it.
_SHORTER: Final[tuple[Callable[[Explanations], Explanations], ...]] = (
    lambda explained: tuple(replace(one, samples=()) for one in explained),
    lambda explained: tuple(replace(one, map=None) for one in explained),
    lambda explained: tuple(replace(one, fitted=(replace(one.best_fit, also=()),)) for one in explained),
    lambda explained: explained[:1],
    lambda _: (),
)


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
    backend: str,
    slots: Sequence[CaseRun],
    operators: Mapping[str, Operator],
    context: RunContext,
    options: Options,
    listeners: Sequence[Listener],
    store: "ResultFiles | ResultsInMemory | None" = None,
    scheduler: SchedulerProtocol[PlannedCase, PlannedCase | CaseResult | Event] | None = None,
) -> RunReport:
    """Run every planned case that has no result in the store yet, side by side in the slots or by the scheduler.

    Cases that are not reached are not_run, and an interrupt still gives a report.
    """
    scheduler = Scheduler(slots) if scheduler is None else scheduler
    store = ResultsInMemory() if store is None else store
    everybody: tuple[Listener, ...] = (store, *listeners)

    def tell(event: Event) -> None:
        for listener in everybody:
            listener(event)

    size_limit, explained = ExplanationSizeLimit(), set()
    for result in store:
        size_limit.apply(result)
        if result.explained:
            explained.add(result.operator)
    todo = [planned for planned in plan if planned.id not in store]
    started = datetime.datetime.now(datetime.UTC)
    begin = time.perf_counter()
    tell(RunStarted(backend, len(todo)))
    interrupted = False
    try:
        for news in scheduler.run(todo):
            event = _event_of(news, context, size_limit)
            if isinstance(event, CaseFinished) and event.result.explained:
                explained.add(event.result.operator)
            tell(event)
            if options.stop_at_first and isinstance(event, CaseFinished) and event.result.outcome.blocks:
                scheduler.stop()
    except KeyboardInterrupt:
        interrupted = True
        scheduler.stop()
    except BaseException:
        # A listener that can no longer keep results, say: nothing more is begun, and the callers' owner closes them.
        scheduler.stop()
        raise
    for planned in todo:
        if planned.id not in store:
            why = cause.Interrupted() if interrupted else scheduler.lost or cause.StoppedAtFailure()
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
        timing={part: sum(getattr(slot.times, part) for slot in slots) for part in ("backend", "compare") if slots},
        interrupted=interrupted or scheduler.interrupted,
        labels=context.labels,
        shapes=shapes_of(operators, explained),
    )
    tell(RunFinished(report))
    return report


def _event_of(news: PlannedCase | CaseResult | Event, context: RunContext, size_limit: ExplanationSizeLimit) -> Event:
    """What listeners hear of a case that begins, of its result, and of what else a scheduler tells."""
    if isinstance(news, PlannedCase):
        return CaseStarted(news.id)
    if isinstance(news, CaseResult):
        return CaseFinished(with_commands(size_limit.apply(news), context))
    return news


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
