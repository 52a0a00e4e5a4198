"""One case on one backend, from the stored file to a result: loaded, prepared, called, judged, tried again.

`--stress` (repetition.py), `--perf` (timing.py) and saving outputs (results/saved_outputs.py) stand beside this: they
call `attempt`, or are called by it.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError, UndefinedCallError
from mluops_gtest.base.frozen import Value
from mluops_gtest.core import cause
from mluops_gtest.core.buffers import BoundSource, Side, computed_bounds
from mluops_gtest.core.call import ElementsSource
from mluops_gtest.core.case import Case, CaseSource
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import Attempt, CaseInfo, CaseResult
from mluops_gtest.judging.elementwise import ElementwiseCheck, Expectation, expectation_of
from mluops_gtest.judging.fingerprint import fingerprint, with_fingerprint
from mluops_gtest.judging.verdict import not_judged, not_loaded
from mluops_gtest.results.saved_outputs import CaseOutputs, OutputListener
from mluops_gtest.running.caller import Caller, CallInterruptedError, LostDeviceError, Reply
from mluops_gtest.running.guarded_call import GuardedCall, Task, judge
from mluops_gtest.running.repetition import LEAK_BYTES, Confirmation, LeakWatch, StressRun

if TYPE_CHECKING:
    from mluops_gtest.running.options import Stress
    from mluops_gtest.running.timing import Sampling

# How often a case is called again that something from outside cuts short.
_MAX_INTERRUPTIONS: Final = 3


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


class PlannedCase(Value):
    """A case to run, known before it is loaded."""

    id: str
    operator: str
    tags: tuple[str, ...]


class NotCalledError(Exception):
    """The case is not called; `result` says why."""

    def __init__(self, result: CaseResult) -> None:
        super().__init__(result.case)
        self.result = result


class CaseRun:
    """Runs cases through one caller; it raises for nothing that a case or a backend does, but for a lost device."""

    def __init__(
        self,
        caller: Caller,
        options: Options,
        save_outputs: OutputListener | None = None,
        source: CaseSource | None = None,
        operators: Mapping[str, Operator] | None = None,
        confirmation: Confirmation | None = None,
        leaks: LeakWatch | None = None,
    ) -> None:
        """`save_outputs` sees the outputs of every call that answered and should have computed.

        Only `run` needs what follows: where cases come from, and what the runs on all workers share.
        """
        self.caller, self.options = caller, options
        self.save_outputs = save_outputs
        self.source, self.operators = source, operators or {}
        self._confirmation, self._leaks = confirmation or Confirmation(), leaks or LeakWatch()
        self._supported: dict[str, bool] = {}
        # The case with which the backend was called last.
        self._last_case = ""
        self.times = Times()
        # What one try of a case is.
        self._try: Callable[[Task], CaseResult] = self.attempt
        if options.stress is not None:
            self._try = StressRun(self, options.stress).run
        elif options.sampling is not None:
            from mluops_gtest.running.timing import attempt_and_time  # late, as all that times

            self._try = partial(attempt_and_time, self, options.sampling)

    def run(self, planned: PlannedCase) -> CaseResult:
        """The verdict on a planned case; LostDeviceError where its backend can no longer be called."""
        assert self.source is not None, "planned cases come from somewhere"
        try:
            case = self.source.load(planned.id)
        except Exception as error:
            return not_loaded(CaseResult(planned.id, planned.operator, planned.tags, Outcome.ERROR), error)
        draft = draft_result(case)
        with errors_become_result(draft) as pending:  # content errors, shortages, our own bugs
            before = self._last_case if self.caller.has_run else ""  # what it left may meet this case
            start = self._confirmation.clock()
            task = self.prepare(case, self.operators.get(case.operator), draft)
            pending.result = self.with_retries(task)
            if pending.result.outcome is not Outcome.SKIPPED:
                self._last_case = case.id
            if before and pending.result.outcome is not Outcome.PASSED:  # alone in a fresh worker, then behind `before`
                pending.result = self._confirmation.confirm(self, task, pending.result, before, start)
            if self.caller.growth > LEAK_BYTES:  # again and again in a fresh worker
                pending.result = self._leaks.check(self, task, pending.result)
        return pending.result

    def run_case(self, case: Case, operator: Operator | None) -> CaseResult:
        """The verdict on a case that is loaded already; no other case is held against it."""
        draft = draft_result(case)
        with errors_become_result(draft) as pending:
            pending.result = self.with_retries(self.prepare(case, operator, draft))
        return pending.result

    def without_extras(self) -> "CaseRun":
        """The same backend and times for a verdict alone: one try, nothing explained or saved."""
        options = replace(self.options, reruns=0, stress=None, sampling=None, explain=False, arbitrate=None)
        plain = CaseRun(self.caller, options)
        plain.times = self.times
        return plain

    def prepare(self, case: Case, operator: Operator | None, draft: CaseResult) -> Task:
        """What is needed to call the case and to judge it; NotCalledError where it is not called."""
        options = self.options
        if operator is None:
            raise NotCalledError(replace(draft, causes=(cause.UnknownOperator(case.operator),)))
        self._require_support(operator.name, draft)
        try:
            expectation = options.expect(case, operator)
        except UndefinedCallError as error:
            # In a declared case it is a mistake of the declaration.
            if options.strict or case.declared:
                raise
            raise NotCalledError(replace(draft, causes=(cause.UndefinedCall(operator.name, error.why),))) from error
        info = replace(draft.info, own_criteria=_outputs_with_own_criteria(case, operator))
        draft = replace(draft, expected_status=expectation.answer.status, info=info)
        check = None
        if operator.bound is not None:
            precision, decides = self.caller.precision, options.elementwise is True
            check = ElementwiseCheck(
                case, operator, precision, decides=decides, alone=options.bounds_alone, bounds=options.bounds
            )
        # Late: an operator of which nothing is in dispute need not say what its elements are.
        elements = None if options.arbitrate is None else partial(options.arbitrate, operator.name)
        return Task(
            case, operator, expectation, draft, None if options.elementwise is False else check, elements, check
        )

    def _require_support(self, operator: str, draft: CaseResult) -> None:
        """Refuse an operator that the backend does not have; it is asked once per operator."""
        if operator not in self._supported:
            try:
                for access in retry_if_interrupted(self.caller):
                    with access:
                        self._supported[operator] = self.caller.supports(operator)
                        break
            except (LostDeviceError, CallInterruptedError):
                raise
            except Exception as error:
                raised = cause.SupportsRaised(operator, type(error).__name__, str(error))
                raise NotCalledError(replace(draft, outcome=Outcome.ERROR, causes=(raised,))) from error
        if not self._supported[operator]:
            raise NotCalledError(replace(draft, causes=(cause.Unsupported(self.caller.name, operator),)))

    def with_retries(self, task: Task) -> CaseResult:
        """The verdict after at most --reruns further tries of a failure; it shows the first and lists all.

        A case that fails and passes is flaky: no retry ever makes it pass.
        """
        first = self._try(task)
        if self.options.reruns == 0 or not first.outcome.may_become_flaky or first.content_error:
            return first
        tries = [Attempt(first.outcome, first.causes)]
        while len(tries) <= self.options.reruns and tries[-1].outcome is not Outcome.PASSED:
            again = self._try(task)
            tries.append(Attempt(again.outcome, again.causes))
        result = replace(first, attempts=tuple(tries))
        if tries[-1].outcome is not Outcome.PASSED:
            return result
        causes = (cause.PassedAtTry(len(tries), first.outcome), *first.causes)
        mark = fingerprint((Outcome.FLAKY.value, first.fingerprint))
        return replace(result, outcome=Outcome.FLAKY, causes=causes, fingerprint=mark)

    def attempt(self, task: Task) -> CaseResult:
        """One try: called from fresh buffers on every guarded side, --repeat times; the first failure decides."""
        options, results, first_outputs = self.options, list[CaseResult](), dict[str, bytes]()
        with errors_become_result(task.draft) as pending:
            for access in retry_if_interrupted(self.caller):  # in a fresh worker, should its own be lost to others
                with access:
                    results.clear()
                    for side, number in product(options.sides, range(options.repeat)):
                        call = GuardedCall(task, self.caller, side)  # buffers filled, guarded, poisoned
                        reply = call.run(options.timeout)  # float state and process state are put back behind it
                        self.times.backend += reply.seconds
                        result = self.judge(task, call, reply)  # memory, status, values; outputs still being written
                        if options.repeat > 1 and not task.operator.order_free and task.expectation.answer.computes:
                            first_outputs = call.snapshot() if number == 0 else first_outputs
                            result = _hold_to_first(result, number, call, first_outputs)
                        if result.outcome is not Outcome.PASSED:
                            return with_fingerprint(_with_side(result, side))
                        results.append(result)
                    return results[0]
        return pending.result

    def judge(self, task: Task, call: GuardedCall, reply: Reply) -> CaseResult:
        """The verdict on a call; `--save-outputs` copies the outputs before their buffers are reused."""
        start = time.perf_counter()
        result = self._judge_at_rest(task, call, reply) if reply.busy else self._judge_twice_if_wrong(task, call, reply)
        if result.outcome is Outcome.MEMORY:
            # Nobody knows what else of its process it has written to: no later case shall meet that.
            self.caller.settle(give_up=True)
        self.times.compare += time.perf_counter() - start
        if self.save_outputs is not None and reply.status is not None and task.expectation.answer.computes:
            self.save_outputs(
                CaseOutputs(task.case, task.operator, task.expectation, result, call.outputs, reply.scalars)
            )
        return result

    def _judge_once(self, task: Task, call: GuardedCall, reply: Reply, *, explain: bool) -> CaseResult:
        # Nobody arbitrates where only the readings are compared.
        task = task if explain == self.options.explain else replace(task, elements=None)
        return judge(
            task, call, reply, bitwise=self.options.bitwise, is_reference=self.caller.is_reference, explain=explain
        )

    def _judge_at_rest(self, task: Task, call: GuardedCall, reply: Reply) -> CaseResult:
        """The verdict while the worker is stopped; then it goes on, and outputs that change are the call's fault."""
        with self.caller.stopped():
            result = self._judge_once(task, call, reply, explain=self.options.explain)
            before = {name: array.tobytes() for name, array in call.outputs.items()}
        effects = tuple(f"{what}; its worker was replaced" for what in self.caller.settle())
        result = replace(result, notes=(*result.notes, *effects))
        changed = next((name for name, array in call.outputs.items() if array.tobytes() != before[name]), None)
        return result if changed is None else self._still_written(result, changed)

    def _judge_twice_if_wrong(self, task: Task, call: GuardedCall, reply: Reply) -> CaseResult:
        """The verdict; outputs that fail are read once more, and those that differ by then were not finished."""
        try:
            result = self._judge_once(task, call, reply, explain=self.options.explain)
        except MemoryError:
            raise
        except Exception:
            # Numbers that change while they are looked at make any computation fail; a mistake of ours fails again.
            return self._still_written(self._judge_at_rest(task, call, reply), next(iter(call.outputs), ""))
        if result.outcome is not Outcome.FAILED or not result.readings:
            return result
        readings = self._judge_once(task, call, reply, explain=False).readings
        again = {(one.output, one.criterion): repr(one.value) for one in readings}
        for one in result.readings:
            if again.get((one.output, one.criterion), repr(one.value)) != repr(one.value):
                return self._still_written(result, one.output)
        return result

    def _still_written(self, result: CaseResult, output: str) -> CaseResult:
        """Figures and explanations of such outputs are those of one moment."""
        self.caller.settle(give_up=True)
        causes = (cause.StillWritten(output),)
        return with_fingerprint(replace(result, outcome=Outcome.FAILED, causes=causes, explained=(), worst=None))


