"""Two arrays in, figures out: what every criterion measures, how many elements differ, and where."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from mluops_gtest.criteria.blocks import Blocks
from mluops_gtest.criteria.distribution import divergence
from mluops_gtest.criteria.elements import elements_of
from mluops_gtest.criteria.elementwise import (
    ElementErrors,
    Limits,
    can_be_bounded,
    element_errors,
    native_limits,
    natively_found,
)
from mluops_gtest.criteria.figures import EPSILON, EQUAL, BlockStats, merged, timing_stats, weight_of
from mluops_gtest.criteria.native_pass import NativePass, small_stats
from mluops_gtest.criteria.pairs import lower_share
from mluops_gtest.criteria.sums import Sums, joined, total
from mluops_gtest.errors import ContentError
from mluops_gtest.model.criterion import CriterionKind
from mluops_gtest.model.dtypes import Array, DType

# Bytes up to which they are compared as such before anything is measured.
_SMALL: Final = 1 << 14
# What is measured, in this order.
_MEASURED: Final = (
    CriterionKind.DIFF1,
    CriterionKind.DIFF2,
    CriterionKind.DIFF3,
    CriterionKind.DIFF3_2,
    CriterionKind.DIFF4,
    CriterionKind.DIFF_KL,
)


class Comparison(NamedTuple):
    """What was measured; it decides nothing (`judge` does). Indices are flat, of elements."""

    readings: Mapping[CriterionKind, float]  # by canonical kind, for each kind asked for
    compared: int  # all elements, finite or not
    unequal: int  # NaN meets NaN, −0 meets +0
    bits_unequal: int
    worst: int | None  # the first non-finite mismatch, else the largest error in the sense of diff3
    first_unequal: int | None
    last_unequal: int | None
    max_ulp: int | None  # over finite pairs; None for integers
    nonfinite_mismatches: int
    first_nonfinite_mismatch: int | None
    diff3_1: float  # largest relative error where |b| is not small; 0 for integers
    diff3_2: float  # largest |e−b|
    exact: bool = False  # integers: any difference fails, whatever the criterion
    pairs: int = 0  # distinct unequal pairs behind diff4; 0 where it was not asked for
    elements: ElementErrors | None = None  # where something is unequal and there are limits


def compare(
    evaluated: Array,
    baseline: Array,
    dtype: DType,
    kinds: Sequence[CriterionKind],
    limits: Callable[[], Limits | None] | None = None,
) -> Comparison:
    """Everything there is to say about two arrays of that type and of equal shape.

    `limits` is asked for what arithmetic allows each element where the arrays differ, and only there.
    """
    asked = _asked(tuple(kinds))
    if evaluated.shape != baseline.shape:
        raise ValueError(f"shapes {evaluated.shape} and {baseline.shape} differ; a comparison needs equal ones")
    if not evaluated.dtype == baseline.dtype == dtype.storage:
        raise ValueError(f"{evaluated.dtype} and {baseline.dtype} are not the storage of {dtype.value}")
    elements = elements_of(dtype)
    limits = limits if limits is not None and can_be_bounded(dtype) else None
    found = None
    # Of few elements the bytes tell at once that all are equal, which is so in most cases.
    few = evaluated.nbytes <= _SMALL
    if few and evaluated.tobytes() == baseline.tobytes():
        whole, diff1, diff2 = EQUAL, 0.0, 0.0
    elif few and limits is None and (small := small_stats(evaluated, baseline, elements)) is not None:
        whole, *sums = small
        diff1, diff2 = _norms(*sums) if asked.norms and whole.unequal.number else (0.0, 0.0)
    elif (natively := NativePass.over(evaluated, baseline, elements)) is not None:
        whole, found = _natively_measured(natively, baseline, dtype, limits)
        diff1, diff2 = _norms(*natively.sums()) if asked.norms and whole.unequal.number else (0.0, 0.0)
    else:
        whole, diff1, diff2 = _measured(Blocks(evaluated, baseline, elements), asked.norms)
        held_to = limits() if limits is not None and whole.unequal.number else None
        found = None if held_to is None else element_errors(evaluated, baseline, dtype, *held_to)
    pairs, diff4, diff_kl = 0, 0.0, 0.0
    if asked.pairs:
        pairs, diff4 = lower_share(Blocks(evaluated, baseline, elements), whole.unequal.number)
    if asked.divergence:
        diff_kl = divergence(Blocks(evaluated, baseline, elements))
    bits_unequal, unequal, mismatched, errors, _ = whole
    measured = diff1, diff2, errors.error, errors.largest, diff4, diff_kl
    parts = elements.parts
    mismatch = mismatched.first // parts if mismatched.number else None
    worst = errors.worst // parts if errors.worst >= 0 else None
    # By place, which takes half the time: this is asked for every output of every case.
    return Comparison(
        {kind: measured[place] for kind, place in asked.places},
        baseline.size,
        unequal.number,
        bits_unequal,
        worst if mismatch is None else mismatch,
        unequal.first // parts if unequal.number else None,
        unequal.last // parts if unequal.number else None,
        None if elements.small is None else errors.ulp,
        mismatched.number,
        mismatch,
        errors.relative,
        errors.largest,
        elements.small is None,
        pairs,
        found,
    )


def require_formula(kind: CriterionKind) -> CriterionKind:
    """The kind that has the formula, or an error for one that is only a name in the schema."""
    if not kind.has_formula:
        known = ", ".join(k.name for k in CriterionKind if k.has_formula)
        raise ContentError(
            f"Criterion {kind.name} has no formula and cannot be judged. Known: {known}. Name one of these in the case."
        )
    return kind.canonical


class _Asked(NamedTuple):
    """The kinds that are asked for, each with its place in what is measured, and what they need."""

    places: tuple[tuple[CriterionKind, int], ...]
    norms: bool
    pairs: bool
    divergence: bool


@cache
def _asked(kinds: tuple[CriterionKind, ...]) -> _Asked:
    canonical = tuple(map(require_formula, kinds))
    return _Asked(
        tuple((kind, _MEASURED.index(kind)) for kind in canonical),
        CriterionKind.DIFF1 in canonical or CriterionKind.DIFF2 in canonical,
        CriterionKind.DIFF4 in canonical,
        CriterionKind.DIFF_KL in canonical,
    )


def _natively_measured(
    natively: NativePass, baseline: Array, dtype: DType, limits: Callable[[], Limits | None] | None
) -> tuple[BlockStats, ElementErrors | None]:
    """The figures of the whole, and how its elements are within limits, by the C library in one read."""
    if limits is None:
        return natively.stats(), None
    if not natively.differs():
        return EQUAL, None
    held_to = limits()
    if held_to is None:
        return natively.stats(), None
    natively.hold_to(native_limits(held_to, dtype, baseline.shape))
    whole = natively.stats()
    return whole, natively_found(whole.beyond, baseline.size) if whole.unequal.number else None


def _measured(blocks: Blocks, norms: bool) -> tuple[BlockStats, float, float]:
    """The figures of the whole, diff1 and diff2 (0 unless there are `norms` to measure), by numpy."""
    figures = blocks.each(lambda start, scratch: timing_stats(blocks, start, scratch, norms), blocks.starts)
    whole = merged(figures)
    if not norms or not whole.unequal.number:
        return whole, 0.0, 0.0
    # Equal blocks were passed over; only now is it known that their share of the denominators is needed.
    passed = [start for start, f in zip(blocks.starts, figures, strict=True) if f is EQUAL]
    weights = [f.errors.weight for f in figures]
    if passed:
        weights += blocks.each(lambda start, scratch: weight_of(blocks, start, scratch), passed)
    return whole, *_norms(joined(f.errors.difference for f in figures), joined(weights))


def _norms(difference: Sums, weight: Sums) -> tuple[float, float]:
    """diff1 and diff2."""
    return _ratio(difference[0], weight[0]), math.sqrt(_ratio(difference[1], weight[1]))


def _ratio(differences: Sequence[float], weights: Sequence[float]) -> float:
    """Σ differences / (Σ weights + 1e-9)."""
    numerator, denominator = total(differences), total(weights)
    # A denominator that left float64 would hide any error: NaN then, which no threshold accepts.
    if numerator > 0 and math.isinf(denominator):
        return math.nan
    return numerator / (denominator + EPSILON)
