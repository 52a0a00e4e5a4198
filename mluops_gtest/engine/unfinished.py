"""Calls that return before they have finished: what still writes is stopped, and failing outputs are read twice."""

from collections.abc import Callable

from msgspec.structs import replace

from mluops_gtest.engine.caller import Caller
from mluops_gtest.engine.fingerprint import fingerprinted
from mluops_gtest.engine.guarded_call import GuardedCall
from mluops_gtest.model.cause import StillWritten
from mluops_gtest.model.result import CaseResult, Outcome

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
    return fingerprinted(failed)
