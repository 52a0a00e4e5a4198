"""div: quotients in extended precision beside reference, kernel and single elements; which arithmetic is right."""

import numpy as np
import pytest

from generators._shared.interpolation import shortened
from mluops_gtest.authoring import DType, OpCall, Status
from mluops_gtest.catalog.make import make_case
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.search.audit_declarations import judged
from tests.support.operator_calls import BOTH, OPERATORS, by_definition, poisoned_call

OPERATOR = OPERATORS["div"]
OPEN = OPERATOR.left_open["undefined"]


def call_for(x: object, y: object, dtype: str = "<f4") -> OpCall:
    return poisoned_call(
        OPERATOR, {"prefer": 1}, {"x": np.array(x, dtype), "y": np.array(y, dtype)}, {"z": np.shape(x)}
    )


@pytest.mark.parametrize("compute", [*BOTH, by_definition])
@pytest.mark.parametrize("dtype", ["<f4", "<f2"])
def test_quotients_are_those_of_extended_precision(compute, dtype: str) -> None:
    rng = np.random.default_rng(11)
    y = (rng.uniform(0.1, 30, (6, 5)) * rng.choice([-1, 1], (6, 5))).astype(dtype)
    x = (y * rng.uniform(-9, 9, (6, 5))).astype(dtype)
    z = compute(OPERATOR, call_for(x, y, dtype))["z"]
    expected = (x.astype(np.longdouble) / y.astype(np.longdouble)).astype(dtype)
    if compute in (BOTH[0], by_definition):
        np.testing.assert_array_equal(z, expected)
    else:
        np.testing.assert_allclose(z, expected, rtol=1e-3 if dtype == "<f2" else 5e-7)


def test_zero_infinity_and_nan_have_the_answers_of_ieee_and_are_open() -> None:
    x = [1, -1, 0, np.inf, 2, np.nan, np.inf]
    y = [0, 0, 0, 2, -np.inf, 1, np.inf]
    for compute in BOTH:
        z = compute(OPERATOR, call_for(x, y))["z"]
        np.testing.assert_array_equal(z, np.array([np.inf, -np.inf, np.nan, np.inf, 0, np.nan, np.nan], "<f4"))
    for over, under in [*zip(x, y, strict=True), (1, 9e-21), (1, 2e10), (1e-38, 2), (1e38, 0.1)]:
        call = call_for([over], [under])
        assert OPEN(call, OPERATOR.reference(call)), (over, under)


@pytest.mark.parametrize(("dtype", "divisors"), [("<f4", (1e-19, -9e9)), ("<f2", (1.1e-4, -15990.0))])
def test_the_domain_of_divisors_is_closed_and_zero_is_a_quotient(dtype: str, divisors: tuple[float, ...]) -> None:
    for divisor in divisors:
        for numerator in (0.0, -0.0, np.array(divisor, dtype)):
            call = call_for([numerator], [divisor], dtype)
            assert OPEN(call, OPERATOR.reference(call)) is None
    # Above 16000 the reciprocals of halves are subnormal.
    call = call_for([16384], [16384], "<f2")
    assert OPEN(call, OPERATOR.reference(call))


def test_of_shapes_that_broadcast_and_differ_nobody_knows_the_results() -> None:
    call = call_for(np.ones((2, 3)), np.ones((1, 3)))
    assert OPERATOR.answer(call).check is None
    assert OPERATOR.broken(call) == "the shapes of x, y and z differ"


def estimated(x: np.ndarray, y: np.ndarray, steps: int) -> np.ndarray:
    """x · 1/y with an estimate of 12 bits that is improved so often."""
    mantissas, exponents = np.frexp(1 / y.astype(np.float64))
    inverse = np.ldexp(np.round(mantissas * 4096) / 4096, exponents).astype("<f4")
    for _ in range(steps):
        inverse = inverse * (np.float32(2) - y * inverse)
    return x * inverse


# Which ways are right of floats where HIGH_PRECISION is asked, where FAST is, and of halves.
WAYS = {
    "ieee": (lambda x, y: x / y, True, True, True),
    "reciprocal": (lambda x, y: x * (np.ones(1, x.dtype) / y), True, True, True),
    "one_step": (lambda x, y: estimated(x.astype("<f4"), y.astype("<f4"), 1), True, True, True),
    "no_step": (lambda x, y: estimated(x.astype("<f4"), y.astype("<f4"), 0), False, True, None),
    "in_11_bits": (lambda x, y: shortened(x.astype("<f4") / y, 11), False, True, True),
    "exchanged": (lambda x, y: y / x, False, False, False),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
@pytest.mark.parametrize("case", ["values_full", "values_wide", "fast_full", "fast_wide"])
def test_right_ways_pass_and_the_others_do_not(catalogue, way: str, dtype: DType, case: str) -> None:
    compute, in_high, in_fast, of_halves = WAYS[way]
    is_right = of_halves if dtype is DType.HALF else in_fast if case.startswith("fast") else in_high
    if is_right is None:
        return

    def run(call: OpCall) -> Status:
        with np.errstate(all="ignore"):
            call.array("z")[...] = compute(*call.arrays("x", "y"))
        return Status.SUCCESS

    made = make_case(catalogue.drafts[f"div/{case}_{dtype.value}"], OPERATOR)
    result = judged(way, run, made, OPERATOR, each_element=is_right and dtype is DType.FLOAT)
    assert result.outcome is (Outcome.PASSED if is_right else Outcome.FAILED), result.reason
    assert not any(reading.beyond for reading in result.elements)


@pytest.mark.parametrize("name", ["values_wide_half", "values_ends_half", "every_half"])
def test_reciprocals_and_products_in_half_are_right(catalogue, name: str) -> None:
    def run(call: OpCall) -> Status:
        call.array("z")[...] = call.array("x") * (np.float16(1) / call.array("y"))
        return Status.SUCCESS

    made = make_case(catalogue.drafts[f"div/{name}"], OPERATOR)
    assert judged("in half", run, made, OPERATOR).outcome is Outcome.PASSED
