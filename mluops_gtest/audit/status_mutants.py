"""Wrong answers to faulty calls, made from the operator's ordered checks: each gets one of them wrong."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final

from mluops_gtest.audit.unwritable import never_written
from mluops_gtest.model.call import Crashed, OpCall
from mluops_gtest.model.operator import Check, Mutant, Operator
from mluops_gtest.model.status import Status
from mluops_gtest.value import Value

# What authors take for each other.
_MIXED_UP: Final = {Status.BAD_PARAM: Status.NOT_SUPPORTED}


class StatusMutant(Value):
    """A wrong implementation whose answers differ for calls that one of these checks refuses, and for no others."""

    mutant: Mutant
    checks: tuple[str, ...]
    # It shows only where the call has an output that can be written.
    writes: bool = False


def status_mutants(operator: Operator) -> Iterator[StatusMutant]:
    """Every check forgotten, with another status, writing before it refuses; neighbours of two statuses exchanged.

    Left out is what no call could show: checks that none reaches first, those that the operator says another answers
    anyway, or that are not told apart by their order, and those proved to answer no call with an output to write to.
    """
    reachable = [check for check in operator.checks if check.subsumed is None]
    for check in reachable:
        yield from _of_one(operator, check)
    for first, second in pairwise(reachable):
        if first.status != second.status and second.name not in operator.not_together.get(first.name, ()):
            yield _exchanged(operator, first, second)


def _of_one(operator: Operator, check: Check) -> Iterator[StatusMutant]:
    others = tuple(one for one in operator.checks if one is not check)
    if check.name not in operator.answered_anyway:
        yield _made(f"forgets_{check.name}", f"forgets the check {check.name}", _by(operator, others), check)
    status = _MIXED_UP.get(check.status, Status.BAD_PARAM)
    mixed_up = tuple(replace(one, status=status, writes=False) if one is check else one for one in operator.checks)
    yield _made(
        f"{status.name.lower()}_for_{check.name}",
        f"answers {status.name} instead of {check.status.name} where {check.name} does not hold",
        _by(operator, mixed_up),
        check,
    )
    if not check.writes and not never_written(operator, check):
        message = f"has written its outputs when {check.name} makes it return"
        writing = Mutant(f"writes_before_{check.name}", message, _writing(operator, check))
        yield StatusMutant(writing, (check.name,), writes=True)


def _exchanged(operator: Operator, first: Check, second: Check) -> StatusMutant:
    order = [check for check in operator.checks if check is not second]
    order.insert(order.index(first), second)
    return _made(
        f"{second.name}_before_{first.name}",
        f"asks {second.name} before {first.name}",
        _by(operator, tuple(order)),
        first,
        second,
    )


def _made(name: str, message: str, run: Callable[[OpCall], Status], *checks: Check) -> StatusMutant:
    return StatusMutant(Mutant(name, message, run), tuple(check.name for check in checks))


def _by(operator: Operator, checks: tuple[Check, ...]) -> Callable[[OpCall], Status]:
    """Answers by these checks; outputs of a call that they let pass are written, and hold nonsense."""
    wrong = replace(operator, checks=checks)

    def run(call: OpCall) -> Status:
        try:
            status = wrong.early_answer(call)
        except Exception as error:
            raise Crashed(f"looks at what another check should have refused: {error}") from error
        if status is None:
            _write(call)
            call.scalars.update(dict.fromkeys(operator.results, 0))
            return Status.SUCCESS
        return status

    return run


def _writing(operator: Operator, check: Check) -> Callable[[OpCall], Status]:
    def run(call: OpCall) -> Status:
        if operator.answer(call).check == check.name:
            _write(call)
        return operator.early_answer(call) or Status.SUCCESS

    return run


def _write(call: OpCall) -> None:
    """Neither poison nor what callers preset."""
    for arg in call.outputs.values():
        if arg is not None and arg.array is not None:
            arg.array[...] = 1
