"""tin_shift_forward and tin_shift_backward: slices per group beside reference, kernel and definition; the rulings."""

import numpy as np
import pytest

from tests.support.operator_calls import BOTH, OPERATORS, bits_of, by_definition, by_kernel, counting, poisoned_call

FORWARD, BACKWARD = OPERATORS["tin_shift_forward"], OPERATORS["tin_shift_backward"]
of_directions = pytest.mark.parametrize("operator", [FORWARD, BACKWARD], ids=lambda one: one.name)
LARGEST, SMALLEST = 2**31 - 1, -(2**31)


def call_for(operator, values, shifts):
    fed, output = operator.inputs[0].id, operator.outputs[0].id
    return poisoned_call(operator, {}, {fed: values, "shifts": np.array(shifts, "<i4")}, {output: values.shape})


def by_slices(values, shifts):
    """A group moves as a whole, and the frames that it leaves are 0."""
    frames, width = values.shape[1], values.shape[2] // len(shifts[0])
    result = np.zeros_like(values)
    for batch, row in enumerate(shifts):
        for group, by in enumerate(row):
            channels = slice(group * width, (group + 1) * width)
            for frame in range(frames):
                if 0 <= frame + int(by) < frames:
                    result[batch, frame + int(by), channels] = values[batch, frame, channels]
    return result


@of_directions
@pytest.mark.parametrize("dtype", ["<f4", "<f2"])
def test_random_calls_are_slices(operator, dtype):
    rng = np.random.default_rng(5)
    for _ in range(30):
        batches, frames, groups, width, pixels = rng.integers(1, (4, 7, 5, 4, 4)).tolist()
        values = counting(batches, frames, groups * width, pixels).astype(dtype)
        shifts = rng.integers(-frames - 1, frames + 2, (batches, groups))
        expected = by_slices(values, shifts)
        for compute in (*BOTH, by_definition):
            (result,) = compute(operator, call_for(operator, values, shifts)).values()
            np.testing.assert_array_equal(result, expected)


@of_directions
@pytest.mark.parametrize("compute", [*BOTH, by_definition])
def test_the_documents_example(operator, compute):
    """§1.2: six frames of six channels, of which pairs are shifted by −1, 0 and 2; backward moves the same way."""
    (result,) = compute(operator, call_for(operator, counting(1, 6, 6, 1), [[-1, 0, 2]])).values()
    assert result[0, :, 0, 0].tolist() == [7, 13, 19, 25, 31, 0]
    assert result[0, :, 3, 0].tolist() == [4, 10, 16, 22, 28, 34]
    assert result[0, :, 5, 0].tolist() == [0, 0, 6, 12, 18, 24]


@of_directions
@pytest.mark.parametrize("by", [3, -3, 4, LARGEST, -LARGEST, SMALLEST, 1 << 16, -(1 << 24)])
def test_any_shift_by_all_frames_and_more_leaves_zeros(operator, by):
    values = np.full((1, 3, 2, 5), np.nan, "<f4")
    for compute in (*BOTH, by_definition):
        (result,) = compute(operator, call_for(operator, values, [[by, 0]])).values()
        assert bits_of(result[:, :, 0]).max() == 0
        assert np.isnan(result[:, :, 1]).all()


def test_backward_is_forwards_shift_and_not_its_adjoint():
    rng = np.random.default_rng(2)
    values, grads = rng.normal(size=(2, 2, 5, 6, 3)).astype("<f4")
    shifts = [[1, -2, 5], [0, 4, -6]]
    forward = by_kernel(FORWARD, call_for(FORWARD, values, shifts))["output"]
    same = by_kernel(BACKWARD, call_for(BACKWARD, values, shifts))["grad_input"]
    np.testing.assert_array_equal(bits_of(same), bits_of(forward))

    def product(left, right):
        return np.vdot(left.astype(float), right)

    own, adjoint = (
        by_kernel(BACKWARD, call_for(BACKWARD, grads, by))["grad_input"] for by in (shifts, np.negative(shifts))
    )
    assert product(forward, grads) == pytest.approx(product(values, adjoint), rel=1e-12)
    assert product(forward, grads) != pytest.approx(product(values, own), rel=1e-3)


@of_directions
def test_bits_pass(operator):
    values = np.arange(1, 1 + 60, dtype="<u4").reshape(1, 5, 4, 3) * 0x0407FFFF
    for compute in BOTH:
        (result,) = compute(operator, call_for(operator, values.view("<f4"), [[1, -2]])).values()
        np.testing.assert_array_equal(bits_of(result), by_slices(values, [[1, -2]]))
