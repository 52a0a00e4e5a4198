"""Cases again and again with changing numbers of threads: races show as results that vary.

Workers that grow: whether a call leaks is found out by making it again and again in a fresh worker.
"""

import hashlib
import itertools
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Final

from msgspec.structs import replace

from mluops_gtest.base.frozen import Value
from mluops_gtest.core.case import Case
from mluops_gtest.core.cause import Leak, UnderStress, format_reason
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult, StressReading, ThreadsReading
from mluops_gtest.judging.fingerprint import fingerprint, with_fingerprint
from mluops_gtest.running.caller import DisturbedError, ThreadsCaller
from mluops_gtest.running.case_run import Executor, Options
from mluops_gtest.running.guarded_call import GuardedCall
from mluops_gtest.running.options import Stress, thread_counts
from mluops_gtest.running.outputs import CaseOutputs, OutputKeeper


class OutputBits:
    """Remembers a digest of what the last call left, and hands its outputs on."""

    def __init__(self, keep: OutputKeeper | None = None) -> None:
        self._keep = keep
        self.last: bytes | None = None

    def __call__(self, outputs: CaseOutputs) -> None:
        """Look at the outputs while they are in their buffers."""
        digest = hashlib.blake2b(digest_size=16)
        for pair in outputs.pairs():
            digest.update(pair.got.tobytes())
        digest.update(repr(sorted(outputs.scalars.items())).encode())
        self.last = digest.digest()
        if self._keep is not None:
            self._keep(outputs)


class Repetition(Value):
    """One run of a case; `bits` is None where no outputs came back."""

    threads: int
    result: CaseResult
    bits: bytes | None


class StressedExecutor:
    """Runs every case until its share of the time is over, with another number of threads each time."""

    def __init__(
        self,
        caller: ThreadsCaller,
        options: Options,
        stress: Stress,
        keep: OutputKeeper | None = None,
        counts: Sequence[int] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._bits = OutputBits(keep)
        self.caller, self.options = caller, options
        self._executor = Executor(caller, options, self._bits)
        self._stress, self._clock = stress, clock
        self._counts = tuple(counts or thread_counts())
        self.times = self._executor.times

    def execute(self, case: Case, operator: Operator | None) -> CaseResult:
        """The verdict on all repetitions of one case."""
        end = self._clock() + self._stress.seconds
        done: list[Repetition] = []
        for threads in itertools.cycle(self._counts):
            self.caller.use_threads(threads)
            self._bits.last = None
            result = self._executor.execute(case, operator)
            done.append(Repetition(threads, result, self._bits.last))
            if _is_settled(result) or self._is_enough(done, end):
                break
        return told(done)

    def _is_enough(self, done: Sequence[Repetition], end: float) -> bool:
        if self._stress.times is not None:
            return len(done) >= self._stress.times
        if len(done) < len(self._counts):
            return False
        # What fails the same way with every number of threads is no race, and needs no further proof.
        always = {one.result.fingerprint for one in done}
        return (len(always) == 1 and "" not in always) or self._clock() >= end


def _is_settled(result: CaseResult) -> bool:
    """No repetition would say anything else: nobody was asked, or the case itself is the problem."""
    return not result.outcome.was_called or result.content_error or result.bug


def told(done: Sequence[Repetition]) -> CaseResult:
    """The result of all repetitions: that of the first failure, flaky where others pass; else of the first one."""
    first = done[0].result
    if _is_settled(first):
        return first
    reading = _reading(done)
    failed = [one for one in done if one.result.outcome.blocks]
    if not failed:
        notes = (*first.notes, _varying(reading)) if reading.differing else first.notes
        return replace(first, stress=reading, notes=notes)
    result, threads = failed[0].result, failed[0].threads
    causes = (UnderStress(len(failed), len(done), threads, result.outcome), *result.causes)
    if len(failed) == len(done):
        return replace(result, stress=reading, causes=causes)
    # Where a race strikes varies from run to run; which outputs it strikes does not.
    outputs = sorted({getattr(cause, "output", "") for cause in result.causes})
    mark = fingerprint((Outcome.FLAKY.value, "under stress", result.outcome.value, *outputs))
    return replace(result, outcome=Outcome.FLAKY, stress=reading, causes=causes, fingerprint=mark)


def _reading(done: Sequence[Repetition]) -> StressReading:
    bits = [one.bits for one in done if one.bits is not None]
    rows = []
    for threads in sorted({one.threads for one in done}):
        these = [one for one in done if one.threads == threads]
        failed = sum(one.result.outcome.blocks for one in these)
        differing = sum(one.bits is not None and one.bits != bits[0] for one in these)
        rows.append(ThreadsReading(threads, len(these), failed, differing))
    first = next((one.threads for one in done if one.result.outcome.blocks), None)
    return StressReading(tuple(rows), first)


def _varying(reading: StressReading) -> str:
    rows = ", ".join(f"{row.differing} with {row.threads}" for row in reading.by_threads if row.differing)
    return (
        f"{reading.differing} of {reading.repetitions} repetitions left other bits than the first, and all of them "
        f"pass: the order of operations varies ({rows} threads)"
    )


# Less is what allocators, thread pools and small caches take.
GROWTH: Final = 64 << 20
_CALLS: Final = 8
# The first calls fill caches; of the growth from each of the others to the next, none may be further off the mean.
_WARMUP: Final = 2
_SPREAD: Final = 0.2
# malloc asks the system for no less, so that smaller leaks do not show call by call.
_LEAST: Final = 128 << 10


def calls_to_show(leak: Leak) -> int:
    """How many calls one after the other make a worker grow so much that it is looked at."""
    return GROWTH // max(leak.bytes, _LEAST) + 2


class LeakWatch:
    """Looks at each operator once, when a worker has grown; all lanes of a run share it."""

    def __init__(self) -> None:
        self._watchers: dict[str, object] = {}

    def checked(
        self, executor: "Executor | StressedExecutor", case: Case, operator: Operator | None, result: CaseResult
    ) -> CaseResult:
        """The result, with a note or a failure where the call of its case leaks."""
        caller = executor.caller
        if operator is None or caller.growth <= GROWTH:
            return result
        caller.mark_memory()
        watcher = object()
        if self._watchers.setdefault(operator.name, watcher) is not watcher:
            return result
        leak = _leak(executor, case, operator)
        caller.mark_memory()
        if leak is None:
            return result
        if not executor.options.fail_on_leak:
            return replace(result, leak=leak, notes=(*result.notes, format_reason((leak,))))
        outcome = Outcome.MEMORY if result.outcome is Outcome.PASSED else result.outcome
        return with_fingerprint(replace(result, outcome=outcome, leak=leak, causes=(*result.causes, leak)))


def _leak(executor: "Executor | StressedExecutor", case: Case, operator: Operator) -> Leak | None:
    """What the call keeps each time in a fresh worker; None where it does not grow by the same again and again."""
    caller, options = executor.caller, executor.options
    expectation = options.expect(case, operator)
    sizes: list[int] = []
    try:
        with caller.turn(fresh=True):
            for _ in range(_CALLS):
                call = GuardedCall(case, operator, expectation, caller, options.sides[0])
                if call.call(options.timeout).status is None:
                    return None
                sizes.append(caller.growth)
    except DisturbedError:
        return None
    steps = [after - before for before, after in pairwise(sizes[_WARMUP - 1 :])]
    mean = fmean(steps)
    is_linear = mean >= _LEAST and all(abs(step - mean) <= _SPREAD * mean for step in steps)
    return Leak(round(mean), _CALLS) if is_linear else None
