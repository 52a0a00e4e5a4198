"""What fuzzing draws for each operator: the kernels answer as the references say, and no call contradicts a proof."""

from pathlib import Path

import numpy as np
import pytest

from mluops_gtest.catalog.operators import load_operators
from mluops_gtest.core.operator_parts import SPACE
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.search.audit_declarations import Implementation
from mluops_gtest.search.draws import Draws
from mluops_gtest.search.mutants import can_be_written
from mluops_gtest.search.symbolic_call import never_written

OPERATORS = load_operators(Path(__file__).parents[2])
# CI draws other calls than the benchmarks.
SEED, CASES = 1, 200


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_drawn_calls_are_answered_by_the_kernel_as_by_the_reference_and_contradict_no_proof(name):
    """Both in one test: to draw takes most of its time."""
    operator, space = OPERATORS[name], OPERATORS.part(name, SPACE)
    assert space is not None, "every operator can be fuzzed"
    draws = Draws(operator, space, SEED)
    options = Options(elementwise=True, bounds_alone=True)
    executor = CaseRun(InlineCaller(Implementation(name, operator.kernel)), options)
    computed = 0
    with np.errstate(all="ignore"):
        drawn = [one for one in map(draws.draw, range(CASES)) if one is not None]
        for one in drawn:
            result = executor.run_case(one.case, operator)
            computed += operator.computes(one.case.expect.status, one.case.expect.check)
            assert result.outcome is Outcome.PASSED, f"{one.case.id} {one.faults}: {result.reason}"
    assert len(drawn) > 0.9 * CASES, "few draws are passed over"
    assert computed > 0.4 * CASES, "most calls compute"
    assert len({one.case.expect.check for one in drawn}) > 20, "and the others reach many checks"
    unwritable = {check.name for check in operator.checks if check.subsumed is None and never_written(operator, check)}
    refused = [one.case for one in drawn if one.case.expect.check in unwritable]
    assert not any(map(can_be_written, refused)), "proved: no call that these checks answer has an output to write to"
    assert refused or not unwritable, "and some proof is put to the test"
