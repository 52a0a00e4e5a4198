"""Every reduction of every operator, down to the smallest call that it can make."""

from pathlib import Path

import pytest

from mluops_gtest.catalog.operators import load_operators
from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.call import Status
from mluops_gtest.core.case import Query
from mluops_gtest.core.cause import ScalarWrong
from mluops_gtest.core.operator_parts import REDUCTIONS
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.search.minimise import minimised

OPERATORS = load_operators(Path(__file__).parents[2])
MAX_ELEMENTS = 600
SHAPES = 2
# More than any search needs: only the end of what can be taken away ends it.
CALLS = 4000


def always_fails(case):
    """As of a backend that fails for one cause, whatever it is called with."""
    causes = (ScalarWrong("count", "1", 2),)
    return CaseResult(
        case.id, case.operator, case.tags, Outcome.FAILED, status=Status.SUCCESS, causes=causes, compared=True
    )


def small_cases(session, operator):
    """Stored cases that compute, the first of each set of shapes."""
    found = {}
    chosen = session.select(Query(operators=(operator.name,), tags=("boundary", "random"))).cases
    source = session.source(chosen)
    for one in chosen:
        if len(found) == SHAPES:
            break
        if session.catalogue.stored_path(one.id).exists():
            case = source.load(one.id)
            if case.elements <= MAX_ELEMENTS and operator.computes(case.expect.status, case.expect.check):
                found.setdefault(tuple(tensor.desc.dims for tensor in case.tensors), case)
    return list(found.values())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", OPERATORS)
def test_each_reduction_ends_at_a_call_that_computes(catalogue, name):
    session = Session()
    session.catalogue = catalogue
    operator, reductions = catalogue.operators[name], catalogue.operators.part(name, REDUCTIONS)
    cases = small_cases(session, operator)
    assert cases
    for case in cases:
        for quantity, reduction in reductions.items():
            found = minimised(case, operator, {quantity: reduction}, always_fails, CALLS)
            assert found.finished, f"{case.id}: {quantity}"
        assert minimised(case, operator, reductions, always_fails, CALLS).finished, case.id
