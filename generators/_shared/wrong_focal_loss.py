"""Mistakes of kernels of focal_loss_sigmoid and of its derivative; for suspects and mutants."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Operator, mistakes, narrowed
from mluops_gtest.authoring.suspects import Suspect

from .focal_loss import Focal, Reading, gradients, has_weight, logs, losses, read
from .interpolation import shortened

Change = Callable[[OpCall, Reading], Reading]


def _targets(call: OpCall) -> Array:
    return call.array("target").astype(np.int64)


def _relabelled(change: Callable[[Array, int], Array]) -> Change:
    """With other targets, by the right ones and C."""

    def changed(call: OpCall, r: Reading) -> Reading:
        columns = r.x.shape[1]
        return r._replace(is_target=change(_targets(call), columns)[:, None] == np.arange(columns))

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
    """Rows begin at multiples of 32 elements."""
    rows, columns = r.x.shape
    places = np.arange(rows)[:, None] * (-(-columns // 32) * 32) + np.arange(columns)
    return r._replace(x=np.take(r.x.reshape(-1), places, mode="wrap"))


def _read_as_int64(target: Array, columns: int) -> Array:
    """Row n reads 2n and 2n + 1, little-endian, and what lies behind is none."""
    pairs = np.full(2 * len(target), columns, np.int64)
    pairs[: len(target)] = target
    return pairs[::2] + (pairs[1::2] << 32)


# Name, words behind "as if", and what is read instead.
READINGS: Final[tuple[tuple[str, str, Change], ...]] = (
    ("weight_by_column", "the weight is that of the column", _weights(lambda _, __, w: w[None, :])),
    ("weight_ignored", "the weight is 1", _weights(lambda *_: np.ones((1, 1)))),
    ("weight_of_target_alone", "the weight counts in the target's column alone",
     _weights(lambda _, r, __: np.where(r.is_target, r.factor, 1))),
    ("weight_squared", "the weight counts twice", _weights(lambda _, r, __: r.factor**2)),
    ("weight_of_row", "the weight is that of the row's number",
     _weights(lambda _, r, w: np.resize(w, len(r.x))[:, None])),
    ("weight_of_row_before", "the weight is that of the row before",
     _weights(lambda _, r, __: np.roll(r.factor, 1, axis=0))),
    ("first_weight", "every weight is the first one", _weights(lambda _, __, w: w[:1, None])),
    ("alpha_exchanged", "alpha and 1 − alpha are exchanged",
     lambda _, r: r._replace(alpha=r.others, others=r.alpha)),
    ("alpha_ignored", "αt is 1", lambda _, r: r._replace(alpha=1.0, others=1.0)),
    ("alpha_everywhere", "αt is alpha in all columns", lambda _, r: r._replace(others=r.alpha)),
    ("alpha_of_target_alone", "αt is 1 in all columns but the target's", lambda _, r: r._replace(others=1.0)),
    ("gamma_ignored", "gamma is 0", lambda _, r: r._replace(gamma=0.0)),
    ("gamma_whole", "gamma is a whole number", lambda _, r: r._replace(gamma=float(int(r.gamma)))),
    ("gamma_at_least_1", "gamma is at least 1", lambda _, r: r._replace(gamma=max(1.0, r.gamma))),
    ("gamma_limited", "gamma is at most 8", lambda _, r: r._replace(gamma=min(8.0, r.gamma))),
    ("exchanged_parameters", "alpha and gamma are exchanged",
     lambda _, r: r._replace(alpha=r.gamma, others=1 - r.gamma, gamma=max(0.0, r.alpha))),
    ("no_target", "no column is the target's", lambda _, r: r._replace(is_target=np.zeros_like(r.is_target))),
    ("all_targets", "every column is the target's", lambda _, r: r._replace(is_target=np.ones_like(r.is_target))),
    ("targets_exchanged", "all columns but the target's are",
     lambda _, r: r._replace(is_target=~r.is_target)),
    ("none_is_last", "target C is class C − 1", _relabelled(lambda t, c: np.minimum(t, c - 1))),
    ("none_is_first", "target C is class 0", _relabelled(lambda t, c: np.where(t == c, 0, t))),
    ("none_wraps", "target C is column 0 of the next row",
     lambda call, r: r._replace(is_target=np.isin(
         np.arange(r.x.size), np.arange(len(r.x)) * r.x.shape[1] + _targets(call)).reshape(r.x.shape))),
    ("targets_from_1", "targets are counted from 1", _relabelled(lambda t, c: np.where(t < c, t - 1, t))),
    ("target_one_more", "the target is the class behind", _relabelled(lambda t, _: t + 1)),
    ("last_class_lost", "class C − 1 is none", _relabelled(lambda t, c: np.where(t == c - 1, -1, t))),
    ("targets_as_int64", "targets are int64", _relabelled(_read_as_int64)),
    ("targets_as_float", "targets are the bits of floats", _relabelled(
        lambda t, _: t.astype(np.int32).view(np.float32).astype(np.int64))),
    ("first_target", "every row has the first row's target", _relabelled(lambda t, _: np.full_like(t, t[0]))),
    ("target_of_row_before", "targets are those of the row before", _relabelled(lambda t, _: np.roll(t, 1))),
    ("sign_of_x", "x has the other sign", lambda _, r: r._replace(x=-r.x)),
    ("softmax", "p is the softmax of a row", _softmax),
    ("padding_counted", "rows begin at multiples of 32 elements", _padded),
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


def suspects(focal: Focal, own: Results) -> Mapping[str, Suspect]:
    """Outputs by each mistake, those of the operator's own too."""

    def written(values: Callable[[OpCall, Reading], Array]) -> Suspect:
        def outputs(call: OpCall) -> Mapping[str, Array]:
            with np.errstate(all="ignore"):
                return {focal.output: narrowed(values(call, read(call)), call.tensor(focal.output).dtype)}

        return outputs

    def of_reading(change: Change) -> Suspect:
        return written(lambda call, r: focal.values(change(call, r)))

    def of_result(change: Result) -> Suspect:
        return written(lambda _, r: change(focal.values(r), r))

    return {
        **{words: of_reading(change) for _, words, change in READINGS},
        **{words: of_result(change) for _, words, change in (*RESULTS, *own)},
    }