@dataclass(slots=True)
class PendingResult:
    """The result of a case as far as it is known."""

    result: CaseResult


@contextlib.contextmanager
def errors_become_result(draft: CaseResult) -> Iterator[PendingResult]:
    """Let a broken case, a lost worker or a bug of ours be the result of the case, so that the run goes on."""
    pending = PendingResult(draft)
    try:
        yield pending
    except LostDeviceError:
        raise
    except NotCalledError as error:
        pending.result = with_fingerprint(error.result)
    except CallInterruptedError as error:
        # Whenever it ran, although it ran alone. Fingerprints do not count what was expected of such a case.
        crashed = {"outcome": Outcome.CRASHED, "expected_status": None, "compared": True}
        pending.result = with_fingerprint(replace(draft, causes=(error.cause,), **crashed))
    except ContentError as error:
        broken = replace(draft, outcome=Outcome.ERROR, causes=(cause.ContentError(str(error)),), content_error=True)
        pending.result = with_fingerprint(broken)
    except Exception as error:
        # Neither the case's nor the backend's: those are dealt with where they are asked.
        pending.result = with_fingerprint(not_judged(draft, error))


def retry_if_interrupted(*callers: Caller) -> Iterator[contextlib.AbstractContextManager[None]]:
    """Exclusive accesses to the callers until one is not cut short from outside; the third raises what cuts it short.

    After the first of them no other case runs beside it: what interrupts it then is its own doing.
    """
    for number in range(1, _MAX_INTERRUPTIONS + 1):
        yield _exclusive_access(callers, alone=number > 1, is_last=number == _MAX_INTERRUPTIONS)


