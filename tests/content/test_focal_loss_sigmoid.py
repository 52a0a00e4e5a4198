"""focal_loss_sigmoid, forward and backward: softplus, torch and differences beside all that we have; the rulings."""

import math

import numpy as np
import pytest
from msgspec.structs import replace

from generators._shared.focal_loss import Reading, gradients, losses
from generators.focal_loss_sigmoid_backward import most_columns
from mluops_gtest.authoring import DType
from tests.support.operator_calls import BOTH, OPERATORS, by_definition, poisoned_call

FORWARD, BACKWARD = (OPERATORS[f"focal_loss_sigmoid_{way}"] for way in ("forward", "backward"))
GAMMAS = (0.0, 0.5, 1.0, 2.0, 3.75, 8.0)
of_both = pytest.mark.parametrize("operator", [FORWARD, BACKWARD], ids=("forward", "backward"))


def call_for(operator, x, target, weight=None, *, alpha=0.25, gamma=2.0):
    inputs = {"input": np.asarray(x, "<f4"), "target": np.asarray(target, "<i4")}
    if weight is not None:
        inputs["weight"] = np.asarray(weight, "<f4")
    params = {"prefer": 1, "reduction": 0, "alpha": alpha, "gamma": gamma}
    call = poisoned_call(operator, params, inputs, {operator.outputs[0].id: inputs["input"].shape})
    return replace(call, inputs={**call.inputs, "weight": call.inputs.get("weight")})


def draw_operands(gamma, *, weighted):
    rng = np.random.default_rng(int(8 * gamma) + weighted)
    x, target = rng.uniform(-9, 9, (6, 5)), rng.integers(0, 5 + (not weighted), 6)
    return x.astype("<f4"), target, rng.uniform(-2, 2, 5).astype("<f4") if weighted else None


def by_softplus(x, target, weight, gamma):
    """−ln p is softplus(−x), −ln(1 − p) softplus(x); element by element in float64."""
    result = np.empty(x.shape)
    for n, c in np.ndindex(*x.shape):
        z, share = (x[n, c], 0.25) if target[n] == c else (-x[n, c], 0.75)
        power = math.exp(-gamma * np.logaddexp(0, float(z)))
        result[n, c] = share * power * np.logaddexp(0, -float(z))
        result[n, c] *= 1.0 if weight is None else weight[target[n]]
    return result


def by_torch(x, target, weight, gamma):
    """Binary cross entropy of one-hot targets in float64, and its gradient by autograd."""
    torch = pytest.importorskip("torch")
    wide = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    hot = torch.tensor(target[:, None] == np.arange(x.shape[1]), dtype=torch.float64)
    entropy = torch.nn.functional.binary_cross_entropy_with_logits(wide, hot, reduction="none")
    share = torch.where(hot == 1, 0.25, 0.75)
    loss = share * (-torch.expm1(-entropy)) ** gamma * entropy
    if weight is not None:
        loss = loss * torch.tensor(weight[target].astype(np.float64))[:, None]
    loss.sum().backward()
    return loss.detach().numpy(), wide.grad.numpy()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_loss_is_that_of_softplus_and_torch(gamma, weighted):
    x, target, weight = draw_operands(gamma, weighted=weighted)
    expected = by_softplus(x, target, weight, gamma)
    # Cross entropy cancels far below 0.
    np.testing.assert_allclose(by_torch(x, target, weight, gamma)[0], expected, rtol=5e-6, atol=1e-12)
    for compute in (*BOTH, by_definition):
        result = compute(FORWARD, call_for(FORWARD, x, target, weight, gamma=gamma))["output"]
        np.testing.assert_allclose(result, expected, rtol=2e-5 if compute is BOTH[1] else 7e-8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_gradient_is_that_of_torch_and_of_differences(gamma, weighted):
    x, target, weight = draw_operands(gamma, weighted=weighted)
    wide, step = x.astype(np.float64), 1e-5
    steps = [by_softplus(wide + sign * step, target, weight, gamma) for sign in (1, -1)]
    expected = by_torch(x, target, weight, gamma)[1]
    np.testing.assert_allclose((steps[0] - steps[1]) / (2 * step), expected, rtol=1e-5, atol=1e-9)
    for compute in (*BOTH, by_definition):
        result = compute(BACKWARD, call_for(BACKWARD, x, target, weight, gamma=gamma))["grad_input"]
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("gamma", [*GAMMAS, 100.0, 1000.0])
def test_float64_agrees_with_sixty_digits(gamma):
    x = np.linspace(-20, 20, 41).astype("<f4")[:, None]
    reading = Reading(x.astype(np.float64), np.ones(x.shape, bool), np.ones((1, 1)), 0.25, 0.75, gamma)
    for operator, values in ((FORWARD, losses), (BACKWARD, gradients)):
        element = operator.exact(call_for(operator, x, np.zeros(41), gamma=gamma))[operator.outputs[0].id]
        exact = [[float(element(row, 0))] for row in range(41)]
        np.testing.assert_allclose(values(reading), exact, rtol=1e-12, atol=1e-45)


@of_both
def test_the_weight_is_that_of_the_target_in_all_columns(operator):
    x, name = np.zeros((2, 2)), operator.outputs[0].id
    for compute in BOTH:
        plain, weighted = (compute(operator, call_for(operator, x, [1, 0], w))[name] for w in (None, [2, 3]))
        np.testing.assert_allclose(weighted / plain, [[3, 3], [2, 2]], rtol=1e-6)


@of_both
def test_a_target_of_c_is_no_class_without_weight_alone(operator):
    assert operator.broken(call_for(operator, np.zeros((2, 3)), [3, 0])) is None
    assert operator.broken(call_for(operator, np.zeros((2, 3)), [3, 0], np.ones(3))) == "a target leaves 0 … 2"
    assert operator.broken(call_for(operator, np.zeros((2, 3)), [-1, 4])) == "a target leaves 0 … 3"
    for compute in BOTH:
        result = compute(operator, call_for(operator, np.full((2, 3), -1.0), [3, 0]))[operator.outputs[0].id]
        assert len(set(result[0])) == 1
        assert result[1, 0] != result[1, 1] == result[0, 1]


def test_the_loss_beyond_float_is_x_not_87():
    for compute in BOTH:
        result = compute(FORWARD, call_for(FORWARD, [[20.0]], [1], gamma=0.0, alpha=0.0))["output"]
        np.testing.assert_allclose(result, [[20]], rtol=1e-6)


def test_as_many_columns_fit_as_the_header_says():
    sizes = [(dtype, nram) for nram in (655360, 393216) for dtype in (DType.FLOAT, DType.HALF)]
    found = [most_columns(*one, is_weighted=weighted) for one in sizes for weighted in (False, True)]
    assert found == [16339, 14848, 16294, 14784, 9785, 8864, 9740, 8832]
