"""Mistakes of kernels of focal_loss_sigmoid and of its derivative; for suspects and mutants."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Operator, mistakes, narrowed
from mluops_gtest.authoring.suspects import Suspect

from .focal_loss import Focal, Reading, gradient_term, read
from .interpolation import shortened

# What is read instead, or what becomes of right values [N, C] in float64.
Mistake = Callable[[Reading, Array], Reading | Array]
# By the words behind "as if".
Wrong = Mapping[str, Mistake]


def relabelled(change: Callable[[Array, int], Array], columns: Callable[[int], Array] = np.arange) -> Mistake:
    """With other targets, by the right ones and C, or other numbers of columns."""

    def read_otherwise(r: Reading, _: Array) -> Reading:
        assert r.target is not None
        count = r.x.shape[1]
        return r._replace(is_target=change(r.target, count)[:, None] == columns(count))

    return read_otherwise


def _weighted(change: Callable[[Reading, Array], Array]) -> Mistake:
    """With another factor where there is a weight."""
    return lambda r, _: r if r.weight is None else r._replace(factor=change(r, r.weight))


def _softmax(r: Reading, _: Array) -> Reading:
    """ln(p / (1 − p)) of p = softmax(x)."""
    others = np.exp(r.x).sum(axis=1, keepdims=True) - np.exp(r.x)
    return r._replace(x=r.x - np.log(np.maximum(others, 1e-9)))


def _padded(r: Reading, _: Array) -> Reading:
    rows, columns = r.x.shape
    places = np.arange(rows)[:, None] * (-(-columns // 32) * 32) + np.arange(columns)
    return r._replace(x=np.take(r.x.reshape(-1), places, mode="wrap"))


# Not among them: 0^0 = 0. In float 1 − p is 0 only where the result is below 1e-8, which no norm sees.
_OF_BOTH: Final[Wrong] = {
    "the weight is that of the column": _weighted(lambda _, w: w[None, :]),
    "the weight is 1": _weighted(lambda *_: np.ones((1, 1))),
    "the weight counts in the target's column alone": _weighted(lambda r, _: np.where(r.is_target, r.factor, 1)),
    "alpha and 1 − alpha are exchanged": lambda r, _: r._replace(alpha=r.others, others=r.alpha),
    "gamma is 0": lambda r, _: r._replace(gamma=0.0),
    "no column is the target's": lambda r, _: r._replace(is_target=np.zeros_like(r.is_target)),
    "all columns but the target's are": lambda r, _: r._replace(is_target=~r.is_target),
    "target C is class C − 1": relabelled(lambda t, c: np.minimum(t, c - 1)),
    "target C is class 0": relabelled(lambda t, c: np.where(t == c, 0, t)),
    "the target is the class behind": relabelled(lambda t, _: t + 1),
    "targets are int64": relabelled(lambda t, c: np.append(t, np.full_like(t, c))[::2]),
    "targets are the bits of floats": relabelled(lambda t, _: t.astype("<i4").view("<f4").astype(np.int64)),
    "x has the other sign": lambda r, _: r._replace(x=-r.x),
    "p is the softmax of a row": _softmax,
    "rows begin at multiples of 32 elements": _padded,
    "x is rounded to bfloat16": lambda r, _: r._replace(x=shortened(r.x.astype("<f4"), 8).astype(np.float64)),
    "every result has the other sign": lambda _, v: -v,
    "the logarithm is to the base 2": lambda _, v: v / np.log(2),
    "results are divided by their number": lambda _, v: v / v.size,
    "every result is the sum of its row": lambda _, v: np.broadcast_to(v.sum(axis=1, keepdims=True), v.shape),
    "the target's column alone has a result": lambda r, v: np.where(r.is_target, v, 0),
    "NaN becomes 0": lambda _, v: np.nan_to_num(v),
    "NaN fills its row": lambda _, v: np.where(np.isnan(v).any(axis=1, keepdims=True), np.nan, v),
    "x^0 is 0": lambda r, v: v * (r.gamma != 0),
    "0^0 is NaN, as e^(0 · ln 0)": lambda r, v: np.where(
        (r.gamma == 0) & (np.where(r.is_target, r.x, -r.x) > 17), np.nan, v
    ),
}


def rounded(
    term: Callable[..., Any],
    number: type[np.floating] = np.float32,
    to: Callable[[Any], Any] = lambda values: shortened(values.astype(np.float32), 8),
) -> Mistake:
    """Every step is rounded, to bfloat16: p = 1/(1 + e^−x), ln of a normal number, and the term."""

    def values(r: Reading, _: Array) -> Array:
        one = number(1)
        p = to(one / to(one + to(np.exp(-to(r.x.astype(number))))))
        pt = np.asarray(np.where(r.is_target, p, to(one - p)), number)
        q, ln_pt = to(one - pt), to(np.log(np.maximum(pt, number(np.finfo(number).tiny))))
        share = np.where(r.is_target, number(r.alpha), to(one - number(r.alpha))).astype(number)
        value = to(to(share * to(q ** number(r.gamma))) * to(term(q, pt, ln_pt, number(r.gamma))))
        if term is gradient_term:
            value = np.where(r.is_target, -value, value)
        result: Array = to(value * r.factor.astype(number)).astype(np.float64)
        return result

    return values


def suspects(focal: Focal, own: Wrong) -> Mapping[str, Suspect]:
    """Outputs by each mistake, those of the operator's own too."""

    def outputs(mistake: Mistake, call: OpCall) -> Mapping[str, Array]:
        right = read(call)
        with np.errstate(all="ignore"):
            wrong = mistake(right, focal.values(right))
            values = focal.values(wrong) if isinstance(wrong, Reading) else wrong
            return {focal.output: narrowed(values, call.tensor(focal.output).dtype)}

    return {words: partial(outputs, mistake) for words, mistake in {**_OF_BOTH, **own}.items()}


def focal_mutants(operator: Operator, splits: tuple[int, ...] = ()) -> tuple[Mutant, ...]:
    """What is read and computed otherwise, what is left, what another call finds; `splits` cut columns."""
    right, output, axes = operator.kernel, operator.outputs[0].id, ((0, "rows"), (1, "columns"))
    return (
        *mistakes.suspected(operator),
        *mistakes.tails_left(right, output, 0, "rows", (16, 64)),
        *mistakes.tails_left(right, output, 1, "columns", (16, 64, *splits)),
        *(mistakes.part_left(right, output, axis, what) for axis, what in axes),
        *(mistakes.first_length_kept(right, output, axis, what) for axis, what in axes),
        mistakes.cached_by_shape(right),
        mistakes.sum_goes_on(right, output),
        *(mistakes.first_param_kept(right, name) for name in ("alpha", "gamma")),
        *(mistakes.input_cleared(right, name) for name in ("input", "target", "weight")),
    )
