"""Operators for Python programs: their references, and the backend that runs their own kernels."""

from collections.abc import Sequence
from functools import cache

from mluops_gtest.api.session import Session
from mluops_gtest.backends import numpy_backend
from mluops_gtest.content.operators import Operators
from mluops_gtest.content.root import BUILTIN
from mluops_gtest.errors import UsageError
from mluops_gtest.model.baselines import baseline_of
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.operator import Baseline


def reference(call: OpCall, *, roots: Sequence[str] = (BUILTIN,)) -> Baseline:
    """The right answer to a call that computes; UsageError where the operator would refuse it."""
    operator = operators_of(tuple(roots)).find(call.operator)
    answer = operator.answer(call)
    if not answer.computes:
        message = "" if answer.check is None else f" ({operator.check(answer.check).message})"
        raise UsageError(f"{call.operator} computes nothing for this call: it answers {answer.status.name}{message}.")
    broken = operator.broken(call)
    if broken is not None:
        raise UsageError(f"{call.operator} does not define this call: {broken}.")
    return baseline_of(operator, call)


class NumpyBackend(numpy_backend.NumpyBackend):
    """Runs every operator's own float32 kernel; a backend that has a few operators may hand it the others."""

    def __init__(self, *, roots: Sequence[str] = (BUILTIN,)) -> None:
        super().__init__(operators_of(tuple(roots)))


@cache
def operators_of(roots: tuple[str, ...]) -> Operators:
    """The operators of these roots, each loaded when first asked for."""
    return Session(roots).catalogue.operators
