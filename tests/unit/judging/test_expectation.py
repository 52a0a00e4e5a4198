"""What must come back from a case is decided before the backend runs, and a case that cannot be is refused."""

from dataclasses import replace

import numpy as np
import pytest

from mluops_gtest.base.errors import CaseFileError, OperatorError
from mluops_gtest.core.call import Status
from mluops_gtest.core.case import Expect
from mluops_gtest.core.operator import Baseline
from mluops_gtest.judging.elementwise import expectation_of
from tests.unit.running.small_operator import DOUBLES, doubling, tensor


def without_values(case):
    outputs = tuple(replace(output, data=None) for output in case.outputs)
    return replace(case, outputs=outputs, baseline_stored=False)


def test_a_stored_baseline_is_taken_as_it_is():
    expectation = expectation_of(doubling(y=[9.0, 9.0, 9.0, 9.0], count=4), DOUBLES)
    assert expectation.answer.computes
    assert expectation.outputs[0].values.tolist() == [9.0] * 4
    assert (expectation.results, expectation.recomputed) == ({"count": 4}, False)


def test_a_result_that_the_file_leaves_out_comes_from_the_reference():
    expectation = expectation_of(doubling(y=[9.0, 9.0, 9.0, 9.0]), DOUBLES)
    assert expectation.results == {"count": 4}
    assert expectation.outputs[0].values.tolist() == [9.0] * 4
    assert not expectation.recomputed


def test_a_baseline_that_is_not_stored_is_computed():
    expectation = expectation_of(without_values(doubling()), DOUBLES)
    assert expectation.outputs[0].values.tolist() == [2.0, 4.0, 6.0, 8.0]
    assert expectation.recomputed


@pytest.mark.parametrize(
    ("case", "status", "check"),
    [
        (doubling(sign=-1, status=Status.BAD_PARAM), Status.BAD_PARAM, "sign_positive"),
        (doubling(sign=-1, status=Status.BAD_PARAM, check="sign_positive"), Status.BAD_PARAM, "sign_positive"),
        (doubling(x=(), check="empty"), Status.SUCCESS, "empty"),
    ],
)
def test_a_call_that_ends_in_a_check_computes_nothing(case, status, check):
    answer = expectation_of(case, DOUBLES).answer
    assert (answer.status, answer.check, answer.computes) == (status, check, False)


def test_the_first_check_that_fails_decides():
    assert expectation_of(doubling(x=(), sign=-1, status=Status.BAD_PARAM), DOUBLES).answer.check == "sign_positive"


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (doubling(sign=-1), r"expects SUCCESS, but the operator's checks say BAD_PARAM \(sign_positive: sign > 0\)"),
        (doubling(status=Status.NOT_SUPPORTED), "expects NOT_SUPPORTED, but the operator's checks say SUCCESS"),
        (
            doubling(sign=-1, status=Status.BAD_PARAM, check="empty"),
            "expects BAD_PARAM from the check empty, but the operator's checks say BAD_PARAM",
        ),
        (doubling(x=(1.0, 7.0)), "the case is broken, no backend can be held to it: x has a 7"),
        (doubling(sign=None), "the data lie outside of what doubles defines"),
        (doubling(expect=Expect(workspace_size=1 << 30)), "workspace_size 1073741824 in a case that computes"),
        (
            without_values(doubling(y=[0.0, 0.0])),
            r"the output 'y' has dims \[2\], the reference gives \[4\]\. Correct the dims",
        ),
    ],
)
def test_a_case_that_contradicts_its_operator_is_refused(case, words):
    with pytest.raises(CaseFileError, match=words) as error:
        expectation_of(case, DOUBLES)
    assert str(error.value).startswith("doubles/a: ")


def test_a_small_file_must_not_claim_gigabytes():
    case = doubling()
    vast = replace(tensor("y", [0.0]), desc=replace(case.outputs[0].desc, dims=(1 << 30,)), data=None)
    with pytest.raises(CaseFileError, match="'y' would take 4294967296 bytes to recompute"):
        expectation_of(replace(case, outputs=(vast,), baseline_stored=False), DOUBLES)


def test_an_output_with_fewer_rows_than_the_operator_owns_is_a_broken_case():
    spec = replace(DOUBLES.outputs[0], rows_owned="count")
    operator = replace(DOUBLES, outputs=(spec,))
    with pytest.raises(CaseFileError, match="y has 4 rows for 5"):
        expectation_of(doubling(count=5), operator)


def test_no_memory_is_not_the_fault_of_the_case():
    def reference(call):
        raise MemoryError

    with pytest.raises(MemoryError):
        expectation_of(without_values(doubling()), replace(DOUBLES, reference=reference))


def test_a_mistake_of_the_reference_is_not_the_fault_of_the_case():
    def reference(call):
        return Baseline({"y": (2 * call.array("x")).astype(np.float64)}, {"count": 4})

    with pytest.raises(OperatorError, match="returns 'y' as float64"):
        expectation_of(without_values(doubling()), replace(DOUBLES, reference=reference))
