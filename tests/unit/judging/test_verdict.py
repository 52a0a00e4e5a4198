"""What must come back from a case, and from what a backend left in the buffers to a verdict on it."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.base.errors import CaseFileError, OperatorError
from mluops_gtest.core import cause as c
from mluops_gtest.core.buffers import fill, pattern_of
from mluops_gtest.core.call import Status
from mluops_gtest.core.case import Expect
from mluops_gtest.core.declaration import Baseline, CheckVerdict
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.tensor import Criterion, CriterionKind, DType, exact
from mluops_gtest.judging.arbitration import error, rounded, stored_number, ulp
from mluops_gtest.judging.elementwise import expectation_of
from mluops_gtest.judging.fingerprint import with_fingerprint
from mluops_gtest.judging.verdict import Judgement, effective_criteria, judge_untouched, judge_values, result_fields
from tests.unit.running.small_operator import DOUBLES, NEAR, doubling, tensor

RIGHT = (2.0, 4.0, 6.0, 8.0)
CASE = doubling(count=4)
BLANK = CaseResult("doubles/a", "doubles", (), Outcome.SKIPPED, Status.SUCCESS, Status.SUCCESS)
POISON = np.frombuffer(DType.FLOAT.poison, "<f4")[0]


def judge(values, *, case=CASE, scalars=None, operator=DOUBLES, bitwise=False):
    expectation = expectation_of(case, operator)
    scalars = {"count": 4} if scalars is None else scalars
    return judge_values(case, operator, expectation, {"y": np.array(values, "<f4")}, scalars, bitwise=bitwise)


def test_what_agrees_passes_without_a_cause():
    judgement = judge(RIGHT)
    assert (judgement.outcome, judgement.causes) == (Outcome.PASSED, ())
    assert [(r.output, r.criterion, r.value, r.within) for r in judgement.readings] == [
        ("count", "exact", 0.0, True),
        ("y", "diff1", 0.0, True),
        ("y", "diff2", 0.0, True),
    ]
    assert with_fingerprint(replace(BLANK, **result_fields(judgement, ()))).fingerprint == ""


def test_what_is_beyond_its_criteria_is_told_with_its_places():
    judgement = judge((2.0, 4.0, 6.0, 18.0))
    (cause,) = judgement.causes
    assert isinstance(cause, c.Exceeded)
    assert (cause.output, cause.differing) == ("y", c.Places(1, 4, 3, 3))
    assert (cause.finite_only, cause.equality, cause.beyond, cause.bits_unequal) == (False, False, 1, 1)
    assert [(one.criterion, one.value, one.threshold) for one in cause.criteria] == [
        ("diff1", pytest.approx(0.5), 1e-3),
        ("diff2", pytest.approx(math.sqrt(100 / 120)), 1e-3),
    ]
    result = with_fingerprint(replace(BLANK, **result_fields(judgement, ())))
    assert result.outcome is Outcome.FAILED
    assert (result.worst.index, result.worst.evaluated, result.worst.baseline) == ((3,), "18.0", "8.0")
    assert result.fingerprint.startswith("v1:")
    assert result.compared


def test_a_value_that_became_infinite_says_so_and_no_criterion_is_blamed():
    (cause,) = judge((2.0, math.inf, 6.0, 8.0)).causes
    assert cause == c.NonFinite("y", 1, 1, ("diff1", "diff2"), c.Places(1, 4, 1, 1))


def test_beside_an_infinite_value_the_finite_ones_are_measured():
    mismatch, exceeded = judge((0.0, math.nan, 0.0, 0.0)).causes
    assert isinstance(mismatch, c.NonFinite)
    assert exceeded.finite_only
    assert [one.value for one in exceeded.criteria] == pytest.approx([1.0, 1.0])


def test_unwritten_elements_come_before_any_comparison():
    judgement = judge((2.0, POISON, POISON, 8.0))
    assert judgement.causes == (c.Unwritten("y", c.Places(2, 4, 1, 2), (1,)),)
    assert [reading.output for reading in judgement.readings] == ["count"]


@pytest.mark.parametrize(
    ("scalars", "cause"),
    [
        ({}, c.ScalarMissing("count", 4)),
        ({"count": 5}, c.ScalarWrong("count", "5", 4)),
        ({"count": 10**400}, c.ScalarWrong("count", str(10**400), 4)),
    ],
)
def test_a_result_that_is_no_tensor_is_compared_exactly(scalars, cause):
    judgement = judge(RIGHT, scalars=scalars)
    assert judgement.causes == (cause,)
    assert not judgement.readings[0].within


def test_bits_count_where_they_are_asked_and_are_a_note_where_not():
    case = doubling(x=(0.0, 1.0), count=2, criteria=(exact(),))
    told = judge((-0.0, 2.0), case=case, scalars={"count": 2})
    assert (told.outcome, told.causes) == (Outcome.PASSED, ())
    assert told.notes == ["y: 1 element is equal but not bit for bit (−0, NaN payloads)"]
    asked = judge((-0.0, 2.0), case=case, scalars={"count": 2}, bitwise=True)
    assert (asked.outcome, asked.causes) == (Outcome.FAILED, (c.BitsUnequal("y", 1),))


def test_agreement_with_a_constant_is_suspect_unless_it_is_meant():
    case = doubling(x=(1.0, 1.0), count=2)
    judgement = judge((2.0, 2.0), case=case, scalars={"count": 2})
    assert (judgement.outcome, judgement.causes) == (Outcome.SUSPECT, (c.ConstantBaseline("y"),))
    meant = replace(case, expect=replace(case.expect, degenerate="all ones"))
    assert judge((2.0, 2.0), case=meant, scalars={"count": 2}).outcome is Outcome.PASSED


def beside(z, criteria=(), shape=DOUBLES.outputs[0].shape, x=(1.0, 1.0)):
    """Doubling, of a constant, with a second output; both come back right."""
    operator = replace(DOUBLES, outputs=(*DOUBLES.outputs, replace(DOUBLES.outputs[0], id="z", shape=shape)))
    case = doubling(x=x, count=2)
    case = replace(case, outputs=(*case.outputs, tensor("z", z)), criteria=((), criteria))
    arrays = {one.id: one.values for one in case.outputs}
    return judge_values(case, operator, expectation_of(case, operator), arrays, {"count": 2}, bitwise=False)


def test_a_constant_output_beside_one_that_varies_is_a_remark():
    judgement = beside((3.0, 4.0))
    assert judgement.outcome is Outcome.PASSED
    assert judgement.notes == ["the baseline of y is constant, so agreement proves nothing; other outputs vary"]


def test_where_no_compared_output_varies_each_is_told():
    judgement = beside((3.0, 3.0))
    assert judgement.outcome is Outcome.SUSPECT
    assert judgement.causes == (c.ConstantBaseline("y"), c.ConstantBaseline("z"))
    not_compared = beside((3.0, 4.0), None)
    assert (not_compared.outcome, not_compared.causes) == (Outcome.SUSPECT, (c.ConstantBaseline("y"),))


def test_an_output_of_one_element_in_every_call_is_never_told():
    varied = beside((3.0,), shape="[1]", x=(1.0, 2.0))
    assert (varied.outcome, varied.notes) == (Outcome.PASSED, [])
    constant = beside((3.0,), shape="[1]")
    assert (constant.outcome, constant.causes) == (Outcome.SUSPECT, (c.ConstantBaseline("y"),))


DIFF3 = (Criterion(CriterionKind.DIFF3, 0.0),)
MAXAPE = (Criterion(CriterionKind.DIFF1, 1.0), Criterion(CriterionKind.MAXAPE, 0.0))
TIGHT = (Criterion(CriterionKind.DIFF1, 0.0), Criterion(CriterionKind.DIFF3, 1e-9))


@pytest.mark.parametrize(
    ("named", "own", "dtype", "recomputed", "wanted"),
    [
        pytest.param(DIFF3, NEAR, DType.FLOAT, True, NEAR, id="bits of what is recomputed and rounded"),
        pytest.param(MAXAPE, NEAR, DType.FLOAT, True, NEAR, id="under its older name, beside others"),
        pytest.param(DIFF3, NEAR, DType.FLOAT, False, DIFF3, id="bits that the file stores"),
        pytest.param(DIFF3, DIFF3, DType.FLOAT, True, DIFF3, id="bits that the operator copies"),
        pytest.param(TIGHT, NEAR, DType.FLOAT, True, TIGHT, id="any other criterion stands"),
        pytest.param((), NEAR, DType.FLOAT, True, NEAR, id="none"),
        pytest.param(NEAR, NEAR, DType.INT32, True, DIFF3, id="integers"),
    ],
)
def test_what_a_file_names_stands_unless_it_asks_for_bits_that_nobody_owes(named, own, dtype, recomputed, wanted):
    assert effective_criteria(dtype, named, own, recomputed=recomputed) == wanted


def test_a_failure_outweighs_a_suspicion():
    case = doubling(x=(1.0, 1.0), count=2)
    judgement = judge((5.0, 2.0), case=case, scalars={"count": 2})
    assert judgement.outcome is Outcome.FAILED
    assert [type(cause) for cause in judgement.causes] == [c.Exceeded]


def test_without_a_criterion_nothing_is_proved_nor_where_nothing_is_compared():
    operator = replace(DOUBLES, outputs=(replace(DOUBLES.outputs[0], criteria={}),))
    judgement = judge(RIGHT, operator=operator)
    assert (judgement.outcome, judgement.causes) == (Outcome.SUSPECT, (c.NoCriterion("y", "float"),))
    assert (Judgement().outcome, Judgement().causes) == (Outcome.SUSPECT, (c.NothingCompared(),))


def test_an_output_that_is_not_compared_is_a_note():
    judgement = judge((0.0, 0.0, 0.0, 0.0), case=replace(CASE, criteria=(None,)))
    assert judgement.notes == ["y is not compared (threshold_use: 0)"]
    assert judgement.outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("written", "causes"),
    [([1, 3], (c.WrittenAnyway("y", c.Places(2, 4, 1, 3), "BAD_PARAM", "sign_positive"),)), ([], ())],
)
def test_a_call_that_fails_may_write_nothing(written, causes):
    buffer = np.empty(4, "<f4")
    fill(buffer.view(np.uint8), pattern_of(DType.FLOAT, None))
    buffer[written] = 1.0
    judgement = judge_untouched(CASE, DOUBLES, {"y": buffer}, CheckVerdict(Status.BAD_PARAM, "sign_positive"))
    assert (judgement.outcome, judgement.causes) == (Outcome.FAILED if causes else Outcome.PASSED, causes)


def without_values(case):
    outputs = tuple(replace(output, data=None) for output in case.outputs)
    return replace(case, outputs=outputs, baseline_stored=False)


@pytest.mark.parametrize(
    ("case", "values", "is_recomputed"),
    [
        pytest.param(doubling(y=[9.0] * 4, count=4), [9.0] * 4, False, id="as it is stored"),
        pytest.param(doubling(y=[9.0] * 4), [9.0] * 4, False, id="the result that the file leaves out is computed"),
        pytest.param(without_values(doubling()), [2.0, 4.0, 6.0, 8.0], True, id="nothing is stored"),
    ],
)
def test_what_is_stored_is_taken_and_the_rest_comes_from_the_reference(case, values, is_recomputed):
    expectation = expectation_of(case, DOUBLES)
    assert expectation.answer.computes
    assert expectation.outputs[0].values.tolist() == values
    assert (expectation.results, expectation.recomputed) == ({"count": 4}, is_recomputed)


@pytest.mark.parametrize(
    ("case", "status", "check"),
    [
        (doubling(sign=-1, status=Status.BAD_PARAM), Status.BAD_PARAM, "sign_positive"),
        (doubling(sign=-1, status=Status.BAD_PARAM, check="sign_positive"), Status.BAD_PARAM, "sign_positive"),
        (doubling(x=(), check="empty"), Status.SUCCESS, "empty"),
        (doubling(x=(), sign=-1, status=Status.BAD_PARAM), Status.BAD_PARAM, "sign_positive"),
    ],
)
def test_a_call_that_ends_in_a_check_computes_nothing_and_the_first_that_fails_decides(case, status, check):
    answer = expectation_of(case, DOUBLES).answer
    assert (answer.status, answer.check, answer.computes) == (status, check, False)


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


def lacks_memory(call):
    raise MemoryError("all of it")


def widens(call):
    return Baseline({"y": (2 * call.array("x")).astype(np.float64)}, {"count": 4})


@pytest.mark.parametrize(
    ("reference", "error", "words"),
    [(lacks_memory, MemoryError, "all of it"), (widens, OperatorError, "returns 'y' as float64")],
)
def test_no_memory_and_a_mistake_of_the_reference_are_not_the_fault_of_the_case(reference, error, words):
    with pytest.raises(error, match=words):
        expectation_of(without_values(doubling()), replace(DOUBLES, reference=reference))


FLOAT64 = st.floats(allow_nan=False, allow_infinity=False, width=64)


@given(FLOAT64)
@pytest.mark.parametrize("dtype", [DType.HALF, DType.FLOAT])
def test_rounding_is_that_of_the_hardware(dtype, value):
    with np.errstate(over="ignore", under="ignore"):
        expected = float(np.float64(value).astype(dtype.storage))
    assert float(rounded(Fraction(value), dtype)) == expected


@pytest.mark.parametrize(
    ("exact", "expected"),
    [
        (1 + Fraction(1, 2**24), 1),  # a tie goes to even
        (1 + Fraction(1, 2**24) + Fraction(1, 2**80), 1 + Fraction(1, 2**23)),  # float64 in between would lose this
        (Fraction(1, 2**150), 0),
        (Fraction(3, 2**151), Fraction(1, 2**149)),
        (Fraction(2**128 - 2**103), math.inf),
        (Fraction(2**128 - 2**103 - 1), 2**128 - 2**104),
    ],
)
def test_a_float_is_rounded_once_to_even(exact, expected):
    assert rounded(exact, DType.FLOAT) == expected


@given(st.floats(width=16, allow_nan=False, allow_infinity=False))
def test_an_ulp_is_the_way_to_the_next_number(value):
    above = float(np.nextafter(np.float16(abs(value)), np.float16(np.inf)))
    if math.isfinite(above):
        assert ulp(Fraction(abs(value)), DType.HALF) == Fraction(above) - Fraction(abs(value))


def test_integers_are_taken_as_they_are_and_bfloat16_as_its_bits():
    assert rounded(2**40 + 1, DType.INT64) == 2**40 + 1
    assert ulp(7, DType.INT32) == 1
    assert stored_number(np.int64(2**60 + 1), DType.INT64) == 2**60 + 1
    assert stored_number(np.uint16(0x3FC0), DType.BFLOAT16) == Fraction(3, 2)
    assert rounded(1 + Fraction(1, 2**8), DType.BFLOAT16) == 1


@pytest.mark.parametrize(
    ("value", "exact", "expected"),
    [
        (math.nan, math.nan, 0),
        (math.inf, math.inf, 0),
        (math.inf, -math.inf, math.inf),
        (math.nan, Fraction(1), math.inf),
        (Fraction(1), math.nan, math.inf),
        (Fraction(1, 3), Fraction(1, 2), Fraction(1, 6)),
    ],
)
def test_what_is_no_number_must_meet_its_like(value, exact, expected):
    assert error(value, exact) == expected


def refusing(may_clear):
    checks = tuple(
        replace(check, may_clear=may_clear) if check.name == "sign_positive" else check for check in DOUBLES.checks
    )
    return replace(DOUBLES, checks=checks)


@pytest.mark.parametrize(
    ("values", "may_clear", "outcome"),
    [
        ((0.0,) * 4, ("y",), Outcome.PASSED),
        ((POISON,) * 4, ("y",), Outcome.PASSED),
        ((0.0,) * 4, (), Outcome.FAILED),
        ((-0.0, 0.0, 0.0, 0.0), ("y",), Outcome.FAILED),
        ((0.0, POISON, 0.0, 0.0), ("y",), Outcome.FAILED),
    ],
)
def test_a_refused_call_may_have_cleared_what_its_check_names(values, may_clear, outcome):
    answer = CheckVerdict(Status.BAD_PARAM, "sign_positive")
    assert judge_untouched(CASE, refusing(may_clear), {"y": np.array(values, "<f4")}, answer).outcome is outcome


@pytest.mark.parametrize(
    ("buffer", "outcome"),
    [
        ((1.0, POISON, 2.0), Outcome.PASSED),
        ((1.0, 0.0, 2.0), Outcome.FAILED),
        ((1.0, POISON, 3.0), Outcome.FAILED),
        ((1.0, POISON, POISON), Outcome.FAILED),
    ],
)
def test_a_refused_call_leaves_what_a_strided_output_held_and_the_gaps(buffer, outcome):
    desc = replace(tensor("y", (0.0, 0.0)).desc, strides=(2,))
    case = doubling(x=(1.0, 2.0))
    held = replace(case.inputs[0], desc=desc, becomes="y").holding(np.array([1, 2], "<f4"))
    case = replace(case, inputs=(held,), outputs=(replace(case.outputs[0], desc=desc, data=None),))
    answer = CheckVerdict(Status.BAD_PARAM, "sign_positive")
    assert judge_untouched(case, DOUBLES, {"y": np.array(buffer, "<f4")}, answer).outcome is outcome


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ((POISON,) * 4, Outcome.PASSED),
        ((0.0,) * 4, Outcome.PASSED),
        ((0.0, POISON, 0.0, 0.0), Outcome.FAILED),
        ((0.0, 1.0, 0.0, 0.0), Outcome.FAILED),
    ],
)
def test_an_output_that_may_stay_is_untouched_or_right(values, outcome):
    operator = replace(
        DOUBLES, outputs=(replace(DOUBLES.outputs[0], may_stay=lambda call: call.array("x").any() == 0),)
    )
    # Nor is it a doubt that its baseline is constant.
    assert judge(values, case=doubling(x=(0.0,) * 4, count=4), operator=operator).outcome is outcome
    assert judge((POISON,) * 4, operator=operator).outcome is Outcome.FAILED
