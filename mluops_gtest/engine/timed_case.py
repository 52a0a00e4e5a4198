"""A case that passed, called again and again on the same buffers for its times."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mluops_gtest.engine.caller import DisturbedError, LostDeviceError
from mluops_gtest.engine.failures import traceback_of
from mluops_gtest.engine.fingerprint import fingerprinted
from mluops_gtest.engine.guarded_call import GuardedCall
from mluops_gtest.engine.perf import Samples
from mluops_gtest.engine.reply import Ending, Reply
from mluops_gtest.engine.verdict import Task
from mluops_gtest.model import cause
from mluops_gtest.model.result import CaseResult, Outcome

if TYPE_CHECKING:
    from mluops_gtest.engine.execute import Executor


class TimedCase:
    """Calls on buffers that are made once; the verdict on the last of them stands."""

    def __init__(self, executor: "Executor", task: Task, passed: CaseResult) -> None:
        self._executor, self._task, self._passed = executor, task, passed
        self._run: GuardedCall | None = None
        self._overhead_ns: int | None = None
        self._calls = 0

    def call(self) -> Reply:
        """One call from fresh poison; inputs and workspace are as the last call left them."""
        try:
            reply = self._called(self._executor.options.timeout)
        except (LostDeviceError, DisturbedError):
            raise
        except Exception as error:
            raised = cause.Raised(type(error).__name__, str(error))
            return Reply(ended=Ending.ERROR, causes=(raised,), notes=(traceback_of(error),))
        self._executor.times.backend += reply.seconds
        return reply

    def finish(self, samples: Samples) -> CaseResult:
        """The verdict on what the last call left, with the times where it is good."""
        if self._run is None or samples.last is None:
            return self._passed
        blank = replace(
            self._passed, outcome=Outcome.SKIPPED, notes=self._task.case.notes, readings=(), worst=None, profile=None
        )
        result = fingerprinted(self._executor.judged(replace(self._task, blank=blank), self._run, samples.last))
        if result.outcome is not Outcome.PASSED:
            return replace(result, causes=(cause.AfterTimedCalls(len(samples.interface_ns)), *result.causes))
        perf = replace(samples.perf(self._run.workspace_bytes), overhead_ns=self._overhead_ns)
        return replace(result, seconds=self._passed.seconds, perf=perf)

    def _called(self, timeout: float | None) -> Reply:
        self._calls += 1
        if self._run is None:
            self._run = GuardedCall(self._task.case, self._task.operator, self._task.expectation, self._executor.caller)
            return self._run.call(timeout)
        if self._calls == 2:
            # Warm by now, and long before the call whose outputs are judged.
            self._overhead_ns = self._run.overhead_ns(timeout)
        return self._run.again(timeout)
