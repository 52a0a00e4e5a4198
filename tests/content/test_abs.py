"""abs: Python's own magnitudes beside reference, kernel and single elements; rulings; strides element by element."""

import itertools
import math

import numpy as np
import pytest

from mluops_gtest.authoring import DType, OpCall, Status, TensorArg, TensorDesc, widened
from mluops_gtest.core.call import Handle
from mluops_gtest.core.tensor import Layout
from tests.support.operator_calls import BOTH, OPERATORS, bits_of, by_definition, poisoned, poisoned_call

OPERATOR = OPERATORS["abs"]
SIXTEEN_BITS = pytest.mark.parametrize("dtype", [DType.HALF, DType.BFLOAT16])


def call_for(x: np.ndarray, dtype: DType | None = None) -> OpCall:
    if dtype is not DType.BFLOAT16:
        return poisoned_call(OPERATOR, {}, {"x": x}, {"y": x.shape})
    desc = TensorDesc(dtype, Layout.ARRAY, x.shape)
    return OpCall(
        OPERATOR.name, {}, {"x": TensorArg(desc, x)}, {"y": TensorArg(desc, poisoned(dtype, x.shape))}, Handle()
    )


@pytest.mark.parametrize("compute", [*BOTH, by_definition])
def test_magnitudes_are_pythons(compute) -> None:
    rng = np.random.default_rng(5)
    for x in (
        rng.standard_normal((3, 4)).astype("<f4"),
        rng.integers(1 - 2**31, 2**31, (2, 5)).astype("<i4"),
        (rng.standard_normal(9) * 10.0 ** rng.integers(-3, 38, 9)).astype("<f4"),
    ):
        y = compute(OPERATOR, call_for(x))["y"]
        assert y.reshape(-1).tolist() == [abs(value) for value in x.reshape(-1).tolist()]


@pytest.mark.parametrize("compute", [*BOTH, by_definition])
def test_complex_magnitudes_are_hypot(compute) -> None:
    rng = np.random.default_rng(7)
    parts = (rng.standard_normal((40, 2)) * 10.0 ** rng.integers(-10, 38, (40, 2))).astype("<f4")
    y = compute(OPERATOR, call_for(parts.view("<c8").reshape(8, 5)))["y"]
    expected = [math.hypot(*pair) for pair in parts.astype(np.float64).tolist()]
    assert y.dtype == np.float32
    np.testing.assert_allclose(y.reshape(-1).astype(np.float64), expected, rtol=5e-7)


@SIXTEEN_BITS
def test_every_number_of_16_bits(dtype: DType) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype.storage)
    for compute in BOTH:
        y = compute(OPERATOR, call_for(every, dtype))["y"]
        wide, result = widened(every, dtype), widened(y, dtype)
        np.testing.assert_array_equal(np.isnan(result), np.isnan(wide))
        numbers = ~np.isnan(wide)
        np.testing.assert_array_equal(bits_of(y)[numbers], bits_of(every)[numbers] & 0x7FFF)


def test_zeros_infinities_and_denormals_lose_their_sign_alone() -> None:
    x = np.array([-0.0, 0.0, -np.inf, np.inf, np.nan, -1e-45, 3e-39], "<f4")
    for compute in BOTH:
        y = compute(OPERATOR, call_for(x))["y"]
        np.testing.assert_array_equal(y, np.array([0, 0, np.inf, np.inf, np.nan, 1e-45, 3e-39], "<f4"))
        assert not np.signbit(y[:2]).any()


def test_the_smallest_integer_and_infinities_beside_nan_are_not_defined() -> None:
    assert "−2^31" in str(OPERATOR.broken(call_for(np.array([-(2**31)], "<i4"))))
    assert "infinity beside NaN" in str(OPERATOR.broken(call_for(np.array([complex(math.inf, math.nan)], "<c8"))))
    assert OPERATOR.broken(call_for(np.array([complex(math.inf, -2)], "<c8"))) is None


def test_elements_are_read_and_written_by_strides() -> None:
    dims, x_strides, y_strides = (2, 3, 2), (1, 0, 4), (20, 6, 1)
    desc = {
        "x": TensorDesc(DType.FLOAT, Layout.ARRAY, dims, x_strides),
        "y": TensorDesc(DType.FLOAT, Layout.ARRAY, dims, y_strides),
    }
    buffers = {"x": -np.arange(1, 7, dtype="<f4"), "y": np.full(desc["y"].extent, -5, "<f4")}
    args = {name: TensorArg(desc[name], desc[name].view(buffers[name])) for name in desc}
    assert OPERATOR.kernel(OpCall("abs", {}, {"x": args["x"]}, {"y": args["y"]}, Handle())) is Status.SUCCESS
    expected = np.full(len(buffers["y"]), -5.0)
    for index in itertools.product(*map(range, dims)):
        expected[np.dot(index, y_strides)] = -buffers["x"][np.dot(index, x_strides)]
    np.testing.assert_array_equal(buffers["y"], expected)


def test_parts_of_2e38_do_not_overflow_and_suspects_do() -> None:
    call = call_for(np.array([2e38 + 2e38j, -3 + 4j], "<c8"))
    for compute in BOTH:
        assert compute(OPERATOR, call)["y"][1] == 5
        assert np.isfinite(compute(OPERATOR, call)["y"]).all()
    assert np.isinf(OPERATOR.suspects["squares of parts are made in float"](call)["y"][0])
    assert OPERATOR.suspects["the sign bit of integers is cleared"](call) == {}
    minus_one = call_for(np.array([-1], "<i4"))
    assert OPERATOR.suspects["the sign bit of integers is cleared"](minus_one)["y"].tolist() == [2**31 - 1]
