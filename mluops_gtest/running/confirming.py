"""Failures that the history of their worker may have made: run again alone, then behind the case before."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from mluops_gtest.base.errors import HarnessError
from mluops_gtest.core.case import Case, CaseSource
from mluops_gtest.core.cause import OnlyAfter, PassedAtTry
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.running.caller import Caller, LostDeviceError
from mluops_gtest.running.case_run import Executor, attempt_of

if TYPE_CHECKING:
    from mluops_gtest.running.stress import StressedExecutor


# Of failures that are alike, the first are confirmed and then one in so many.
_FIRST: Final = 3
_ONE_IN: Final = 20
# What all confirmations may take: a share of the run's time so far, or so many seconds where that is less.
_SHARE: Final = 0.25
_SECONDS: Final = 60.0
UNCONFIRMED: Final = "not confirmed: it did not run again alone in a fresh worker"


class Confirming:
    """Runs failures again in fresh workers; all lanes of a run share it, and the time that it may take."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock, self._start = clock, clock()
        # Seconds of all confirmations, and by how much one took longer than its failure: a backend may load slowly.
        self._spent = self._extra = 0.0
        # The case with which each caller called its backend last.
        self._last: dict[Caller, str] = {}
        self._failures: Counter[tuple[Any, ...]] = Counter()
        self._lock = threading.Lock()

    def executed(
        self,
        executor: "Executor | StressedExecutor",
        case: Case,
        source: CaseSource,
        operators: Mapping[str, Operator],
    ) -> CaseResult:
        """The verdict on one case, confirmed where other cases ran in its worker before."""
        caller = executor.caller
        before = self._last.get(caller, "") if caller.has_run else ""
        begin = self._clock()
        first = executor.execute(case, operators.get(case.operator))
        if first.outcome.was_called:
            self._last[caller] = case.id
        if not before or not first.outcome.may_become_flaky or first.content_error or first.bug:
            return first
        now = self._clock()
        seconds = now - begin
        unconfirmed = replace(first, notes=(*first.notes, UNCONFIRMED))
        if not self.is_due(caller, first, seconds):
            return unconfirmed
        try:
            return _confirmed(executor, case, first, before, source, operators)
        except (LostDeviceError, HarnessError, OSError, MemoryError):
            # Of a lost device the next case tells.
            return unconfirmed
        finally:
            with self._lock:
                self._spent += self._clock() - now
                self._extra = max(self._extra, self._clock() - now - seconds)

    def is_due(self, lane: object, first: CaseResult, seconds: float) -> bool:
        """Whether a failure is one to confirm that took so many seconds in a lane."""
        timed_out = first.outcome is Outcome.TIMED_OUT
        kind = (None,) if timed_out else (lane, frozenset(map(type, first.causes)))
        with self._lock:
            self._failures[first.operator, *kind] += 1
            number = self._failures[first.operator, *kind]
            is_sample = number == 1 if timed_out else number <= _FIRST or (number - _FIRST) % _ONE_IN == 0
            needed = self._spent + seconds + self._extra
            return is_sample and needed <= max(_SECONDS, _SHARE * (self._clock() - self._start))


def _confirmed(
    executor: "Executor | StressedExecutor",
    case: Case,
    first: CaseResult,
    before: str,
    source: CaseSource,
    operators: Mapping[str, Operator],
) -> CaseResult:
    """The first verdict where the case fails alone as well; else what the case before has to do with it."""
    caller, operator = executor.caller, operators.get(case.operator)
    again = Executor(caller, replace(executor.options, reruns=0, stress=None, explain=False, arbitrate=None))
    again.times = executor.times
    _renew(caller)
    alone = again.execute(case, operator)
    if alone.outcome.blocks:
        return first
    _renew(caller)
    predecessor = source.load(before)
    again.execute(predecessor, operators.get(predecessor.operator))
    is_named = caller.was_changed
    behind = again.execute(case, operator)
    # What the case before leaves meets nobody else.
    _renew(caller)
    if behind.outcome.blocks and is_named:
        result = executor.execute(case, operator)
        note = f"{first.outcome.value} after {before}, which changed the state of its worker; this is its verdict alone"
        return replace(result, notes=(*result.notes, note))
    attempts = (*(first.attempts or (attempt_of(first),)), attempt_of(alone), attempt_of(behind))
    if behind.outcome.blocks:
        return replace(first, causes=(OnlyAfter(before), *first.causes), attempts=attempts)
    causes = (PassedAtTry(len(attempts) - 1, first.outcome), *first.causes)
    return replace(first, outcome=Outcome.FLAKY, causes=causes, attempts=attempts)


def _renew(caller: Caller) -> None:
    """The next call begins in a new worker."""
    with caller.turn(fresh=True):
        pass
