"""Workers that grow: whether a call leaks is found out by making it again and again in a fresh worker."""

from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from mluops_gtest.engine.caller import DisturbedError
from mluops_gtest.engine.fingerprint import fingerprinted
from mluops_gtest.engine.guarded_call import GuardedCall
from mluops_gtest.model.case import Case
from mluops_gtest.model.cause import Leak
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.reasons import reason_of
from mluops_gtest.model.result import CaseResult, Outcome

if TYPE_CHECKING:
    from mluops_gtest.engine.execute import Executor
    from mluops_gtest.engine.stressed_cases import StressedExecutor

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
            return replace(result, leak=leak, notes=(*result.notes, reason_of((leak,))))
        outcome = Outcome.MEMORY if result.outcome is Outcome.PASSED else result.outcome
        return fingerprinted(replace(result, outcome=outcome, leak=leak, causes=(*result.causes, leak)))


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
