"""The element-wise check: every element by itself, held to what arithmetic allows.

diff1 and diff2 judge an output as a whole, so that one wrong element among a million passes. Here each element may be
off by γ(n) · Σ|terms|, with γ(n) = n·u / (1 − n·u), by underflow, and by the roundings of the result and of the stored
baseline; by nothing at all where every partial sum is exact. A half sum of n ≥ 1/u terms has no such bound: there it is
that of a sum of √n blocks which are rounded to half.
"""

import math
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from mluops_gtest.base.files import let_go
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.native.arrays import NativeLimits
from mluops_gtest.core.operator import Bound
from mluops_gtest.core.tensor import Array, DType, Precision
from mluops_gtest.judging.blocks import BLOCK, elements_of
from mluops_gtest.judging.figures import Beyond

# Significant bits, and the exponent (as frexp has it) of the smallest normal number.
_FORMATS: Final = {DType.HALF: (11, -13), DType.BFLOAT16: (8, -125), DType.FLOAT: (24, -125), DType.DOUBLE: (53, -1021)}
# The smallest number above 0 of what sums are kept in: half of it is what a product may lose below the normal range.
_TINY: Final = {24: 2.0**-149, 11: 2.0**-24}
# So many roundings, by significant bits, and the bound is that of blocks: n·u reaches 1. No float sum is cut.
_BLOCKS_FROM: Final = {24: math.inf, 11: 2.0**11}


class Limits(NamedTuple):
    """What arithmetic allows an output, and the precision that its sums are kept in; or, no less, may be kept in."""

    bound: Bound
    precision: Precision = Precision.FLOAT
    excused: Precision | None = None


class ElementErrors(Value):
    """How many elements are beyond their bound, and the one that is furthest from it; indices are flat."""

    beyond: int
    compared: int
    # The largest |e−b| over what is allowed there; infinite where nothing is.
    ratio: float
    worst: int | None
    # What is allowed at the worst element.
    allowed: float
    first: int | None
    last: int | None
    # Elements that are beyond what was declared and within what half arithmetic allows, to which the rest is held then.
    as_half: int = 0


def can_be_bounded(dtype: DType) -> bool:
    """There is a rounding to speak of: real floating-point types."""
    return dtype in _FORMATS


def element_errors(
    evaluated: Array, baseline: Array, dtype: DType, bound: Bound, precision: Precision = Precision.FLOAT
) -> ElementErrors:
    """Every element held to the bound; a NaN or an infinity that does not meet its like is beyond any."""
    beyond, ratio, worst, allowed_there = 0, 0.0, None, 0.0
    first = last = None
    for places, ratios, allowed in _unequal(evaluated, baseline, dtype, bound, precision):
        found = places[ratios > 1]
        if found.size:
            beyond += found.size
            first = int(found[0]) if first is None else first
            last = int(found[-1])
        place = int(ratios.argmax())
        if ratios[place] > ratio:
            ratio, worst = float(ratios[place]), int(places[place])
            # Sums of infinities allow no number; where one side is none, nothing is allowed.
            allowed_there = 0.0 if np.isnan(allowed[place]) else float(allowed[place])
    return ElementErrors(beyond, baseline.size, ratio, worst, allowed_there, first, last)


def half_excused(limits: Limits, hold: Callable[[Bound, Precision], ElementErrors]) -> ElementErrors:
    """What `hold` finds, without the elements of a half output that half arithmetic explains."""
    bound, precision, excused = limits
    errors = hold(bound, precision)
    if not errors.beyond or excused in (None, precision):
        return errors
    within = hold(bound, excused)
    as_half = errors.beyond - within.beyond
    return replace(within, as_half=as_half) if as_half else errors


def native_limits(bound: Bound, precision: Precision, dtype: DType, shape: tuple[int, ...]) -> NativeLimits:
    """The same for the C library, which follows `_allowed` and `_ratios` step by step."""
    significant, smallest = _FORMATS[dtype]
    loss, tiny, behind = _loss(bound, precision, dtype), _TINY[precision.bits], float(bound.afterwards)
    return NativeLimits(
        shape,
        bound.magnitude,
        bound.roundings,
        bound.unit,
        roundoff=2.0**-precision.bits,
        blocks_from=_BLOCKS_FROM[precision.bits],
        loss=loss * (2 + loss),
        tiny=tiny,
        behind=float(_gamma(np.float64(behind), precision.bits)),
        behind_underflow=behind * tiny / 2,
        sums=2.0**precision.bits,
        results=2.0**significant,
        smallest_unit=2.0 ** (smallest - significant),
        smallest=smallest,
        significant=significant,
        rounds_twice=significant < Precision.FLOAT.bits,
    )


def errors_from_native(beyond: Beyond, compared: int) -> ElementErrors:
    """What the C library found."""
    number, first, last = beyond.places
    return ElementErrors(
        number,
        compared,
        beyond.ratio,
        beyond.furthest if beyond.furthest >= 0 else None,
        beyond.allowed,
        first if number else None,
        last if number else None,
    )


def beyond_bound(
    evaluated: Array, baseline: Array, dtype: DType, bound: Bound, precision: Precision = Precision.FLOAT
) -> Array:
    """The flat indices of the elements beyond their bound."""
    return _beyond(evaluated, baseline, dtype, bound, precision)[0]


def furthest_beyond(
    evaluated: Array, baseline: Array, dtype: DType, bound: Bound, precision: Precision, most: int
) -> tuple[int, Array]:
    """How many elements are beyond their bound, and the flat indices of the `most` that are furthest from it."""
    places, ratios = _beyond(evaluated, baseline, dtype, bound, precision)
    return places.size, places[np.argsort(-ratios, kind="stable")[:most]]


