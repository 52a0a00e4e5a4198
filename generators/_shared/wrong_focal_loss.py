"""Mistakes of kernels of focal_loss_sigmoid and of its derivative; for suspects and mutants."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Operator, mistakes, narrowed
from mluops_gtest.authoring.suspects import Suspect

from .focal_loss import Focal, Reading, gradients, has_weight, logs, losses, read
from .interpolation import shortened

Change = Callable[[OpCall, Reading], Reading]
Readings = tuple[tuple[str, str, Change], ...]


def _targets(call: OpCall) -> Array:
    return call.array("target").astype(np.int64)


def _relabelled(change: Callable[[Array, int], Array], columns: Callable[[int], Array] = np.arange) -> Change:
    """With other targets, by the right ones and C, or other numbers of columns."""

    def changed(call: OpCall, r: Reading) -> Reading:
        count = r.x.shape[1]
        return r._replace(is_target=change(_targets(call), count)[:, None] == columns(count))

    return changed


def _weights(change: Callable[[OpCall, Reading, Array], Array]) -> Change:
    """With another factor, where there is a weight, by the float64 weight [C]."""

    def changed(call: OpCall, r: Reading) -> Reading:
        return r._replace(factor=change(call, r, call.array("weight").astype(np.float64))) if has_weight(call) else r

    return changed


def _softmax(_: OpCall, r: Reading) -> Reading:
    """ln(p / (1 − p)) of p = softmax(x)."""
    others = np.exp(r.x).sum(axis=1, keepdims=True) - np.exp(r.x)
    return r._replace(x=r.x - np.log(np.maximum(others, 1e-9)))


def _padded(_: OpCall, r: Reading) -> Reading:
    rows, columns = r.x.shape
    places = np.arange(rows)[:, None] * (-(-columns // 32) * 32) + np.arange(columns)
    return r._replace(x=np.take(r.x.reshape(-1), places, mode="wrap"))


# Name, words behind "as if", and what is read instead.
READINGS: Final[Readings] = (
    ("weight_by_column", "the weight is that of the column", _weights(lambda _, __, w: w[None, :])),
    ("weight_ignored", "the weight is 1", _weights(lambda *_: np.ones((1, 1)))),
    ("weight_of_target_alone", "the weight counts in the target's column alone",
     _weights(lambda _, r, __: np.where(r.is_target, r.factor, 1))),
    ("weight_of_64_rows", "the weight counts in the first 64 rows alone",
     _weights(lambda _, r, __: np.where(np.arange(len(r.x))[:, None] < 64, r.factor, 1))),
    ("alpha_exchanged", "alpha and 1 − alpha are exchanged",
     lambda _, r: r._replace(alpha=r.others, others=r.alpha)),
    ("alpha_ignored", "αt is 1", lambda _, r: r._replace(alpha=1.0, others=1.0)),
    ("alpha_beside_weight", "alpha is 0.25 where there is a weight",
     lambda call, r: r._replace(alpha=0.25, others=0.75) if has_weight(call) else r),
    ("gamma_beside_weight", "gamma is 2 where there is a weight",
     lambda call, r: r._replace(gamma=2.0) if has_weight(call) else r),
    ("gamma_ignored", "gamma is 0", lambda _, r: r._replace(gamma=0.0)),
    ("no_target", "no column is the target's", lambda _, r: r._replace(is_target=np.zeros_like(r.is_target))),
    ("targets_exchanged", "all columns but the target's are",
     lambda _, r: r._replace(is_target=~r.is_target)),
    ("none_is_last", "target C is class C − 1", _relabelled(lambda t, c: np.minimum(t, c - 1))),
    ("none_is_first", "target C is class 0", _relabelled(lambda t, c: np.where(t == c, 0, t))),
    ("none_wraps", "target C is column 0 of the next row",
     lambda call, r: r._replace(is_target=np.isin(
         np.arange(r.x.size), np.arange(len(r.x)) * r.x.shape[1] + _targets(call)).reshape(r.x.shape))),
    ("target_one_more", "the target is the class behind", _relabelled(lambda t, _: t + 1)),
    ("targets_as_int64", "targets are int64", _relabelled(lambda t, c: np.append(t, np.full_like(t, c))[::2])),
    ("targets_as_float", "targets are the bits of floats", _relabelled(
        lambda t, _: t.astype(np.int32).view(np.float32).astype(np.int64))),
    ("sign_of_x", "x has the other sign", lambda _, r: r._replace(x=-r.x)),
    ("softmax", "p is the softmax of a row", _softmax),
    ("padding_counted", "rows begin at multiples of 32 elements", _padded),
    ("bfloat16_inputs", "x is rounded to bfloat16",
     lambda _, r: r._replace(x=shortened(r.x.astype(np.float32), 8).astype(np.float64))),
)  # fmt: skip
# The derivative is flat where x is small, and has no FAST.
FORGIVEN_BY_GRADIENTS: Final[Readings] = (
    ("x_from_18", "x is −18 at least", lambda _, r: r._replace(x=np.maximum(r.x, -18))),
    ("fast_gamma", "gamma is 2 with FAST", lambda call, r: r if call.param("prefer") else r._replace(gamma=2.0)),
)


def _of_parts(split: int) -> Readings:
    """Columns come in parts of so many."""
    return (
        (f"split_{split}", f"targets are compared with columns of a part of {split}",
         _relabelled(lambda t, _: t, lambda c: np.arange(c) % split)),
        (f"lost_behind_{split}", f"no target is found from {split} on",
         _relabelled(lambda t, _: np.where(t < split, t, -1))),
    )  # fmt: skip


# What becomes of right values [N, C], in float64.
Result = Callable[[Array, Reading], Array]
Results = tuple[tuple[str, str, Result], ...]


def formula(of: Callable[[Array, Array, Reading], Array]) -> Result:
    """Another formula of ln pt, ln q and what is read; αt and the weight are right."""

    def values(_: Array, r: Reading) -> Array:
        right, wrong, alpha = logs(r)
        return alpha * of(right, wrong, r) * r.factor

    return values


# Not among them: 0^0 = 0. In float 1 − p is 0 only where the result is below 1e-8, which no norm sees.
RESULTS: Final[Results] = (
    ("negated", "every result has the other sign", lambda v, _: -v),
    ("log2", "the logarithm is to the base 2", lambda v, _: v / np.log(2)),
    ("mean", "results are divided by their number", lambda v, _: v / v.size),
    ("summed", "every result is the sum of its row",
     lambda v, _: np.broadcast_to(v.sum(axis=1, keepdims=True), v.shape)),
    ("target_alone", "the target's column alone has a result", lambda v, r: np.where(r.is_target, v, 0)),
    ("others_alone", "the target's column has no result", lambda v, r: np.where(r.is_target, 0, v)),
    ("without_nan", "NaN becomes 0", lambda v, _: np.nan_to_num(v)),
    ("nan_of_row", "NaN fills its row",
     lambda v, _: np.where(np.isnan(v).any(axis=1, keepdims=True), np.nan, v)),
    ("x_power_0_is_0", "x^0 is 0", lambda v, r: v * (r.gamma != 0)),
    ("zero_power_is_nan", "0^0 is NaN, as e^(0 · ln 0)",
     lambda v, r: np.where((r.gamma == 0) & (np.where(r.is_target, r.x, -r.x) > 17), np.nan, v)),
)  # fmt: skip


# Arithmetic that is too narrow.


def _rounded(focal: Focal, r: Reading, number: type[np.floating], to: Callable[[Any], Any]) -> Array:
    """The formula from p = 1/(1 + e^−x) with every step rounded; ln is that of the smallest normal number at least."""
    one, gamma, alpha = number(1), number(r.gamma), number(r.alpha)
    p = to(one / to(one + to(np.exp(-to(r.x.astype(number))))))
    pt = np.asarray(np.where(r.is_target, p, to(one - p)), number)
    q, ln_pt = to(one - pt), to(np.log(np.maximum(pt, number(np.finfo(number).tiny))))
    share = to(np.where(r.is_target, alpha, to(one - alpha)).astype(number) * to(q**gamma))
    if focal.values is gradients:
        last = np.where(r.is_target, -1, 1).astype(number) * to(q - to(gamma * to(pt * ln_pt)))
    else:
        last = -ln_pt
    result: Array = to(to(share * last) * r.factor.astype(number)).astype(np.float64)
    return result


def _mistakes(focal: Focal, own: Results) -> Iterator[tuple[str, str, Callable[[OpCall, Reading], Array]]]:
    """All that are for that operator; `own` are those of its formula."""
    readings, results = list(READINGS), (*RESULTS, *own)
    for split in focal.splits:
        readings += _of_parts(split)
    if focal.values is losses:
        readings += FORGIVEN_BY_GRADIENTS
        results = (
            *results,
            ("clamped", "1 − p is formed in float, and ln is that of FLT_MIN at least",
             lambda _, r: _rounded(focal, r, np.float32, np.float32)),
            ("half_arithmetic", "arithmetic is in half", lambda _, r: _rounded(focal, r, np.float16, np.float16)),
        )  # fmt: skip
    for name, words, change in readings:
        yield name, words, lambda call, r, change=change: focal.values(change(call, r))  # type: ignore[misc]
    for name, words, of in results:
        yield name, words, lambda _, r, of=of: of(focal.values(r), r)  # type: ignore[misc]
    yield (
        "bfloat16_arithmetic",
        "arithmetic is in bfloat16",
        lambda _, r: _rounded(focal, r, np.float32, lambda values: shortened(values.astype(np.float32), 8)),
    )


def suspects(focal: Focal, own: Results) -> Mapping[str, Suspect]:
    """Outputs by each mistake."""

    def written(values: Callable[[OpCall, Reading], Array]) -> Suspect:
        def outputs(call: OpCall) -> Mapping[str, Array]:
            with np.errstate(all="ignore"):
                return {focal.output: narrowed(values(call, read(call)), call.tensor(focal.output).dtype)}

        return outputs

    return {words: written(values) for _, words, values in _mistakes(focal, own)}


def focal_mutants(operator: Operator, focal: Focal, own: Results) -> Iterator[Mutant]:
    """What is read and computed otherwise, what is left, what another call finds."""
    yield from mistakes.suspected(operator, {name: words for name, words, _ in _mistakes(focal, own)})
    right, output = operator.kernel, focal.output
    for axis, what, tiles in ((0, "rows", ()), (1, "columns", focal.splits)):
        yield from mistakes.tails_left(right, output, axis, what, (16, 64, *tiles))
        yield mistakes.part_left(right, output, axis, what)
        yield mistakes.first_length_kept(right, output, axis, what)
    yield mistakes.cached_by_shape(right)
    yield mistakes.sum_goes_on(right, output)
    yield from (mistakes.first_param_kept(right, name) for name in ("alpha", "gamma"))
    yield from (mistakes.input_cleared(right, name) for name in ("input", "target", "weight"))
