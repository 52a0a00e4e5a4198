"""Failures tried again: a case that fails and passes is flaky, and no retry ever makes it pass.

One case called more than once: guarded on either side, and from fresh poison again and again.

Calls that return before they have finished: what still writes is stopped, and failing outputs are read twice.

Cases on one backend: each is prepared, called and judged; repeating, timing and retrying wrap that from outside.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError, UndefinedCallError
from mluops_gtest.base.frozen import Value
from mluops_gtest.core import cause
from mluops_gtest.core.binding import BoundSource, computed_bounds
from mluops_gtest.core.buffers import Side
from mluops_gtest.core.call import ElementsSource
from mluops_gtest.core.case import Case
from mluops_gtest.core.cause import PassedAtTry, StillWritten
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import Attempt, CaseResult
from mluops_gtest.judging.elementwise_check import Expectation, SecondLook, expectation_of
from mluops_gtest.judging.fingerprint import fingerprint, with_fingerprint
from mluops_gtest.judging.verdict import not_judged
from mluops_gtest.running.caller import Caller, DisturbedError, LostDeviceError, Reply, undisturbed
from mluops_gtest.running.guarded_call import GuardedCall, Task, verdict
from mluops_gtest.running.outputs import CaseOutputs, OutputKeeper, case_info, outputs_with_own_criteria

if TYPE_CHECKING:
    from mluops_gtest.running.options import Stress
    from mluops_gtest.running.timing import Sampling, TimedCase


def run_with_retries(execute: Callable[[], CaseResult], reruns: int) -> CaseResult:
    """The verdict after at most `reruns` further tries of a failure; it shows the first failure and lists all tries."""
    first = execute()
    if reruns == 0 or not first.outcome.may_become_flaky or first.content_error:
        return first
    attempts = [attempt_of(first)]
    while len(attempts) <= reruns and attempts[-1].outcome is not Outcome.PASSED:
        attempts.append(attempt_of(execute()))
    result = replace(first, attempts=tuple(attempts))
    if attempts[-1].outcome is not Outcome.PASSED:
        return result
    causes = (PassedAtTry(len(attempts), first.outcome), *first.causes)
    mark = fingerprint((Outcome.FLAKY.value, first.fingerprint))
    return replace(result, outcome=Outcome.FLAKY, causes=causes, fingerprint=mark)


def attempt_of(result: CaseResult) -> Attempt:
    """What a result keeps of one of its tries."""
    return Attempt(result.outcome, result.causes)


# The owned bytes of each output of a call.
Snapshot = Callable[[], dict[str, bytes]]


def on_every_side(sides: Sequence[Side | None], run_on: Callable[[Side | None], CaseResult]) -> CaseResult:
    """Guarded on one side after the other; the first that does not pass decides, and tells its side."""
    results = []
    for side in sides:
        result = run_on(side)
        if result.outcome is not Outcome.PASSED:
            if side is None or not result.outcome.blocks:
                return result
            return replace(result, notes=(*result.notes, f"with an inaccessible page {side.value} every buffer"))
        results.append(result)
    return results[0]


class Reproducibility:
    """Holds the outputs of repeated calls against those of the first, bit for bit."""

    def __init__(self) -> None:
        self._first: dict[str, bytes] = {}
        self._calls = 0

    def held(self, result: CaseResult, outputs: Snapshot) -> CaseResult:
        """The result, failed where its outputs differ from those of the first call."""
        self._calls += 1
        if result.outcome is not Outcome.PASSED:
            return result
        now = outputs()
        changed = tuple(name for name in self._first if self._first[name] != now[name])
        self._first = self._first or now
        if not changed:
            return result
        return replace(result, outcome=Outcome.FAILED, causes=(cause.NotReproducible(self._calls, changed),))


# The verdict on what the outputs hold now; with an explanation or without.
Judge = Callable[[bool], CaseResult]


def judged_at_rest(caller: Caller, run: GuardedCall, judge: Judge, *, explain: bool) -> CaseResult:
    """The verdict while the worker is stopped; then it goes on, and outputs that change are the call's fault."""
    with caller.stopped():
        result = judge(explain)
        before = {name: array.tobytes() for name, array in run.outputs.items()}
    left = caller.settle()
    if left:
        result = replace(result, notes=(*result.notes, *(f"{what}; its worker was replaced" for what in left)))
    for name, array in run.outputs.items():
        if array.tobytes() != before[name]:
            return _still_written(caller, result, name)
    return result


