"""For the tests of operators: a kernel's own checks, held against the ordered list on calls with anything wrong."""

from collections.abc import Iterable

from mluops_gtest.authoring import OpCall, Operator


def answering_checks(operator: Operator, calls: Iterable[OpCall]) -> set[str | None]:
    """The checks that answered; the kernel gives each call the list's status, and where it must not compute it writes
    nothing. A valid call whose buffers are missing, because they would be too large, is passed over."""
    answered = set()
    for number, call in enumerate(calls):
        answer = operator.answer(call)
        answered.add(answer.check)
        arguments = (*call.inputs.values(), *call.outputs.values())
        if answer.computes and any(argument is None or argument.array is None for argument in arguments):
            continue
        buffers = [arg.array for arg in call.outputs.values() if arg is not None and arg.array is not None]
        before = [buffer.tobytes() for buffer in buffers]
        assert operator.kernel(call) is answer.status, f"call {number}: the list says {answer}"
        if not answer.computes:
            assert [buffer.tobytes() for buffer in buffers] == before, f"call {number}: {answer}, but it wrote"
    return answered


def reachable(operator: Operator) -> set[str]:
    """The checks that some call can reach first."""
    return {check.name for check in operator.checks if check.subsumed is None}
