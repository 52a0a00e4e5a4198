"""One case on one backend: buffers made, call made, memory checked, values judged."""

import time
from dataclasses import dataclass, replace
from typing import Final

from mluops_gtest.engine.buffers import Side
from mluops_gtest.engine.caller import Caller, DisturbedError, LostDeviceError, undisturbed
from mluops_gtest.engine.describe import case_info
from mluops_gtest.engine.expectation import Expectation, expectation_of
from mluops_gtest.engine.failures import not_judged, traceback_of
from mluops_gtest.engine.fingerprint import fingerprinted
from mluops_gtest.engine.guarded_call import GuardedCall
from mluops_gtest.engine.judge import judge_untouched, judge_values, judged
from mluops_gtest.engine.outputs import CaseOutputs, OutputKeeper
from mluops_gtest.engine.perf import Samples, Sampling, measure
from mluops_gtest.engine.reply import Ending, Reply
from mluops_gtest.engine.reruns import run_with_retries
from mluops_gtest.errors import ContentError
from mluops_gtest.model import cause
from mluops_gtest.model.case import Case
from mluops_gtest.model.notes import cut_text
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.model.status import Status

# Of the backend's remarks, in a reason.
_MAX_REMARKS: Final = 4 << 10
# What happened in a call is the backend's to tell; what that means for the case is decided here and nowhere else.
_OUTCOME_OF: Final = {
    Ending.DECLINED: Outcome.SKIPPED,
    Ending.MEMORY: Outcome.MEMORY,
    Ending.CRASHED: Outcome.CRASHED,
    Ending.ERROR: Outcome.ERROR,
    Ending.TIMED_OUT: Outcome.TIMED_OUT,
}


@dataclass(frozen=True, slots=True)
class Options:
    """How each case is run."""

    repeat: int = 1
    bitwise: bool = False
    stop_at_first: bool = False
    # Seconds per case; None: by the size of the case.
    timeout: float | None = None
    # Further tries of a case that fails.
    reruns: int = 0
    # How cases that pass are timed; None: they are not.
    sampling: Sampling | None = None
    # Where inaccessible pages lie, one call after the other; None: guard zones on both sides.
    sides: tuple[Side | None, ...] = (None,)


@dataclass(slots=True)
class Times:
    """Seconds spent so far inside the backend and around it."""

    backend: float = 0.0
    compare: float = 0.0


