"""What a law says of an output, computed from the right values and independently of how laws are found."""

from functools import partial

import numpy as np
from msgspec.structs import replace

from mluops_gtest.core import explanation as x
from mluops_gtest.core.call import OpCall
from mluops_gtest.core.tensor import DType, widened

# Bits of the significand, the leading one included.
BITS = {"half": 11, "tf32": 11, "bfloat16": 8}
# What rounding may add to what a law computes, in units of the last place.
ULPS = 4


def narrow(values, precision, *, truncated=False):
    """float64 values with as many bits as the type has, to the nearest or towards zero."""
    values = np.asarray(values, np.float64)
    fractions, exponents = np.frexp(values)
    # Below its smallest normal number half has fewer bits; exponents as frexp has them.
    lost = np.maximum(0, -13 - exponents) if precision == "half" else 0
    scale = np.ldexp(1.0, BITS[precision] - lost)
    cut = np.trunc if truncated else np.rint
    with np.errstate(invalid="ignore", over="ignore"):
        result = np.ldexp(cut(fractions * scale) / scale, exponents)
    largest = 65504.0 if precision == "half" else float(np.finfo(np.float32).max)
    beyond = largest if truncated else np.inf
    result = np.where(np.abs(result) > largest, np.copysign(beyond, values), result)
    return np.where(np.isfinite(values), result, values)


def precisions(law):
    """The types that a law of rounding names, one or two."""
    return law.precision.split(" or ")


