"""What an operator's code says of a call that nobody declared; where it fails its author is told."""

from collections.abc import Callable
from typing import TypeVar

from mluops_gtest.errors import HarnessError, OperatorError
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.source_place import raised_by, source_of

T = TypeVar("T")


def asked(operator: Operator, function: object, ask: Callable[[OpCall], T], call: OpCall, which: str) -> T:
    """What `ask` gives for the call, `which` in words; `function` is where the operator's code is."""
    try:
        return ask(call)
    except HarnessError:
        raise
    except Exception as error:
        raise OperatorError(
            f"{source_of(function)}: {operator.name} fails on {which}: {raised_by(error, function)}. "
            "Checks answer every call, in their order; the precondition and the reference every call that they let "
            "pass."
        ) from error
