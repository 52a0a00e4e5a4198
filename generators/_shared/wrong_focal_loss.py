"""Mistakes of kernels of focal_loss_sigmoid and of its derivative; for suspects and mutants."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Operator, mistakes, narrowed
from mluops_gtest.authoring.suspects import Suspect

from .focal_loss import Focal, Reading, gradient_term, has_weight, read
from .interpolation import shortened

# By the words behind "as if": what is read instead.
Change = Callable[[OpCall, Reading], Reading]
Changes = Mapping[str, Change]
# And what becomes of right values [N, C], in float64.
Result = Callable[[Array, Reading], Array]
Results = Mapping[str, Result]


def _targets(call: OpCall) -> Array:
    return call.array("target").astype(np.int64)


def relabelled(change: Callable[[Array, int], Array], columns: Callable[[int], Array] = np.arange) -> Change:
    """With other targets, by the right ones and C, or other numbers of columns."""

    def changed(call: OpCall, r: Reading) -> Reading:
        count = r.x.shape[1]
        return r._replace(is_target=change(_targets(call), count)[:, None] == columns(count))

    return changed


def _weighted(change: Callable[[Reading, Array], Mapping[str, Any]]) -> Change:
    """With this read otherwise where there is a weight, by the float64 weight [C]."""

    def changed(call: OpCall, r: Reading) -> Reading:
        return r._replace(**change(r, call.array("weight").astype(np.float64))) if has_weight(call) else r

    return changed


def _softmax(_: OpCall, r: Reading) -> Reading:
    """ln(p / (1 − p)) of p = softmax(x)."""
    others = np.exp(r.x).sum(axis=1, keepdims=True) - np.exp(r.x)
    return r._replace(x=r.x - np.log(np.maximum(others, 1e-9)))


def _padded(_: OpCall, r: Reading) -> Reading:
    rows, columns = r.x.shape
    places = np.arange(rows)[:, None] * (-(-columns // 32) * 32) + np.arange(columns)
    return r._replace(x=np.take(r.x.reshape(-1), places, mode="wrap"))


def _wrapped(call: OpCall, r: Reading) -> Reading:
    places = np.arange(len(r.x)) * r.x.shape[1] + _targets(call)
    return r._replace(is_target=np.isin(np.arange(r.x.size), places).reshape(r.x.shape))


CHANGES: Final[Changes] = {
    "the weight is that of the column": _weighted(lambda _, w: {"factor": w[None, :]}),
    "the weight is 1": _weighted(lambda *_: {"factor": np.ones((1, 1))}),
    "the weight counts in the target's column alone": _weighted(
        lambda r, _: {"factor": np.where(r.is_target, r.factor, 1)}
    ),
    "the weight counts in the first 64 rows alone": _weighted(
        lambda r, _: {"factor": np.where(np.arange(len(r.x))[:, None] < 64, r.factor, 1)}
    ),
    "alpha is 0.25 where there is a weight": _weighted(lambda *_: {"alpha": 0.25, "others": 0.75}),
    "gamma is 2 where there is a weight": _weighted(lambda *_: {"gamma": 2.0}),
    "alpha and 1 − alpha are exchanged": lambda _, r: r._replace(alpha=r.others, others=r.alpha),
    "αt is 1": lambda _, r: r._replace(alpha=1.0, others=1.0),
    "gamma is 0": lambda _, r: r._replace(gamma=0.0),
    "no column is the target's": lambda _, r: r._replace(is_target=np.zeros_like(r.is_target)),
    "all columns but the target's are": lambda _, r: r._replace(is_target=~r.is_target),
    "target C is class C − 1": relabelled(lambda t, c: np.minimum(t, c - 1)),
    "target C is class 0": relabelled(lambda t, c: np.where(t == c, 0, t)),
    "target C is column 0 of the next row": _wrapped,
    "the target is the class behind": relabelled(lambda t, _: t + 1),
    "targets are int64": relabelled(lambda t, c: np.append(t, np.full_like(t, c))[::2]),
    "targets are the bits of floats": relabelled(lambda t, _: t.astype("<i4").view("<f4").astype(np.int64)),
    "x has the other sign": lambda _, r: r._replace(x=-r.x),
    "p is the softmax of a row": _softmax,
    "rows begin at multiples of 32 elements": _padded,
    "x is rounded to bfloat16": lambda _, r: r._replace(x=shortened(r.x.astype("<f4"), 8).astype(np.float64)),
}


# Not among them: 0^0 = 0. In float 1 − p is 0 only where the result is below 1e-8, which no norm sees.
RESULTS: Final[Results] = {
    "every result has the other sign": lambda v, _: -v,
    "the logarithm is to the base 2": lambda v, _: v / np.log(2),
    "results are divided by their number": lambda v, _: v / v.size,
    "every result is the sum of its row": lambda v, _: np.broadcast_to(v.sum(axis=1, keepdims=True), v.shape),
    "the target's column alone has a result": lambda v, r: np.where(r.is_target, v, 0),
    "the target's column has no result": lambda v, r: np.where(r.is_target, 0, v),
    "NaN becomes 0": lambda v, _: np.nan_to_num(v),
    "NaN fills its row": lambda v, _: np.where(np.isnan(v).any(axis=1, keepdims=True), np.nan, v),
    "x^0 is 0": lambda v, r: v * (r.gamma != 0),
    "0^0 is NaN, as e^(0 · ln 0)": lambda v, r: np.where(
        (r.gamma == 0) & (np.where(r.is_target, r.x, -r.x) > 17), np.nan, v
    ),
}


def rounded(
    term: Callable[..., Any],
    number: type[np.floating] = np.float32,
    to: Callable[[Any], Any] = lambda values: shortened(values.astype(np.float32), 8),
) -> Result:
    """Every step is rounded, to bfloat16: p = 1/(1 + e^−x), ln of a normal number, and the term."""

    def values(_: Array, r: Reading) -> Array:
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


def suspects(focal: Focal, changes: Changes, results: Results) -> Mapping[str, Suspect]:
    """Outputs by each mistake, those of the operator's own too."""

    def written(values: Callable[[OpCall, Reading], Array]) -> Suspect:
        def outputs(call: OpCall) -> Mapping[str, Array]:
            with np.errstate(all="ignore"):
                return {focal.output: narrowed(values(call, read(call)), call.tensor(focal.output).dtype)}

        return outputs

    def of_change(change: Change) -> Suspect:
        return written(lambda call, r: focal.values(change(call, r)))

    def of_result(change: Result) -> Suspect:
        return written(lambda _, r: change(focal.values(r), r))

    return {
        **{words: of_change(change) for words, change in {**CHANGES, **changes}.items()},
        **{words: of_result(change) for words, change in {**RESULTS, **results}.items()},
    }


def focal_mutants(operator: Operator, output: str, splits: tuple[int, ...] = ()) -> Iterator[Mutant]:
    """What is read and computed otherwise, what is left, what another call finds; `splits` cut columns."""
    yield from mistakes.suspected(operator, {re.sub(r"\W+", "_", words): words for words in operator.suspects})
    right = operator.kernel
    for axis, what, tiles in ((0, "rows", ()), (1, "columns", splits)):
        yield from mistakes.tails_left(right, output, axis, what, (16, 64, *tiles))
        yield mistakes.part_left(right, output, axis, what)
        yield mistakes.first_length_kept(right, output, axis, what)
    yield mistakes.cached_by_shape(right)
    yield mistakes.sum_goes_on(right, output)
    yield from (mistakes.first_param_kept(right, name) for name in ("alpha", "gamma"))
    yield from (mistakes.input_cleared(right, name) for name in ("input", "target", "weight"))
