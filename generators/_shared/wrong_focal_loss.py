"""Mistakes of kernels of focal_loss_sigmoid and of its derivative; for suspects and mutants."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Operator, mistakes, narrowed
from mluops_gtest.authoring.suspects import Suspect

from .focal_loss import Focal, Reading, gradients, has_weight, read
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
    ("weight_of_others_alone", "the weight counts in all columns but the target's",
     _weights(lambda _, r, __: np.where(r.is_target, 1, r.factor))),
    ("weight_squared", "the weight counts twice", _weights(lambda _, r, __: r.factor**2)),
    ("weight_without_sign", "the weight has no sign", _weights(lambda _, r, __: np.abs(r.factor))),
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
    ("alpha_fixed", "alpha is 0.25", lambda _, r: r._replace(alpha=0.25, others=0.75)),
    ("alpha_without_sign", "alpha has no sign",
     lambda _, r: r._replace(alpha=abs(r.alpha), others=1 - abs(r.alpha))),
    ("gamma_ignored", "gamma is 0", lambda _, r: r._replace(gamma=0.0)),
    ("gamma_fixed", "gamma is 2", lambda _, r: r._replace(gamma=2.0)),
    ("gamma_whole", "gamma is a whole number", lambda _, r: r._replace(gamma=float(int(r.gamma)))),
    ("gamma_at_least_1", "gamma is at least 1", lambda _, r: r._replace(gamma=max(1.0, r.gamma))),
    ("gamma_limited", "gamma is at most 8", lambda _, r: r._replace(gamma=min(8.0, r.gamma))),
    ("gamma_one_more", "gamma is 1 more", lambda _, r: r._replace(gamma=r.gamma + 1)),
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
    ("class_0_lost", "class 0 is none", _relabelled(lambda t, _: np.where(t == 0, -1, t))),
    ("last_class_lost", "class C − 1 is none", _relabelled(lambda t, c: np.where(t == c - 1, -1, t))),
    ("targets_as_int64", "targets are int64", _relabelled(_read_as_int64)),
    ("targets_as_float", "targets are the bits of floats", _relabelled(
        lambda t, _: t.astype(np.int32).view(np.float32).astype(np.int64))),
    ("targets_of_8_bits", "targets have 8 bits", _relabelled(lambda t, _: t % 256)),
    ("targets_of_16_bits", "targets have 16 bits", _relabelled(lambda t, _: t.astype(np.int16).astype(np.int64))),
    ("first_target", "every row has the first row's target", _relabelled(lambda t, _: np.full_like(t, t[0]))),
    ("target_of_row_before", "targets are those of the row before", _relabelled(lambda t, _: np.roll(t, 1))),
    ("sign_of_x", "x has the other sign", lambda _, r: r._replace(x=-r.x)),
    ("x_without_sign", "x has no sign", lambda _, r: r._replace(x=np.abs(r.x))),
    ("x_limited", "x is limited to ±8", lambda _, r: r._replace(x=np.clip(r.x, -8, 8))),
    ("softmax", "p is the softmax of a row", _softmax),
    ("transposed", "x is [C, N]", lambda _, r: r._replace(x=r.x.T.reshape(r.x.shape))),
    ("padding_counted", "rows begin at multiples of 32 elements", _padded),
)  # fmt: skip


def _written(change: Callable[[Array, Reading], Array]) -> Callable[[Focal, OpCall], Array]:
    """What becomes of right values [N, C], in float64."""

    def write(focal: Focal, call: OpCall) -> Array:
        r = read(call)
        return narrowed(change(focal.values(r), r), call.tensor(focal.output).dtype)

    return write


RESULTS: Final[tuple[tuple[str, str, Callable[[Array, Reading], Array]], ...]] = (
    ("negated", "every result has the other sign", lambda v, _: -v),
    ("log2", "the logarithm is to the base 2", lambda v, _: v / np.log(2)),
    ("mean", "results are divided by their number", lambda v, _: v / v.size),
    ("mean_of_rows", "results are divided by the number of rows", lambda v, _: v / len(v)),
    ("summed", "every result is the sum of its row",
     lambda v, _: np.broadcast_to(v.sum(axis=1, keepdims=True), v.shape)),
    ("target_alone", "the target's column alone has a result", lambda v, r: np.where(r.is_target, v, 0)),
    ("others_alone", "the target's column has no result", lambda v, r: np.where(r.is_target, 0, v)),
    ("absolute", "results have no sign", lambda v, _: np.abs(v)),
    ("without_nan", "NaN becomes 0", lambda v, _: np.nan_to_num(v)),
    ("nan_of_row", "NaN fills its row",
     lambda v, _: np.where(np.isnan(v).any(axis=1, keepdims=True), np.nan, v)),
    ("zero_power_is_0", "0^0 is 0, and so is x^0", lambda v, r: v * (r.gamma != 0)),
)  # fmt: skip


def suspects(focal: Focal) -> Mapping[str, Suspect]:
    """Outputs by each mistake."""

    def reading(change: Change) -> Suspect:
        def outputs(call: OpCall) -> Mapping[str, Array]:
            return {focal.output: _quiet(lambda: _read_otherwise(focal, call, change))}

        return outputs

    def result(change: Callable[[Array, Reading], Array]) -> Suspect:
        return lambda call: {focal.output: _quiet(lambda: _written(change)(focal, call))}

    return {
        **{words: reading(change) for _, words, change in READINGS},
        **{words: result(change) for _, words, change in RESULTS},
    }


def _read_otherwise(focal: Focal, call: OpCall, change: Change) -> Array:
    return narrowed(focal.values(change(call, read(call))), call.tensor(focal.output).dtype)


def _quiet(compute: Callable[[], Array]) -> Array:
    with np.errstate(all="ignore"):
        return compute()


# Arithmetic that is too narrow, and columns that are split.

_SPLITS: Final = (27296, 23392)


def _naive(r: Reading, number: type[np.floating], round_: Callable[[Array], Array]) -> tuple[Array, ...]:
    """pt, q and ln pt in that type, each rounded, from p = 1/(1 + e^−x)."""
    one = number(1)
    p = round_(one / round_(one + round_(np.exp(-round_(r.x.astype(number))))))
    pt = np.where(r.is_target, p, round_(one - p)).astype(number)
    return pt, round_(one - pt), round_(np.log(np.maximum(pt, number(np.finfo(number).tiny))))


def _in_arithmetic(focal: Focal, r: Reading, number: type[np.floating], round_: Callable[[Array], Array]) -> Array:
    """The formula with every step rounded."""
    pt, q, ln_pt = _naive(r, number, round_)
    gamma = number(r.gamma)
    alpha = np.where(r.is_target, number(r.alpha), round_(number(1) - number(r.alpha))).astype(number)
    power = round_(q**gamma)
    if focal.values is gradients:
        last = round_(q - round_(gamma * round_(pt * ln_pt)))
        value = np.where(r.is_target, -1, 1).astype(number) * round_(round_(alpha * power) * last)
    else:
        value = -round_(round_(alpha * power) * ln_pt)
    return round_(value * r.factor.astype(number)).astype(np.float64)


def _of_part(call: OpCall, r: Reading, split: int) -> Reading:
    """Targets are compared with the number of a column in its part."""
    return r._replace(is_target=_targets(call)[:, None] == np.arange(r.x.shape[1]) % split)


def focal_mutants(operator: Operator, focal: Focal) -> Iterator[Mutant]:
    """What is read, computed and written otherwise, what is left, what another call finds."""
    yield from mistakes.suspected(operator, {name: words for name, words, _ in (*READINGS, *RESULTS)})
    right, output = operator.kernel, focal.output

    def computed(name: str, message: str, values: Callable[[OpCall, Reading], Array]) -> Mutant:
        def spoil(call: OpCall) -> None:
            if operator.answer(call).check is None:
                result = call.array(output)
                with np.errstate(all="ignore"):
                    result[...] = narrowed(values(call, read(call)), call.tensor(output).dtype)

        return mistakes.spoilt(name, message, right, spoil)

    def of_x(narrow: Callable[[Array], Array]) -> Callable[[OpCall, Reading], Array]:
        return lambda _, r: focal.values(r._replace(x=narrow(r.x.astype(np.float32)).astype(np.float64)))

    yield computed("bfloat16_inputs", "rounds x to bfloat16", of_x(lambda x: shortened(x, 8)))
    yield computed("integer_inputs", "rounds x to whole numbers", of_x(np.rint))
    yield computed("clamped", "forms 1 − p in float, and takes ln of FLT_MIN at least", lambda _, r: _in_arithmetic(
        focal, r, np.float32, lambda v: np.asarray(v, np.float32)))  # fmt: skip
    yield computed("bfloat16_arithmetic", "computes in bfloat16", lambda _, r: _in_arithmetic(
        focal, r, np.float32, lambda v: shortened(np.asarray(v, np.float32), 8)))  # fmt: skip
    yield computed("half_arithmetic", "computes in half", lambda _, r: _in_arithmetic(
        focal, r, np.float16, lambda v: np.asarray(v, np.float16)))  # fmt: skip
    for split in _SPLITS:
        yield computed(
            f"split_{split}", f"compares targets with columns of a part of {split}",
            lambda call, r, split=split: focal.values(_of_part(call, r, split)),  # type: ignore[misc]
        )  # fmt: skip
        yield computed(
            f"lost_behind_{split}", f"finds no target from {split} on",
            lambda _, r, split=split: focal.values(  # type: ignore[misc]
                r._replace(is_target=r.is_target & (np.arange(r.x.shape[1]) < split))
            ),
        )  # fmt: skip
    yield from mistakes.tails_left(right, output, 0, "rows", (16, 64))
    yield from mistakes.tails_left(right, output, 1, "columns", (16, 64, *_SPLITS))
    yield mistakes.part_left(right, output, 0, "rows")
    yield mistakes.part_left(right, output, 1, "columns")
    yield mistakes.cached_by_shape(right)
    yield mistakes.sum_goes_on(right, output)
    yield mistakes.first_length_kept(right, output, 0, "rows")
    yield mistakes.first_length_kept(right, output, 1, "columns")
    yield mistakes.first_param_kept(right, "alpha")
    yield mistakes.first_param_kept(right, "gamma")
    yield mistakes.input_cleared(right, "input")
    yield mistakes.input_cleared(right, "target")
    yield mistakes.input_cleared(right, "weight")
