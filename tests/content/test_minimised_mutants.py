"""Failures become small: shipped wrong implementations, from a declared case to the smallest that shows the mistake."""

import pytest

from mluops_gtest.backends.numpy_backend import NumpyBackend
from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.buffers import bind_values
from mluops_gtest.core.operator_parts import REDUCTIONS
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.search.minimise import FailureCause
from studies.minimise_mutants import CHOSEN, Wrong, case_of, minimised_on, mutant_of

PAIRS = [(operator, name) for operator, cases in CHOSEN.items() for name in cases]


@pytest.fixture(scope="module")
def session(catalogue):
    session = Session()
    session.catalogue = catalogue
    return session


def test_there_are_enough(operators):
    assert len(PAIRS) >= 20
    assert set(CHOSEN) == set(operators)


def test_every_operator_says_what_can_be_taken_away(operators):
    for name in operators:
        assert operators.part(name, REDUCTIONS), name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("operator", "name"), PAIRS)
def test_a_mistake_becomes_small(session, operator, name):
    known = session.catalogue.operators[operator]
    case = case_of(session, f"{operator}/{CHOSEN[operator][name]}")
    caller = InlineCaller(Wrong(mutant_of(session, operator, name), known))
    executor = CaseRun(caller, Options(explain=False))
    first = executor.run_case(case, known)
    found = minimised_on(session, caller, case)
    before, after = found.elements
    assert after <= before / 10
    assert found.calls <= 300
    assert found.finished
    # Asked again, it fails for the same cause, it is defined, and the right kernel passes it.
    assert FailureCause.of(first).is_also_of(executor.run_case(found.case, known))
    assert known.broken(bind_values(found.case, known)) is None
    right = CaseRun(InlineCaller(NumpyBackend(session.catalogue.operators)), Options()).run_case(found.case, known)
    assert right.outcome is Outcome.PASSED, right.reason
