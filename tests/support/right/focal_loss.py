"""Both focal losses in float32: three ways to a logarithm, three to a power, two orders of the product."""

from collections.abc import Iterator

import numpy as np

from mluops_gtest.core.call import OpCall
from mluops_gtest.core.tensor import Array

ONE = np.float32(1)
FAST = 0


def logarithms(s: Array, *, is_naive_right: bool) -> Iterator[tuple[str, Array]]:
    """ln of 1/(1 + e^−s); where 1 + e^−s is rounded first, only for what the document holds to less."""
    yield "log1p", -(np.log1p(np.exp(-np.abs(s))) + np.maximum(-s, np.float32(0)))
    yield "logaddexp", -np.logaddexp(np.float32(0), -s)
    if is_naive_right:
        yield "naive", np.log(ONE / (ONE + np.exp(-s)))
    else:
        yield "by double", -np.logaddexp(0.0, -s.astype(np.float64)).astype(np.float32)


def powers(base: Array, gamma: np.float32) -> Iterator[tuple[str, Array]]:
    """base^γ, with 0^0 = 1."""
    yield "power", base**gamma
    yield "exp2", np.exp2(gamma * np.log2(base)) if gamma else np.ones_like(base)
    yield "double", (base.astype(np.float64) ** np.float64(gamma)).astype(np.float32)


def operands(call: OpCall) -> tuple[Array, Array, Array, np.float32, Array]:
    """s, whose sigmoid is pt; who is a target; αt; γ; the factor of each row."""
    x, target, weight = call.array("input").astype(np.float32), call.array("target"), call.inputs["weight"]
    is_target = target[:, None] == np.arange(x.shape[1])
    alpha, gamma = np.float32(call.param("alpha")), np.float32(call.param("gamma"))
    factor = np.ones((len(x), 1), np.float32)
    if weight is not None and not weight.desc.is_empty:
        factor = call.array("weight").astype(np.float32)[target][:, None]
    return np.where(is_target, x, -x), is_target, np.where(is_target, alpha, ONE - alpha), gamma, factor


def losses(call: OpCall) -> Iterator[tuple[str, Array]]:
    """−αt·(1 − pt)^γ·ln pt, times the factor."""
    s, _, alpha, gamma, factor = operands(call)
    for by_log, logarithm in logarithms(s, is_naive_right=call.param("prefer") == FAST):
        for by_power, power in powers(ONE / (ONE + np.exp(s)), gamma):
            yield f"{by_log}, {by_power}", -alpha * power * logarithm * factor
            yield f"{by_log}, {by_power}, αt last", (power * -logarithm) * (alpha * factor)


def gradients(call: OpCall) -> Iterator[tuple[str, Array]]:
    """∓αt·(1 − pt)^γ·(1 − pt − γ·pt·ln pt), times the factor."""
    s, is_target, alpha, gamma, factor = operands(call)
    sign = np.where(is_target, -ONE, ONE)
    pt, rest = ONE / (ONE + np.exp(-s)), ONE / (ONE + np.exp(s))
    for by_log, logarithm in logarithms(s, is_naive_right=True):
        for by_power, power in powers(rest, gamma):
            inner = rest - gamma * pt * logarithm
            yield f"{by_log}, {by_power}", sign * alpha * power * inner * factor
            yield f"{by_log}, {by_power}, αt last", (power * inner) * (sign * alpha * factor)
