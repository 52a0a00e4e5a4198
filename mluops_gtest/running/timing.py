"""Cases that passed, called again and again for their times until the medians are known well enough.

`run --perf` times each case behind its attempt; a bench judges each case on all its backends, then samples
them in turn.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.base.errors import BackendError
from mluops_gtest.base.frozen import Value
from mluops_gtest.core import cause
from mluops_gtest.core.call import Status
from mluops_gtest.core.case import Case, CaseSource
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult, Perf
from mluops_gtest.judging.fingerprint import with_fingerprint
from mluops_gtest.judging.verdict import not_loaded, traceback_of
from mluops_gtest.results.statistics import TimedPair
from mluops_gtest.running.caller import CallInterruptedError, Ending, LostDeviceError, Reply
from mluops_gtest.running.case_run import CaseRun, draft_result, errors_become_result, retry_if_interrupted
from mluops_gtest.running.guarded_call import GuardedCall, Task

_LINE_BYTES: Final = 64
_FALLBACK_BYTES: Final = 64 << 20
# Touching more would take longer than most kernels; the largest server caches are then not emptied whole.
_MAX_BYTES: Final = 512 << 20
_UNITS: Final = {"K": 10, "M": 20, "G": 30}


class CacheSweeper:
    """Twice the last-level cache of this machine, one word of each line written at a time."""

    def __init__(self, folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> None:
        size = min(2 * last_level_bytes(folder), _MAX_BYTES)
        self._lines = np.zeros(size // 8, np.uint64)[:: _LINE_BYTES // 8]

    def sweep(self) -> None:
        """Put something else into the caches."""
        self._lines += np.uint64(1)


def last_level_bytes(folder: Path) -> int:
    """The largest cache that the system names; a usual size where it names none."""
    sizes = [_bytes(path) for path in sorted(folder.glob("index*/size"))]
    return max(sizes, default=0) or _FALLBACK_BYTES


def _bytes(path: Path) -> int:
    try:
        text = path.read_text(encoding="ascii").strip()
        shift = _UNITS.get(text[-1:], 0)
        return int(text.rstrip("".join(_UNITS))) << shift
    except (OSError, ValueError):
        return 0


# Half of the interval of the median, as a share of it, at which `auto` is content.
TIGHT: Final = 0.01
# What `auto` spends at most on a case and backend, warm-up not counted.
BUDGET_SECONDS: Final = 2.0
MAX_SAMPLES: Final = 1000
# Looking after every sample would stop at the first lucky moment.
_FIRST_LOOK: Final = 10
_NEXT_LOOK: Final = 1.25


class Sampling(Value):
    """How a case is timed; `samples` None: as many as it takes."""

    warmup: int = 3
    samples: int | None = None
    cold_cache: bool = False


@dataclass(slots=True)
class Samples:
    """The times of one backend on one case; `last` is the reply whose outputs are in the buffers."""

    call: Callable[[], Reply]
    interface_ns: list[int] = field(default_factory=list)
    device_ns: list[int] = field(default_factory=list)
    last: Reply | None = None

    def take(self, *, keep: bool) -> bool:
        """Call once; False where the call did not succeed, which ends the measurement."""
        self.last = self.call()
        if self.last.status is not Status.SUCCESS:
            return False
        if keep:
            self.interface_ns.append(round(self.last.seconds * 1e9))
            if self.last.device_seconds is not None:
                self.device_ns.append(round(self.last.device_seconds * 1e9))
        return True

    @property
    def tight(self) -> bool:
        """The median of the time that counts is known well enough."""
        from mluops_gtest.results.times import timing_stats

        return timing_stats(self._device_ns() or self.interface_ns).half_width <= TIGHT

    def perf(self, workspace_bytes: int) -> Perf:
        """What the result keeps."""
        return Perf(tuple(self.interface_ns), tuple(self._device_ns()), workspace_bytes)

    def _device_ns(self) -> list[int]:
        """Device times, where every call had one."""
        return self.device_ns if len(self.device_ns) == len(self.interface_ns) else []


def measure(
    calls: Sequence[Callable[[], Reply]],
    sampling: Sampling,
    clock: Callable[[], float] = time.perf_counter,
    sweep: Callable[[], None] | None = None,
) -> list[Samples]:
    """Warm up, then sample all calls in turn, the order reversed each round, so that none always follows the other.

    `sweep` empties the caches before each sample where cold ones are asked for. The first call that does not succeed
    ends the measurement of all.
    """
    from mluops_gtest.results.statistics import MIN_SAMPLES

    measured = [Samples(call) for call in calls]
    if sampling.cold_cache and sweep is None:
        sweep = CacheSweeper().sweep
    for _ in range(sampling.warmup):
        if not all(samples.take(keep=False) for samples in measured):
            return measured
    end = clock() + BUDGET_SECONDS * len(calls)
    rounds, look = 0, _FIRST_LOOK
    order = list(measured)
    while rounds != sampling.samples:
        for samples in order:
            if sampling.cold_cache and sweep is not None:
                sweep()
            if not samples.take(keep=True):
                return measured
        order.reverse()
        rounds += 1
        # Fewer would not be compared by the gate; a slow kernel gets these although its budget ends.
        if sampling.samples is not None or rounds < MIN_SAMPLES:
            continue
        if rounds >= MAX_SAMPLES or clock() >= end:
            break
        if rounds >= look:
            if all(samples.tight for samples in measured):
                break
            look = math.ceil(rounds * _NEXT_LOOK)
    return measured


class TimedCase:
    """A case that passed, called again and again on buffers that are made once; the verdict on the last call stands."""

    def __init__(self, case_run: CaseRun, task: Task, passed: CaseResult) -> None:
        self._case_run, self._task, self._passed = case_run, task, passed
        self._call: GuardedCall | None = None
        self._overhead_ns: int | None = None
        self._calls = 0

    def call(self) -> Reply:
        """One call from fresh poison; inputs and workspace are as the last call left them."""
        timeout = self._case_run.options.timeout
        self._calls += 1
        try:
            if self._call is None:
                self._call = GuardedCall(self._task, self._case_run.caller)
                reply = self._call.run(timeout)
            else:
                if self._calls == 2:
                    # Warm by now, and long before the call whose outputs are judged.
                    self._overhead_ns = self._call.overhead_ns(timeout)
                reply = self._call.run_again(timeout)
        except (LostDeviceError, CallInterruptedError):
            raise
        except Exception as error:
            raised = cause.Raised(type(error).__name__, str(error))
            return Reply(ended=Ending.ERROR, causes=(raised,), notes=(traceback_of(error),))
        self._case_run.times.backend += reply.seconds
        return reply

    def finish(self, samples: Samples) -> CaseResult:
        """The verdict on what the last call left, with the times where it is good."""
        if self._call is None or samples.last is None:
            return self._passed
        draft = replace(
            self._passed, outcome=Outcome.SKIPPED, notes=self._task.case.notes, readings=(), worst=None, profile=None
        )
        result = with_fingerprint(self._case_run.judge(replace(self._task, draft=draft), self._call, samples.last))
        if result.outcome is not Outcome.PASSED:
            return replace(result, causes=(cause.AfterTimedCalls(len(samples.interface_ns)), *result.causes))
        perf = replace(samples.perf(self._call.workspace_bytes), overhead_ns=self._overhead_ns)
        return replace(result, seconds=self._passed.seconds, perf=perf)


def attempt_and_time(case_run: CaseRun, sampling: Sampling, task: Task) -> CaseResult:
    """`--perf`: the verdict on the case, with its times where it computes and passed."""
    result = case_run.attempt(task)
    if result.outcome is not Outcome.PASSED or not task.expectation.answer.computes:
        return result
    with errors_become_result(task.draft) as pending:
        (pending.result,) = _time_side_by_side([(case_run, task, result)], sampling)
    return pending.result


def _time_side_by_side(
    passed: Sequence[tuple[CaseRun, Task, CaseResult]], sampling: Sampling
) -> tuple[CaseResult, ...]:
    """The verdicts after sampling each of these in turn."""
    for access in retry_if_interrupted(*(case_run.caller for case_run, _, _ in passed)):
        with access:
            cases = [TimedCase(*one) for one in passed]
            measured = measure([case.call for case in cases], sampling)
            return tuple(case.finish(samples) for case, samples in zip(cases, measured, strict=True))
    raise AssertionError("the last access returns or raises")


def bench_cases(
    ids: Sequence[str],
    source: CaseSource,
    operators: Mapping[str, Operator],
    case_runs: Sequence[CaseRun],
    sampling: Sampling,
) -> Iterator[TimedPair]:
    """Every case on both backends."""
    for case_id in ids:
        try:
            case = source.load(case_id)
        except Exception as error:
            yield TimedPair((not_loaded(CaseResult(case_id, "", (), Outcome.ERROR), error),) * len(case_runs))
            continue
        yield TimedPair(bench_case(case_runs, case, operators.get(case.operator), sampling))


def bench_case(
    case_runs: Sequence[CaseRun], case: Case, operator: Operator | None, sampling: Sampling
) -> tuple[CaseResult, ...]:
    """A result per backend; they have times only where every one of them computes and passes."""
    results: list[CaseResult] = []
    passed: list[tuple[CaseRun, Task, CaseResult]] = []
    try:
        for case_run in case_runs:
            draft = draft_result(case)
            with errors_become_result(draft) as pending:
                task = case_run.prepare(case, operator, draft)
                pending.result = case_run.attempt(task)
                if pending.result.outcome is Outcome.PASSED and task.expectation.answer.computes:
                    passed.append((case_run, task, pending.result))
            results.append(pending.result)
        if len(passed) == len(case_runs):
            with errors_become_result(draft_result(case)) as pending:
                return _time_side_by_side(passed, sampling)
            return (pending.result,) * len(case_runs)
    except LostDeviceError as error:
        raise BackendError(str(error)) from error
    return tuple(results)
