"""sqrt: roots in extended precision beside reference, kernel and single elements; which arithmetic is right."""

import numpy as np
import pytest

from generators._shared.interpolation import shortened
from mluops_gtest.authoring import DType, OpCall, Status, TensorArg, TensorDesc, widened
from mluops_gtest.catalog.make import make_case
from mluops_gtest.core.call import Handle
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.tensor import Layout
from mluops_gtest.search.audit_declarations import judged
from tests.support.operator_calls import BOTH, OPERATORS, by_definition, poisoned, poisoned_call

OPERATOR = OPERATORS["sqrt"]
OPEN = OPERATOR.left_open["undefined"]


def call_for(x: np.ndarray, dtype: DType | None = None, prefer: int = 1) -> OpCall:
    if dtype is not DType.BFLOAT16:
        return poisoned_call(OPERATOR, {"prefer": prefer}, {"x": x}, {"y": x.shape})
    desc = TensorDesc(dtype, Layout.ARRAY, x.shape)
    args = TensorArg(desc, x), TensorArg(desc, poisoned(dtype, x.shape))
    return OpCall("sqrt", {"prefer": prefer}, {"x": args[0]}, {"y": args[1]}, Handle())


def numbers(dtype: str) -> np.ndarray:
    rng = np.random.default_rng(3)
    if dtype == "<i4":
        return np.concatenate([rng.integers(0, 2**31, 40), [0, 1, 2**31 - 1, 46340**2, 46340**2 - 1]]).astype("<i4")
    low, high = (-3, 4.7) if dtype == "<f2" else (-10, 10)
    return np.concatenate([10 ** rng.uniform(low, high, 40), [0.0, 1, 4]]).astype(dtype)


@pytest.mark.parametrize("compute", [*BOTH, by_definition])
@pytest.mark.parametrize("dtype", ["<f4", "<f2", "<i4"])
def test_roots_are_those_of_extended_precision(compute, dtype: str) -> None:
    x = numbers(dtype).reshape(-1, 1)
    y = compute(OPERATOR, call_for(x))["y"]
    assert y.dtype == ("<f2" if dtype == "<f2" else "<f4")
    rounded = np.sqrt(x.astype(np.longdouble)).astype(y.dtype)
    if compute in (BOTH[0], by_definition):
        np.testing.assert_array_equal(y, rounded)
    else:
        np.testing.assert_allclose(y, rounded, rtol=1e-3 if dtype == "<f2" else 5e-7)


@pytest.mark.parametrize("dtype", [DType.HALF, DType.BFLOAT16])
def test_every_positive_number_of_16_bits(dtype: DType) -> None:
    every = np.arange(1, 0x7C00 if dtype is DType.HALF else 0x7F80, dtype=np.uint16).view(dtype.storage)
    reference, kernel = (compute(OPERATOR, call_for(every, dtype))["y"] for compute in BOTH)
    roots = widened(reference, dtype).astype(np.float64)
    truth = np.sqrt(widened(every, dtype).astype(np.float64))
    np.testing.assert_allclose(roots, truth, rtol=2.0**-11 if dtype is DType.HALF else 2.0**-8)
    # The kernel's roots are off by a little before they are rounded.
    np.testing.assert_allclose(
        widened(kernel, dtype).astype(np.float64), roots, rtol=1e-3 if dtype is DType.HALF else 8e-3
    )


def test_what_the_header_excludes_is_open_and_has_the_answer_of_ieee() -> None:
    x = np.array([-1, -0.0, 0, np.nan, np.inf, -np.inf, 1e-45, 1e30], "<f4")
    expected = np.array([np.nan, 0, 0, np.nan, np.inf, np.nan, np.sqrt(np.float32(1e-45)), 1e15], "<f4")
    for compute in BOTH:
        np.testing.assert_allclose(compute(OPERATOR, call_for(x))["y"], expected, rtol=5e-7)
    for value in (-1, -0.0, np.nan, np.inf, 1e-45, 9e-11, 1.1e10):
        call = call_for(np.array([value], "<f4"))
        assert OPEN(call, OPERATOR.reference(call)), value
    # The hole of the header's domain of half is inside.
    inside = (np.array([0, 1e-9, 1e10], "<f4"), np.array([0.05, 60000], "<f2"), np.array([0, 2**31 - 1], "<i4"))
    assert [OPEN(call_for(x), OPERATOR.reference(call_for(x))) for x in inside] == [None] * 3


def newton(x: np.ndarray, steps: int) -> np.ndarray:
    """x · 1/√x with an estimate of 12 bits that is improved so often."""
    mantissas, exponents = np.frexp(1 / np.sqrt(x.astype(np.float64)))
    inverse = np.ldexp(np.round(mantissas * 4096) / 4096, exponents).astype("<f4")
    for _ in range(steps):
        inverse = inverse * (np.float32(1.5) - np.float32(0.5) * x * inverse * inverse)
    return x * inverse


# Of float32 numbers: which ways are right where HIGH_PRECISION is asked, and where FAST is.
WAYS = {
    "ieee": (np.sqrt, True, True),
    "reciprocal": (lambda x: x * (np.float32(1) / np.sqrt(x)), True, True),
    "one_step": (lambda x: newton(x, 1), True, True),
    "no_step": (lambda x: newton(x, 0), False, True),
    "in_11_bits": (lambda x: shortened(np.sqrt(x), 11), False, True),
    "unrooted": (lambda x: x, False, False),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("case", "prefer"), [("values_{}_{}", 1), ("fast_{}_{}", 0)])
def test_right_ways_pass_and_the_others_do_not(catalogue, way: str, case: str, prefer: int) -> None:
    compute, *right = WAYS[way]

    def run(call: OpCall) -> Status:
        call.array("y")[...] = compute(call.array("x").astype("<f4"))
        return Status.SUCCESS

    for values in ("full", "wide"):
        for dtype in ("float", "int32"):
            made = make_case(catalogue.drafts[f"sqrt/{case.format(values, dtype)}"], OPERATOR)
            is_right = right[1 - prefer]
            result = judged(way, run, made, OPERATOR, each_element=is_right)
            assert result.outcome is (Outcome.PASSED if is_right else Outcome.FAILED), (values, dtype, result.reason)
            assert not is_right or not any(reading.beyond for reading in result.elements)