@contextlib.contextmanager
def _exclusive_access(callers: tuple[Caller, ...], *, alone: bool, is_last: bool) -> Iterator[None]:
    try:
        with contextlib.ExitStack() as stack:
            for caller in callers:
                stack.enter_context(caller.exclusive_access(alone=alone))
            yield
    except CallInterruptedError:
        if is_last:
            raise


def draft_result(case: Case) -> CaseResult:
    """What is known of the result before the case is called."""
    return CaseResult(case.id, case.operator, case.tags, Outcome.SKIPPED, notes=case.notes, info=CaseInfo.of(case))


def _outputs_with_own_criteria(case: Case, operator: Operator) -> tuple[str, ...]:
    """The float outputs for which the case names other criteria than the operator's."""
    return tuple(
        tensor.id
        for tensor, criteria in zip(case.outputs, case.criteria, strict=True)
        if criteria
        and not tensor.desc.dtype.is_integer
        and criteria != operator.usual_criteria(tensor.id, tensor.desc.dtype, case.facts)
    )


def _hold_to_first(result: CaseResult, number: int, call: GuardedCall, first: Mapping[str, bytes]) -> CaseResult:
    """The result, failed where outputs differ from those of the first call, bit for bit."""
    if result.outcome is not Outcome.PASSED or number == 0:
        return result
    now = call.snapshot()
    changed = tuple(name for name in first if first[name] != now[name])
    if not changed:
        return result
    return replace(result, outcome=Outcome.FAILED, causes=(cause.NotReproducible(number + 1, changed),))


def _with_side(result: CaseResult, side: Side | None) -> CaseResult:
    """The result with the side on which its buffers were guarded by pages."""
    if side is None or not result.outcome.blocks:
        return result
    return replace(result, notes=(*result.notes, f"with an inaccessible page {side.value} every buffer"))