def judged_twice_where_wrong(caller: Caller, run: GuardedCall, judge: Judge, *, explain: bool) -> CaseResult:
    """The verdict; outputs that fail are read once more, and those that differ by then were not finished."""
    try:
        result = judge(explain)
    except MemoryError:
        raise
    except Exception:
        # Numbers that change while they are looked at make any computation fail; a mistake of ours fails again.
        result = judged_at_rest(caller, run, judge, explain=explain)
        return _still_written(caller, result, next(iter(run.outputs), ""))
    if result.outcome is not Outcome.FAILED or not result.readings:
        return result
    again = {(one.output, one.criterion): repr(one.value) for one in judge(False).readings}
    for one in result.readings:
        if again.get((one.output, one.criterion), repr(one.value)) != repr(one.value):
            return _still_written(caller, result, one.output)
    return result


def _still_written(caller: Caller, result: CaseResult, output: str) -> CaseResult:
    """Figures and explanations of such outputs are those of one moment."""
    caller.settle(give_up=True)
    failed = replace(result, outcome=Outcome.FAILED, causes=(StillWritten(output),), explained=(), worst=None)
    return with_fingerprint(failed)


T = TypeVar("T")


class Options(Value):
    """How each case is run."""

    repeat: int = 1
    bitwise: bool = False
    # Elements beyond what arithmetic allows: True fails the case, None reports them, False does not check.
    elementwise: bool | None = None
    # Where elements have bounds these alone decide: data that are not conditioned may leave the criteria.
    bounds_alone: bool = False
    # Where the right answer to a case comes from: who asks for one again and again may keep it.
    expect: Callable[[Case, Operator], Expectation] = expectation_of
    # Where the bounds of a case come from.
    bounds: BoundSource = computed_bounds
    # A file whose call the operator does not define is an error; else it is skipped.
    strict: bool = True
    # Find out where and how wrong outputs are wrong; the verdict does not need it.
    explain: bool = True
    # Operator → what its elements are exactly, to recompute those in dispute; None: nobody asks.
    arbitrate: ElementsSource | None = None
    stop_at_first: bool = False
    # Seconds per case; None: by the size of the case.
    timeout: float | None = None
    # A call that leaks fails its case; else it is a note.
    fail_on_leak: bool = False
    # Further tries of a case that fails.
    reruns: int = 0
    # How long each case is repeated with changing numbers of threads; None: it is not.
    stress: "Stress | None" = None
    # How cases that pass are timed; None: they are not.
    sampling: "Sampling | None" = None
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
        return run_with_retries(lambda: with_fingerprint(self._undisturbed(case, operator)), self.options.reruns)

    def _undisturbed(self, case: Case, operator: Operator | None) -> CaseResult:
        try:
            return undisturbed([self.caller], lambda: self._timed(case, operator))
        except DisturbedError as error:
            return disturbed(case, error)

    def _timed(self, case: Case, operator: Operator | None) -> CaseResult:
        if self.options.sampling is None:
            return self._first(case, operator)[0]
        from mluops_gtest.running.timing import measure  # late, as all that times

        result, timed = self.begin(case, operator)
        if timed is None:
            return result
        (samples,) = measure([timed.call], self.options.sampling)
        return timed.finish(samples)

    def begin(self, case: Case, operator: Operator | None) -> "tuple[CaseResult, TimedCase | None]":
        """The verdict on one case, and the case ready to be timed where it computes and passed."""
        from mluops_gtest.running.timing import TimedCase

        result, task = self._first(case, operator)
        return result, None if task is None else TimedCase(self, task, result)

    def _first(self, case: Case, operator: Operator | None) -> tuple[CaseResult, Task | None]:
        """The verdict on one case, and the task where it computes and passed."""
        blank = _blank(case)
        task = _told(blank, lambda: self._prepared(case, operator, blank))
        if isinstance(task, CaseResult):
            return task, None
        result = _told(task.blank, lambda: on_every_side(self.options.sides, lambda side: self._repeated(task, side)))
        if result.outcome is not Outcome.PASSED or not task.expectation.answer.computes:
            return result, None
        return result, task

    def _prepared(self, case: Case, operator: Operator | None, blank: CaseResult) -> Task | CaseResult:
        """The case ready to be called, or the result of one that will not be."""
        if operator is None:
            return replace(blank, causes=(cause.UnknownOperator(case.operator),))
        refusal = self._unsupported(operator.name)
        if refusal is not None:
            return replace(blank, outcome=refusal[0], causes=(refusal[1],))
        try:
            expectation = self.options.expect(case, operator)
        except UndefinedCallError as error:
            # In a declared case it is a mistake of the declaration.
            if self.options.strict or case.declared:
                raise
            return replace(blank, causes=(cause.UndefinedCall(operator.name, error.why),))
        expected = replace(blank, expected_status=expectation.answer.status)
        if own := outputs_with_own_criteria(case, operator):
            expected = replace(expected, info=replace(expected.info, own_criteria=own))
        allowed = self._second_look(case, operator)
        look = None if self.options.elementwise is False else allowed
        arbitrate = self.options.arbitrate
        if arbitrate is None:
            return Task(case, operator, expectation, expected, look)
        # Late: an operator of which nothing is in dispute need not say what its elements are.
        return Task(case, operator, expectation, expected, look, partial(arbitrate, operator.name), allowed)

    def _second_look(self, case: Case, operator: Operator) -> SecondLook | None:
        if operator.bound is None:
            return None
        decides, alone = self.options.elementwise is True, self.options.bounds_alone
        return SecondLook(
            case, operator, self.caller.precision, decides=decides, alone=alone, bounds=self.options.bounds
        )

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

    def _repeated(self, task: Task, side: Side | None) -> CaseResult:
        """Called from fresh poison as often as asked; the first call that does not pass decides."""
        comparable = self.options.repeat > 1 and not task.operator.order_free and task.expectation.answer.computes
        reproducibility = Reproducibility() if comparable else None
        results = []
        for _ in range(self.options.repeat):
            result = self._once(task, side, reproducibility)
            if result.outcome is not Outcome.PASSED:
                return result
            results.append(result)
        return results[0]

    def _once(self, task: Task, side: Side | None, reproducibility: Reproducibility | None) -> CaseResult:
        """One case: fill the buffers, call, check the memory, judge."""
        run = GuardedCall(task.case, task.operator, task.expectation, self.caller, side)
        reply = run.call(self.options.timeout)
        self.times.backend += reply.seconds
        return self.judged(task, run, reply, reproducibility)

    def judged(
        self, task: Task, run: GuardedCall, reply: Reply, reproducibility: Reproducibility | None = None
    ) -> CaseResult:
        """The verdict on a call; `--save-outputs` copies the outputs before their buffers are reused."""
        start = time.perf_counter()
        options = self.options

        def judge(explain: bool) -> CaseResult:
            # Nobody arbitrates where only the readings are compared.
            asked = task if explain == options.explain else replace(task, elements=None)
            bitwise, is_reference = options.bitwise, self.caller.is_reference
            return verdict(asked, run, reply, bitwise=bitwise, is_reference=is_reference, explain=explain)

        look = judged_at_rest if reply.busy else judged_twice_where_wrong
        result = look(self.caller, run, judge, explain=options.explain)
        if result.outcome is Outcome.MEMORY:
            # Who knows what else of its process it has written to: no later case shall meet that.
            self.caller.settle(give_up=True)
        if reproducibility is not None:
            result = reproducibility.held(result, run.snapshot)
        self.times.compare += time.perf_counter() - start
        if self._keep is not None and reply.status is not None and task.expectation.answer.computes:
            self._keep(CaseOutputs(task.case, task.operator, task.expectation, result, run.outputs, reply.scalars))
        return result


def _told(blank: CaseResult, make: Callable[[], T]) -> T | CaseResult:
    """What `make` gives; a broken case or a bug of ours is the result of the case, and the run goes on."""
    try:
        return make()
    except ContentError as error:
        return replace(blank, outcome=Outcome.ERROR, causes=(cause.ContentError(str(error)),), content_error=True)
    except (LostDeviceError, DisturbedError):
        raise
    except Exception as error:
        # Neither the case's nor the backend's: those are dealt with where they are asked.
        return not_judged(blank, error)


def _blank(case: Case) -> CaseResult:
    return CaseResult(case.id, case.operator, case.tags, Outcome.SKIPPED, notes=case.notes, info=case_info(case))


def disturbed(case: Case, error: DisturbedError) -> CaseResult:
    """The outcome of a case that was cut short whenever it ran, although it ran alone."""
    return replace(_blank(case), outcome=Outcome.CRASHED, causes=(error.cause,), compared=True)
