"""Cases that run again: with changing numbers of threads, alone in a fresh worker, and to see whether they leak.

`--stress` repeats each case with changing numbers of threads: races show as results that vary. A failure that the
history of its worker may have made is confirmed: the case runs alone in a fresh worker, then behind the case before. A
call whose worker has grown is made again and again in a fresh one.
"""

import hashlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from mluops_gtest.base.errors import HarnessError
from mluops_gtest.base.frozen import Value
from mluops_gtest.core.cause import Leak, OnlyAfter, PassedAtTry, UnderStress, format_reason
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import Attempt, CaseResult, StressReading, ThreadsReading
from mluops_gtest.judging.fingerprint import fingerprint, with_fingerprint
from mluops_gtest.results.saved_outputs import CaseOutputs
from mluops_gtest.running.caller import Caller, CallInterruptedError, LostDeviceError
from mluops_gtest.running.guarded_call import GuardedCall, Task
from mluops_gtest.running.options import Stress, thread_counts

if TYPE_CHECKING:
    from mluops_gtest.running.case_run import CaseRun


class Repetition(Value):
    """One run of a case; `bits` is a digest of its outputs, None where none came back."""

    threads: int
    result: CaseResult
    bits: bytes | None


class StressRun:
    """Attempts every case until its share of the time is over, with another number of threads each time."""

    def __init__(
        self,
        case_run: "CaseRun",
        stress: Stress,
        counts: Sequence[int] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._case_run, self._stress, self._clock = case_run, stress, clock
        self._caller, self._counts = case_run.caller, tuple(counts or thread_counts())
        self._save, case_run.save_outputs = case_run.save_outputs, self._remember_bits
        self._bits: bytes | None = None

    def run(self, task: Task) -> CaseResult:
        """The verdict on all repetitions of one case."""
        end = self._clock() + self._stress.seconds
        repetitions: list[Repetition] = []
        for threads in itertools.cycle(self._counts):
            self._case_run.caller = self._caller.with_threads(threads)
            self._bits = None
            result = self._case_run.attempt(task)
            repetitions.append(Repetition(threads, result, self._bits))
            if _is_final(result) or self._is_enough(repetitions, end):
                break
        return combine_repetitions(repetitions)

    def _remember_bits(self, outputs: CaseOutputs) -> None:
        """Look at the outputs while they are in their buffers, and hand them on."""
        digest = hashlib.blake2b(digest_size=16)
        for pair in outputs.pairs():
            digest.update(pair.got.tobytes())
        digest.update(repr(sorted(outputs.scalars.items())).encode())
        self._bits = digest.digest()
        if self._save is not None:
            self._save(outputs)

    def _is_enough(self, repetitions: Sequence[Repetition], end: float) -> bool:
        if self._stress.times is not None:
            return len(repetitions) >= self._stress.times
        if len(repetitions) < len(self._counts):
            return False
        # What fails the same way with every number of threads is no race, and needs no further proof.
        always = {one.result.fingerprint for one in repetitions}
        return (len(always) == 1 and "" not in always) or self._clock() >= end


def _is_final(result: CaseResult) -> bool:
    """No repetition would say anything else: nobody was asked, or the case itself is the problem."""
    return not result.outcome.was_called or result.content_error or result.bug


def combine_repetitions(repetitions: Sequence[Repetition]) -> CaseResult:
    """The result of all repetitions: that of the first failure, flaky where others pass; else of the first one."""
    first = repetitions[0].result
    if _is_final(first):
        return first
    failed = [one for one in repetitions if one.result.outcome.blocks]
    reading = _stress_reading(repetitions, failed)
    if not failed:
        notes = (*first.notes, _describe_varying_bits(reading)) if reading.differing else first.notes
        return replace(first, stress=reading, notes=notes)
    result, threads = failed[0].result, failed[0].threads
    causes = (UnderStress(len(failed), len(repetitions), threads, result.outcome), *result.causes)
    if len(failed) == len(repetitions):
        return replace(result, stress=reading, causes=causes)
    # Where a race strikes varies from run to run; which outputs it strikes does not.
    outputs = sorted({getattr(cause, "output", "") for cause in result.causes})
    mark = fingerprint((Outcome.FLAKY.value, "under stress", result.outcome.value, *outputs))
    return replace(result, outcome=Outcome.FLAKY, stress=reading, causes=causes, fingerprint=mark)


def _stress_reading(repetitions: Sequence[Repetition], failed: Sequence[Repetition]) -> StressReading:
    first_bits = next((one.bits for one in repetitions if one.bits is not None), None)
    rows = []
    for threads in sorted({one.threads for one in repetitions}):
        these = [one for one in repetitions if one.threads == threads]
        differing = sum(one.bits not in (None, first_bits) for one in these)
        rows.append(ThreadsReading(threads, len(these), sum(one.threads == threads for one in failed), differing))
    return StressReading(tuple(rows), failed[0].threads if failed else None)


def _describe_varying_bits(reading: StressReading) -> str:
    rows = ", ".join(f"{row.differing} with {row.threads}" for row in reading.by_threads if row.differing)
    return (
        f"{reading.differing} of {reading.repetitions} repetitions left other bits than the first, and all of them "
        f"pass: the order of operations varies ({rows} threads)"
    )


# Of failures that are alike, the first are confirmed and then one in so many.
_FIRST: Final = 3
_ONE_IN: Final = 20
# What all confirmations may take: a share of the run's time so far, or so many seconds where that is less.
_SHARE: Final = 0.25
_SECONDS: Final = 60.0
UNCONFIRMED: Final = "not confirmed: it did not run again alone in a fresh worker"


class Confirmation:
    """Runs failures again in fresh workers; all slots of a run share it, and the time that it may take."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock, self._start = clock, clock()
        # Seconds of all confirmations, and by how much one took longer than its failure: a backend may load slowly.
        self._spent = self._extra = 0.0
        self._failures: Counter[tuple[Any, ...]] = Counter()
        self._lock = threading.Lock()

    def confirm(self, case_run: "CaseRun", task: Task, first: CaseResult, before: str, start: float) -> CaseResult:
        """The verdict on a case that ran from `start` until now behind the case `before`, confirmed where it is due."""
        if not first.outcome.may_become_flaky or first.content_error or first.bug:
            return first
        now = self.clock()
        seconds = now - start
        unconfirmed = replace(first, notes=(*first.notes, UNCONFIRMED))
        if not self.is_due(case_run, first, seconds):
            return unconfirmed
        try:
            return _run_in_fresh_workers(case_run, task, first, before)
        except (LostDeviceError, HarnessError, OSError, MemoryError):
            # Of a lost device the next case tells.
            return unconfirmed
        finally:
            with self._lock:
                self._spent += self.clock() - now
                self._extra = max(self._extra, self.clock() - now - seconds)

    def is_due(self, slot: object, first: CaseResult, seconds: float) -> bool:
        """Whether a failure is one to confirm that took so many seconds in a slot."""
        timed_out = first.outcome is Outcome.TIMED_OUT
        kind = (None,) if timed_out else (slot, frozenset(map(type, first.causes)))
        with self._lock:
            self._failures[first.operator, *kind] += 1
            number = self._failures[first.operator, *kind]
            is_sample = number == 1 if timed_out else number <= _FIRST or (number - _FIRST) % _ONE_IN == 0
            needed = self._spent + seconds + self._extra
            return is_sample and needed <= max(_SECONDS, _SHARE * (self.clock() - self._start))


def _run_in_fresh_workers(case_run: "CaseRun", task: Task, first: CaseResult, before: str) -> CaseResult:
    """The first verdict where the case fails alone as well; else what the case before has to do with it."""
    caller, case, operator = case_run.caller, task.case, task.operator
    plain = case_run.without_extras()
    _replace_worker(caller)
    alone = plain.run_case(case, operator)
    if alone.outcome.blocks:
        return first
    _replace_worker(caller)
    assert case_run.source is not None, "the case before came from somewhere"
    predecessor = case_run.source.load(before)
    plain.run_case(predecessor, case_run.operators.get(predecessor.operator))
    is_named = caller.was_changed
    behind = plain.run_case(case, operator)
    # What the case before leaves meets nobody else.
    _replace_worker(caller)
    if behind.outcome.blocks and is_named:
        result = case_run.with_retries(task)
        note = f"{first.outcome.value} after {before}, which changed the state of its worker; this is its verdict alone"
        return replace(result, notes=(*result.notes, note))
    tries = first.attempts or (Attempt(first.outcome, first.causes),)
    tries = (*tries, Attempt(alone.outcome, alone.causes), Attempt(behind.outcome, behind.causes))
    if behind.outcome.blocks:
        return replace(first, causes=(OnlyAfter(before), *first.causes), attempts=tries)
    causes = (PassedAtTry(len(tries) - 1, first.outcome), *first.causes)
    return replace(first, outcome=Outcome.FLAKY, causes=causes, attempts=tries)


def _replace_worker(caller: Caller) -> None:
    """Let the next call begin in a new worker."""
    with caller.exclusive_access(fresh=True):
        pass


# By how much a worker grows before anybody looks: less is what allocators, thread pools and small caches take.
LEAK_BYTES: Final = 64 << 20
_CALLS: Final = 8
# The first calls fill caches; of the growth from each of the others to the next, none may be further off the mean.
_WARMUP: Final = 2
_SPREAD: Final = 0.2
# malloc asks the system for no less, so that smaller leaks do not show call by call.
_LEAST: Final = 128 << 10


def calls_to_show(leak: Leak) -> int:
    """How many calls one after the other make a worker grow so much that it is looked at."""
    return LEAK_BYTES // max(leak.bytes, _LEAST) + 2


class LeakWatch:
    """Looks at each operator once, when a worker has grown; all slots of a run share it."""

    def __init__(self) -> None:
        self._watchers: dict[str, object] = {}

    def check(self, case_run: "CaseRun", task: Task, result: CaseResult) -> CaseResult:
        """The result, with a note or a failure where the call of its case leaks."""
        case_run.caller.mark_memory()
        watcher = object()
        if self._watchers.setdefault(task.operator.name, watcher) is not watcher:
            return result
        leak = _measure_leak(case_run, task)
        case_run.caller.mark_memory()
        if leak is None:
            return result
        if not case_run.options.fail_on_leak:
            return replace(result, leak=leak, notes=(*result.notes, format_reason((leak,))))
        outcome = Outcome.MEMORY if result.outcome is Outcome.PASSED else result.outcome
        return with_fingerprint(replace(result, outcome=outcome, leak=leak, causes=(*result.causes, leak)))


def _measure_leak(case_run: "CaseRun", task: Task) -> Leak | None:
    """What the call keeps each time in a fresh worker; None where it does not grow by the same again and again."""
    caller, options = case_run.caller, case_run.options
    sizes: list[int] = []
    try:
        with caller.exclusive_access(fresh=True):
            for _ in range(_CALLS):
                if GuardedCall(task, caller, options.sides[0]).run(options.timeout).status is None:
                    return None
                sizes.append(caller.growth)
    except CallInterruptedError:
        return None
    steps = [after - before for before, after in pairwise(sizes[_WARMUP - 1 :])]
    mean = fmean(steps)
    is_linear = mean >= _LEAST and all(abs(step - mean) <= _SPREAD * mean for step in steps)
    return Leak(round(mean), _CALLS) if is_linear else None