def _moved(law, shape):
    """Flat indices of where each element comes from, -1 where there is no such place; None for other laws."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    match law:
        case x.PermutedAlong(axis=axis, order=order):
            return places.take(order, axis)
        case x.RepeatedAlong(axis=axis, index=index):
            return np.broadcast_to(places.take([index], axis), shape)
        case x.ReversedAlong(axis=axis):
            return np.flip(places, axis)
        case x.LaidOut(order=order):
            return places.transpose(order).reshape(shape)
        case x.ShiftedAlongAxes(offset=offset):
            there = np.indices(shape) + np.array(offset).reshape(-1, *([1] * len(shape)))
            limits = np.array(shape).reshape(-1, *([1] * len(shape)))
            inside = ((there >= 0) & (there < limits)).all(axis=0)
            flat = np.ravel_multi_index(tuple(np.clip(there, 0, limits - 1)), shape)
            return np.where(inside, flat, -1)
        case x.ShiftedInMemory(offset=offset):
            there = places + offset
            return np.where((there >= 0) & (there < places.size), there, -1)
    return None


def rounded_call(call: OpCall, precision, *, truncated=False):
    """The call with float inputs, and half ones where bfloat16 has fewer bits, rounded to the type."""
    inputs = {}
    for name, one in call.inputs.items():
        is_wider = one is not None and (
            one.dtype is DType.FLOAT or (one.dtype is DType.HALF and precision == "bfloat16")
        )
        if is_wider and one.array is not None:
            made = narrow(one.array, precision, truncated=truncated).astype(one.array.dtype)
            inputs[name] = replace(one, array=made)
        else:
            inputs[name] = one
    return replace(call, inputs=inputs)


def predict(law, baseline, *, output="", operator=None, call=None):
    """The whole output by the law, in its shape: float64 for real numbers, NaN where it says nothing.

    `baseline` are the right values as numbers (`widened`). Laws that recompute need the operator, a call with its
    inputs, and the output's name. None for laws that give no values: TurnedInfinite, NeverWritten, OneSided,
    ReorderedAlong, WithinUlp, and types in which the output is kept (see `breaches`).
    """
    if baseline.dtype.kind == "f" or (baseline.dtype.kind in "iu" and baseline.dtype.itemsize < 8):
        right = baseline.astype(np.float64)
    else:
        right = baseline
    moved = _moved(law, baseline.shape)
    if moved is not None:
        values = right.reshape(-1)[moved]
        return values if (moved >= 0).all() else np.where(moved >= 0, values, np.nan)
    if type(law) in VALUES:
        return VALUES[type(law)](law, right)
    match law:
        case x.TurnedConstant(value=value):
            return np.full_like(right, baseline.dtype.type(value))
        case x.RoundedTo(once=True):
            return narrow(right, precisions(law)[0], truncated=law.is_truncated)
        case x.AsIf(mistake=mistake):
            made = operator.suspects[mistake](call)
        case x.RoundedInputs():
            misread = rounded_call(call, precisions(law)[0], truncated=law.is_truncated)
            made = operator.reference(misread).outputs
        case _:
            return None
    return _owned(made[output], baseline, call.tensor(output).dtype)


def _wrapped(law, right):
    base = 2 ** (law.bits - 1) if law.signed else 0
    return np.mod(right + base, 2**law.bits) - base


# Of the right value of the same element alone.
VALUES = {
    x.PresetUnchanged: lambda law, right: np.full_like(right, law.value),
    x.TurnedNan: lambda _, right: np.full_like(right, np.nan),
    x.TurnedZero: lambda _, right: np.zeros_like(right),
    x.SaturatedAt: lambda law, right: np.clip(right, -float(law.limit), float(law.limit)),
    x.Negated: lambda _, right: -right,
    x.LostSign: lambda _, right: np.abs(right),
    x.ScaledBy: lambda law, right: right * law.factor,
    x.OffBy: lambda law, right: right + law.amount,
    x.WrappedTo: _wrapped,
}


def _owned(made, baseline, dtype):
    values = widened(np.asarray(made[: len(baseline)]), dtype)
    return values.astype(np.float64) if values.dtype.kind == "f" else values


def breaches(law, evaluated, baseline, wrong, *, epsilon=0.0, allowed=None, **recompute):
    """Flat indices of the wrong elements that are not what the law says, or of which it says what is right anyway.

    `evaluated` and `baseline` are numbers (`widened`), `epsilon` is the unit in the last place of 1 in the output's
    own type (0 for integers), `allowed` what arithmetic allows each element (None: nothing).
    """
    # Beside what is not finite arithmetic allows nothing.
    allowed = None if allowed is None else np.where(np.isfinite(allowed), allowed, 0.0)
    with np.errstate(all="ignore"):
        places = np.flatnonzero(wrong)
        return places[~_is_kept(law, evaluated, baseline, places, epsilon, allowed, recompute)]


def _is_kept(law, evaluated, baseline, places, epsilon, allowed, recompute):
    kind, is_wide = evaluated.dtype.kind, evaluated.dtype.itemsize == 8
    is_real = kind == "f" or (kind in "iu" and not is_wide)
    number = partial(np.asarray, dtype=np.float64) if is_real else np.asarray
    e, b = number(evaluated.reshape(-1)[places]), number(baseline.reshape(-1)[places])
    slack = np.zeros(len(places)) if allowed is None else np.asarray(allowed, np.float64).reshape(-1)[places]
    # Beside an infinite value arithmetic allows no number.
    slack = np.where(np.isfinite(slack), slack, 0.0)
    match law:
        case x.NeverWritten():
            return np.ones(len(places), bool)
        case x.TurnedNan():
            return np.isnan(e) & ~np.isnan(b)
        case x.TurnedInfinite():
            return np.isinf(e) & np.isfinite(b)
        case x.OneSided(side=side):
            sides = {
                "smaller": e < b,
                "larger": e > b,
                "nearer to zero": np.abs(e) < np.abs(b),
                "further from zero": np.abs(e) > np.abs(b),
            }
            return sides[side]
        case x.ReorderedAlong(axis=axis):
            return np.full(len(places), _is_reordered(evaluated, baseline, axis, epsilon, allowed))
        case x.WithinUlp(ulp=ulp):
            # Said of the whole output, right elements included.
            return np.full(len(places), bool((ulps_apart(evaluated, baseline, epsilon) <= ulp).all()))
        case x.RoundedTo():
            return _is_narrow(law, e, b, slack)
        case x.BelongElsewhere():
            right = set(baseline.reshape(-1).tolist())
            return np.array([value in right for value in evaluated.reshape(-1)[places].tolist()]) & (e != b)
        case x.MisplacedZeros():
            return (e == 0) != (b == 0)
    if epsilon and hasattr(law, "factor"):
        slack = slack * abs(law.factor)
    predicted = predict(law, baseline, **recompute)
    exists, moved = True, _moved(law, baseline.shape)
    if moved is not None:
        sources = moved.reshape(-1)[places]
        exists = sources >= 0
        slack = slack if allowed is None else np.asarray(allowed, np.float64).reshape(-1)[sources]
    p = number(predicted.reshape(-1)[places])
    room = ULPS * epsilon * np.abs(p) + slack
    return (_are_same(e, p) | (np.abs(e - p) <= room)) & ~_are_same(p, b) & exists


def _are_same(values, others):
    both_nan = np.isnan(values) & np.isnan(others) if values.dtype.kind in "fc" else False
    return (values == others) | both_nan


def _is_narrow(law, e, b, slack):
    """The type holds the value, which lies one rounding from the right one where the law says so."""
    truncated = law.is_truncated
    kept = np.ones(len(e), bool)
    for precision in precisions(law):
        holds = narrow(e, precision) == e
        if law.once:
            made = narrow(b, precision, truncated=truncated)
            exponents = np.frexp(b)[1]
            unit = np.ldexp(1.0, np.maximum(exponents, -13 if precision == "half" else -125) - BITS[precision])
            room = (unit if truncated else unit / 2) + slack
            beside = np.abs(e - b) <= room
            if truncated:
                beside &= np.abs(e) <= np.abs(b) + slack
            holds = (holds & beside) | (e == made)
        kept &= holds
    return kept


def _is_reordered(evaluated, baseline, axis, epsilon, allowed):
    """Along the axis each slice is one of the right ones, within rounding."""
    rows, right = (np.moveaxis(one, axis, 0).reshape(one.shape[axis], -1) for one in (evaluated, baseline))
    slack = 0.0 if allowed is None else np.moveaxis(np.asarray(allowed), axis, 0).reshape(rows.shape)
    if evaluated.dtype.kind == "f":
        rows, right = rows.astype(np.float64), right.astype(np.float64)
    room = ULPS * epsilon * np.abs(right) + slack
    return all(bool(((np.abs(row - right) <= room) | _are_same(row, right)).all(axis=1).any()) for row in rows)


def ulps_apart(evaluated, baseline, epsilon):
    """How many numbers of the output's own type lie between both, at each element; infinite beside NaN."""
    bits = f"i{evaluated.dtype.itemsize}"

    def ranks(values):
        patterns = values.view(bits).astype(object)
        least = -(2 ** (8 * evaluated.dtype.itemsize - 1))
        return np.where(patterns < 0, least - patterns, patterns)

    apart = np.abs(ranks(np.ascontiguousarray(evaluated)) - ranks(np.ascontiguousarray(baseline))).astype(np.float64)
    apart = apart * float(np.finfo(evaluated.dtype).eps) / epsilon
    is_same = (evaluated == baseline) | (np.isnan(evaluated) & np.isnan(baseline))
    finite = np.isfinite(evaluated) & np.isfinite(baseline)
    return np.where(is_same, 0.0, np.where(finite, apart, np.inf))