class Executor:
    """Runs cases through one caller."""

    def __init__(self, caller: Caller, options: Options, keep: OutputKeeper | None = None) -> None:
        """`keep` sees the outputs of every call that answered and should have computed."""
        self.caller = caller
        self.options = options
        self._keep = keep
        self._supported: dict[str, bool] = {}
        self.times = Times()

    def execute(self, case: Case, operator: Operator | None) -> CaseResult:
        """The verdict on one case; never raises for what the case or the backend does."""
        return run_with_retries(lambda: fingerprinted(self._undisturbed(case, operator)), self.options.reruns)

    def _undisturbed(self, case: Case, operator: Operator | None) -> CaseResult:
        try:
            return undisturbed([self.caller], lambda: self._once(case, operator))
        except DisturbedError as error:
            return disturbed(case, error)

    def _once(self, case: Case, operator: Operator | None) -> CaseResult:
        result, timed = self.begin(case, operator)
        if timed is None or self.options.sampling is None:
            return result
        (samples,) = measure([timed.call], self.options.sampling)
        return timed.finish(samples)

    def begin(self, case: Case, operator: Operator | None) -> "tuple[CaseResult, TimedCase | None]":
        """The verdict on one case, and the case ready to be timed where it computes and passed."""
        blank = _blank(case)
        if operator is None:
            return replace(blank, causes=(cause.UnknownOperator(case.operator),)), None
        try:
            refusal = self._unsupported(operator.name)
            if refusal is not None:
                return replace(blank, outcome=refusal[0], causes=(refusal[1],)), None
            expectation = expectation_of(case, operator)
            blank = replace(blank, expected_status=expectation.answer.status)
            result = self._on_every_side(case, operator, expectation, blank)
            if result.outcome is not Outcome.PASSED or not expectation.answer.computes:
                return result, None
            return result, TimedCase(self, case, operator, expectation, result)
        except ContentError as error:
            return replace(
                blank, outcome=Outcome.ERROR, causes=(cause.ContentError(str(error)),), content_error=True
            ), None
        except (LostDeviceError, DisturbedError):
            raise
        except Exception as error:
            # Neither the case's nor the backend's: those are dealt with where they are asked.
            return not_judged(blank, error), None

    def _unsupported(self, operator: str) -> tuple[Outcome, cause.Cause] | None:
        """Why the backend does not run that operator; None where it does. Asked once per operator."""
        if operator not in self._supported:
            try:
                supported = self.caller.supports(operator)
            except (LostDeviceError, DisturbedError):
                raise
            except Exception as error:
                return Outcome.ERROR, cause.SupportsRaised(operator, type(error).__name__, str(error))
            self._supported[operator] = supported
        if self._supported[operator]:
            return None
        return Outcome.SKIPPED, cause.Unsupported(self.caller.name, operator)

    def _on_every_side(self, case: Case, operator: Operator, expectation: Expectation, blank: CaseResult) -> CaseResult:
        """Guarded on one side after the other; the first that does not pass decides, and tells its side."""
        results = []
        for side in self.options.sides:
            result = self._repeated(case, operator, expectation, blank, side)
            if result.outcome is not Outcome.PASSED:
                if side is None or not result.outcome.blocks:
                    return result
                return replace(result, notes=(*result.notes, f"with an inaccessible page {side.value} every buffer"))
            results.append(result)
        return results[0]

    def _repeated(
        self, case: Case, operator: Operator, expectation: Expectation, blank: CaseResult, side: Side | None
    ) -> CaseResult:
        """Run from fresh poison as often as asked; the first run that does not pass decides."""
        reproducible = self.options.repeat > 1 and not operator.order_free and expectation.answer.computes
        first: CaseResult | None = None
        before: dict[str, bytes] = {}
        for attempt in range(self.options.repeat):
            run = GuardedCall(case, operator, self.caller, side)
            reply = run.call(self.options.timeout)
            start = time.perf_counter()
            result = self.judge(run, reply, expectation, blank)
            if reproducible and result.outcome is Outcome.PASSED:
                now = run.snapshot(expectation)
                changed = [name for name in before if before[name] != now[name]]
                before = before or now
                if changed:
                    found = cause.NotReproducible(attempt + 1, tuple(changed))
                    result = replace(result, outcome=Outcome.FAILED, causes=(found,))
            self.times.backend += reply.seconds
            self.times.compare += time.perf_counter() - start
            self.kept(run, reply, expectation, result)
            if result.outcome is not Outcome.PASSED:
                return result
            first = first or result
        assert first is not None, "repeat is at least 1"
        return first

    def kept(self, run: GuardedCall, reply: Reply, expectation: Expectation, result: CaseResult) -> None:
        """Show the outputs to whoever keeps them, while they are there."""
        if self._keep is not None and reply.status is not None and expectation.answer.computes:
            self._keep(CaseOutputs(run.case, run.operator, expectation, result, run.outputs, reply.scalars))

    def judge(self, run: GuardedCall, reply: Reply, expectation: Expectation, blank: CaseResult) -> CaseResult:
        """What one call came to, by its reply and by what it left in the buffers."""
        left = (f"{what}; its worker was replaced" for what in reply.left)
        notes = (*blank.notes, *reply.notes, *left)
        compared = reply.ended not in (Ending.DECLINED, Ending.ERROR)
        result = replace(
            blank, status=reply.status, seconds=reply.seconds, notes=notes, output=reply.output, compared=compared
        )
        if reply.ended is not None:
            return replace(result, outcome=_OUTCOME_OF[reply.ended], causes=reply.causes)
        assert reply.status is not None, "a reply has a status or an ending"
        violations = run.violations()
        if violations:
            return replace(result, outcome=Outcome.MEMORY, causes=tuple(violations))
        wanted = expectation.answer
        if reply.status != wanted.status:
            message = run.operator.check(wanted.check).message if wanted.check else ""
            remarks = cut_text("; ".join(reply.notes), _MAX_REMARKS)
            wrong = cause.WrongStatus(reply.status.name, wanted.status.name, remarks, wanted.check or "", message)
            return replace(result, outcome=Outcome.WRONG_STATUS, causes=(wrong,))
        if wanted.status == Status.SUCCESS and reply.refusals:
            return replace(result, outcome=Outcome.WRONG_STATUS, causes=(cause.Refusals(reply.refusals),))
        if not wanted.computes:
            judgement = judge_untouched(run.case, run.operator, run.whole_outputs(), wanted)
            if wanted.status == Status.SUCCESS:
                judgement.compare_scalars(expectation.results, reply.scalars)
        else:
            judgement = judge_values(
                run.case, run.operator, expectation, run.outputs, reply.scalars, bitwise=self.options.bitwise
            )
        if expectation.recomputed:
            judgement.notes.append("baseline recomputed with the reference (device CPU)")
            if self.caller.is_reference:
                judgement.suspicions.append(cause.ComparedWithItself())
        return judged(result, judgement)


class TimedCase:
    """A case that passed, called again and again on the same buffers."""

    def __init__(
        self, executor: Executor, case: Case, operator: Operator, expectation: Expectation, passed: CaseResult
    ) -> None:
        self._executor, self._case, self._operator = executor, case, operator
        self._expectation, self._passed = expectation, passed
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
            self._passed, outcome=Outcome.SKIPPED, notes=self._case.notes, readings=(), worst=None, profile=None
        )
        result = fingerprinted(self._executor.judge(self._run, samples.last, self._expectation, blank))
        self._executor.kept(self._run, samples.last, self._expectation, result)
        if result.outcome is not Outcome.PASSED:
            return replace(result, causes=(cause.AfterTimedCalls(len(samples.interface_ns)), *result.causes))
        perf = replace(samples.perf(self._run.workspace_bytes), overhead_ns=self._overhead_ns)
        return replace(result, seconds=self._passed.seconds, perf=perf)

    def _called(self, timeout: float | None) -> Reply:
        self._calls += 1
        if self._run is None:
            self._run = GuardedCall(self._case, self._operator, self._executor.caller)
            return self._run.call(timeout)
        if self._calls == 2:
            # Warm by now, and long before the call whose outputs are judged.
            self._overhead_ns = self._run.overhead_ns(timeout)
        return self._run.again(timeout)


def _blank(case: Case) -> CaseResult:
    return CaseResult(case.id, case.operator, case.tags, Outcome.SKIPPED, notes=case.notes, info=case_info(case))


def disturbed(case: Case, error: DisturbedError) -> CaseResult:
    """The outcome of a case that was cut short whenever it ran, although it ran alone."""
    return replace(_blank(case), outcome=Outcome.CRASHED, causes=(error.cause,), compared=True)