# Arithmetic that is too narrow, and columns that are split.

Rounding = Callable[[Any], Any]


def _in_arithmetic(focal: Focal, r: Reading, number: type[np.floating], to: Rounding) -> Array:
    """The formula from p = 1/(1 + e^−x) with every step rounded; ln is that of the smallest normal number at least."""
    one, gamma, alpha = number(1), number(r.gamma), number(r.alpha)
    p = to(one / to(one + to(np.exp(-to(r.x.astype(number))))))
    pt = np.asarray(np.where(r.is_target, p, to(one - p)), number)
    q, ln_pt = to(one - pt), to(np.log(np.maximum(pt, number(np.finfo(number).tiny))))
    share = to(np.where(r.is_target, alpha, to(one - alpha)).astype(number) * to(q**gamma))
    if focal.values is gradients:
        sign = np.where(r.is_target, -1, 1).astype(number)
        value = to(sign * share * to(q - to(gamma * to(pt * ln_pt))))
    else:
        value = -to(share * ln_pt)
    result: Array = to(value * r.factor.astype(number)).astype(np.float64)
    return result


def _lost_behind(split: int, r: Reading) -> Reading:
    """No target is found in the second part of the columns."""
    return r._replace(is_target=r.is_target & (np.arange(r.x.shape[1]) < split))


def _of_part(call: OpCall, r: Reading, split: int) -> Reading:
    """Targets are compared with the number of a column in its part."""
    return r._replace(is_target=_targets(call)[:, None] == np.arange(r.x.shape[1]) % split)


def focal_mutants(operator: Operator, focal: Focal, own: Results, splits: tuple[int, ...]) -> Iterator[Mutant]:
    """What is read, computed and written otherwise, what is left, what another call finds; `splits` cut columns."""
    yield from mistakes.suspected(operator, {name: words for name, words, _ in (*READINGS, *RESULTS, *own)})
    right, output = operator.kernel, focal.output

    def computed(name: str, message: str, values: Callable[[OpCall, Reading], Array]) -> Mutant:
        def spoil(call: OpCall) -> None:
            if operator.answer(call).check is None:
                result = call.array(output)
                with np.errstate(all="ignore"):
                    result[...] = narrowed(values(call, read(call)), call.tensor(output).dtype)

        return mistakes.spoilt(name, message, right, spoil)

    def bfloat16(values: Array) -> Array:
        return shortened(values.astype(np.float32), 8)

    def arithmetic(number: type[np.floating], to: Rounding) -> Callable[[OpCall, Reading], Array]:
        return lambda _, r: _in_arithmetic(focal, r, number, to)

    yield computed(
        "bfloat16_inputs",
        "rounds x to bfloat16",
        lambda _, r: focal.values(r._replace(x=bfloat16(r.x).astype(np.float64))),
    )
    yield computed("bfloat16_arithmetic", "computes in bfloat16", arithmetic(np.float32, bfloat16))
    # The derivative multiplies ln by its own argument, which forgives both.
    if focal.values is losses:
        yield computed(
            "clamped", "forms 1 − p in float, and takes ln of FLT_MIN at least", arithmetic(np.float32, np.float32)
        )
        yield computed("half_arithmetic", "computes in half", arithmetic(np.float16, np.float16))
    for split in splits:
        yield computed(
            f"split_{split}",
            f"compares targets with columns of a part of {split}",
            lambda call, r, split=split: focal.values(_of_part(call, r, split)),  # type: ignore[misc]
        )
        yield computed(
            f"lost_behind_{split}",
            f"finds no target from {split} on",
            lambda _, r, split=split: focal.values(_lost_behind(split, r)),  # type: ignore[misc]
        )
    yield from mistakes.tails_left(right, output, 0, "rows", (16, 64))
    yield from mistakes.tails_left(right, output, 1, "columns", (16, 64, *splits))
    yield mistakes.part_left(right, output, 0, "rows")
    yield mistakes.part_left(right, output, 1, "columns")
    yield mistakes.cached_by_shape(right)
    yield mistakes.sum_goes_on(right, output)
    yield mistakes.first_length_kept(right, output, 0, "rows")
    yield mistakes.first_length_kept(right, output, 1, "columns")
    yield mistakes.first_param_kept(right, "alpha")
    yield mistakes.first_param_kept(right, "gamma")
    for name in ("input", "target", "weight"):
        yield mistakes.input_cleared(right, name)