def _beyond(evaluated: Array, baseline: Array, dtype: DType, bound: Bound, precision: Precision) -> tuple[Array, Array]:
    found = [(np.zeros(0, np.int64), np.zeros(0))]
    for places, ratios, _ in _unequal(evaluated, baseline, dtype, bound, precision):
        found.append((places[ratios > 1], ratios[ratios > 1]))
    return np.concatenate([places for places, _ in found]), np.concatenate([ratios for _, ratios in found])


def allowances(
    evaluated: Array, baseline: Array, dtype: DType, bound: Bound, precision: Precision = Precision.FLOAT
) -> Array:
    """What each element may be off by, in float64; one that is no number anywhere has NaN or what its number has."""
    with np.errstate(all="ignore"):
        e, b = (elements_of(dtype).values(array).astype(np.float64) for array in (evaluated, baseline))
        return np.broadcast_to(_allowed(e, b, dtype, bound, precision), baseline.shape)


def _unequal(
    evaluated: Array, baseline: Array, dtype: DType, bound: Bound, precision: Precision
) -> Iterator[tuple[Array, Array, Array]]:
    """Block by block the flat indices of unequal elements, their errors over what is allowed, and what is allowed."""
    with np.errstate(all="ignore"):  # NaN and Inf are looked at as what they are
        for index, start in _blocks(baseline.shape):
            e, b = (elements_of(dtype).values(array[index]) for array in (evaluated, baseline))
            unequal = e != b
            if not unequal.any():
                continue
            unequal &= ~(np.isnan(e) & np.isnan(b))
            places = np.flatnonzero(unequal)
            if not places.size:
                continue
            block = bound.part(index, baseline.shape)
            here = block.part(unequal, unequal.shape)
            e, b = (values[unequal].astype(np.float64) for values in (e, b))
            allowed = np.broadcast_to(_allowed(e, b, dtype, here, precision), b.shape)
            yield start + places, _ratios(e, b, allowed), allowed
            let_go(baseline[index])
            let_go(np.asarray(block.magnitude))


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[tuple[int | slice, ...], int]]:
    """Indices that cut an array into parts of about a block, and the flat index where each begins."""
    axis = next((axis for axis in range(len(shape)) if math.prod(shape[axis + 1 :]) <= BLOCK), 0)
    row = math.prod(shape[axis + 1 :])
    step = max(1, BLOCK // max(row, 1))
    for number, outer in enumerate(np.ndindex(*shape[:axis])):
        for start in range(0, shape[axis], step):
            yield (*outer, slice(start, start + step)), (number * shape[axis] + start) * row


def _allowed(e: Array, b: Array, dtype: DType, bound: Bound, precision: Precision) -> Array:
    """What |e−b| may be."""
    magnitude, roundings, unit = (
        np.asarray(values, np.float64) for values in (bound.magnitude, bound.roundings, bound.unit)
    )
    # Float sums of √n terms lose less than one rounding to half; then a block is rounded, and added to the others.
    is_cut = roundings >= _BLOCKS_FROM[precision.bits]
    roundings = np.where(is_cut, np.ceil(np.sqrt(roundings)) + 1, roundings)
    tiny = _TINY[precision.bits]
    loss = _loss(bound, precision, dtype)
    summing = magnitude * (_gamma(roundings, precision.bits) + loss * (2 + loss)) + (roundings + 1) * tiny / 2
    no_sum_rounds = (magnitude <= 2.0**precision.bits * unit) & (unit >= tiny) & (loss == 0)
    summing = np.where(no_sum_rounds | (roundings == 0) | (magnitude == 0), 0.0, summing)
    behind = np.float64(bound.afterwards)
    allowed: Array = summing + (magnitude * _gamma(behind, precision.bits) + behind * tiny / 2) * (magnitude > 0)
    significant, smallest = _FORMATS[dtype]
    # What can be represented exactly is not rounded; and a float result that is kept as it was summed was already.
    is_representable = (magnitude <= 2.0**significant * unit) & (unit >= 2.0 ** (smallest - significant))
    rounding = _half_ulp(b, dtype) + (_half_ulp(e, dtype) if significant < Precision.FLOAT.bits else 0.0)
    return np.where((allowed == 0) & (is_representable | (magnitude == 0)), 0.0, allowed + rounding)


def _loss(bound: Bound, precision: Precision, dtype: DType) -> float:
    """What factors lose; those of a half output are half, which tf32 and half hold as they are."""
    is_lossless = dtype is DType.HALF and precision.factor_loss <= Precision.HALF.factor_loss
    return precision.factor_loss if bound.products and not is_lossless else 0.0


def _gamma(roundings: Array | np.float64, bits: int) -> Array:
    """γ(n) = n·u / (1 − n·u); no bound at all where n·u reaches 1."""
    lost = np.asarray(roundings * 2.0**-bits)
    gamma: Array = np.where(lost < 1, lost / (1 - lost), np.inf)
    return gamma


def _half_ulp(values: Array, dtype: DType) -> Array:
    significant, smallest = _FORMATS[dtype]
    _, exponents = np.frexp(values)
    # frexp gives 0 the exponent of 1; what was rounded to 0 was at most half of the smallest number.
    exponents = np.where(values == 0, smallest, exponents)
    half: Array = np.ldexp(0.5, np.maximum(exponents, smallest) - significant)
    return half


def _ratios(e: Array, b: Array, allowed: Array) -> Array:
    """|e−b| of unequal elements over what is allowed; infinite where one of the two is no number."""
    ratios: Array = np.abs(e - b) / allowed
    # Where no number bounds an element, or infinity does, nothing that is finite is beyond.
    ratios[~(allowed < np.inf)] = 0.0
    ratios[~(np.isfinite(e) & np.isfinite(b))] = np.inf
    return ratios
