"""Two arrays in, figures out: what every criterion measures, how many elements differ, and where.

How many elements are too far from their baseline by themselves, and which are the worst.

diff1 and diff2 judge an output as a whole. For a person who looks for the mistake an element is beyond tolerance where
|e−b| > threshold · max(|b|, rms of b): a rounding error beside a baseline near 0 does not count.

The accuracy criteria: arrays in, figures out, and the verdict on one figure.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Final, NamedTuple

import numpy as np

from mluops_gtest.base.errors import ContentError
from mluops_gtest.core.declaration import Bound
from mluops_gtest.core.tensor import Array, Criterion, CriterionKind, DType, Precision
from mluops_gtest.judging.blocks import (
    EPSILON,
    Blocks,
    Elements,
    Scratch,
    Sums,
    elements_of,
    joined,
    total,
    unequal_parts,
)
from mluops_gtest.judging.elementwise import (
    Limits,
    can_be_bounded,
    element_errors,
    half_excused,
    native_limits,
)
from mluops_gtest.judging.figures import (
    EQUAL,
    BlockStats,
    ElementErrors,
    NativePass,
    merged,
    small_stats,
    timing_stats,
    weight_of,
)


def lower_share(blocks: Blocks, unequal: int) -> tuple[int, float]:
    """How many distinct unequal finite pairs there are, and the share of them with e < b (0 of none).

    `unequal` bounds the elements that can be part of one. Sorting packed pairs beats hashing them (np.unique).
    """
    elements = blocks.elements
    evaluated, baseline = (np.empty(unequal * elements.parts, f"u{elements.real.itemsize}") for _ in range(2))
    filled = 0
    for start in blocks.starts:
        e, b = _unequal_numbers(blocks, start)
        end = filled + len(b)
        evaluated[filled:end], baseline[filled:end] = _patterns(e, elements), _patterns(b, elements)
        filled = end
    if filled == 0:
        return 0, 0.0
    evaluated, baseline = _distinct(evaluated[:filled], baseline[:filled])
    lower = elements.values(evaluated.view(elements.real)) < elements.values(baseline.view(elements.real))
    return len(lower), np.count_nonzero(lower) / len(lower)


def _unequal_numbers(blocks: Blocks, start: int) -> tuple[Array, Array]:
    """Both sides of a block where they differ and are finite."""
    e, b = blocks.numbers(start)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        wanted = e != b
    if blocks.elements.exact:
        return e[wanted], b[wanted]
    wanted &= np.isfinite(e) & np.isfinite(b)
    # Adding +0 makes one number of +0 and −0.
    zero = e.dtype.type(0)
    return e[wanted] + zero, b[wanted] + zero


def _patterns(numbers: Array, elements: Elements) -> Array:
    patterns = numbers.view(f"u{numbers.itemsize}")
    return (patterns >> np.uint32(16)).astype(np.uint16) if elements.upper_half else patterns


def _distinct(evaluated: Array, baseline: Array) -> tuple[Array, Array]:
    """Each pair of patterns once."""
    size = evaluated.itemsize
    if size == 8:
        order = np.lexsort((baseline, evaluated))
        evaluated, baseline = evaluated[order], baseline[order]
        first = np.ones(len(order), bool)
        first[1:] = (evaluated[1:] != evaluated[:-1]) | (baseline[1:] != baseline[:-1])
        return evaluated[first], baseline[first]
    word = np.dtype(f"u{2 * size}")
    shift = word.type(8 * size)
    packed = evaluated.astype(word)
    packed <<= shift
    packed |= baseline
    packed.sort()
    first = np.ones(len(packed), bool)
    np.not_equal(packed[1:], packed[:-1], out=first[1:])
    packed = packed[first]
    return (packed >> shift).astype(evaluated.dtype), packed.astype(baseline.dtype)


# Smaller magnitudes count as this much, so that no logarithm meets zero.
_FLOOR = 1e-10


def divergence(blocks: Blocks) -> float:
    """½(KL(p‖q) + KL(q‖p)) of the normalised magnitudes at the finite positions."""

    def masses(start: int, _: Scratch) -> tuple[float, float]:
        e, b = _magnitudes(blocks, start)
        return float(e.sum()), float(b.sum())

    of_blocks = blocks.each(masses, blocks.starts)
    e_mass, b_mass = total([e for e, _ in of_blocks]), total([b for _, b in of_blocks])

    def share(start: int, _: Scratch) -> float:
        e, b = _magnitudes(blocks, start)
        p, q = e / e_mass, b / b_mass
        # Both divergences in one sum: p·ln(p/q) + q·ln(q/p) = (p−q)·ln(p/q), never negative.
        return float(((p - q) * (np.log(p) - np.log(q))).sum())

    return total(blocks.each(share, blocks.starts)) / 2


def _magnitudes(blocks: Blocks, start: int) -> tuple[Array, Array]:
    e, b = (side.astype(np.float64) for side in blocks.numbers(start))
    finite = np.isfinite(e) & np.isfinite(b)
    if not finite.all():
        e, b = e[finite], b[finite]
    return np.maximum(np.abs(e), _FLOOR), np.maximum(np.abs(b), _FLOOR)


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
    asked = _request_of(tuple(kinds))
    if evaluated.shape != baseline.shape:
        raise ValueError(f"shapes {evaluated.shape} and {baseline.shape} differ; a comparison needs equal ones")
    if not evaluated.dtype == baseline.dtype == dtype.storage:
        raise ValueError(f"{evaluated.dtype} and {baseline.dtype} are not the storage of {dtype.value}")
    elements = elements_of(dtype)
    limits = limits if limits is not None and can_be_bounded(dtype) else None
    found = None
    sums: Callable[[], tuple[Sums, ...]]
    # Of few elements the bytes tell at once that all are equal, which is so in most cases.
    few = evaluated.nbytes <= _SMALL
    if few and evaluated.tobytes() == baseline.tobytes():
        whole, sums = EQUAL, tuple
    elif few and limits is None and (small := small_stats(evaluated, baseline, elements)) is not None:
        whole, sums = small[0], lambda: small[1:]
    elif (natively := NativePass.over(evaluated, baseline, elements)) is not None:
        whole, found = _natively_measured(natively, baseline, dtype, limits)
        sums = natively.sums
    else:
        whole, sums = _measured(Blocks(evaluated, baseline, elements), asked.norms)
        held_to = limits() if limits is not None and whole.unequal.number else None
        if held_to is not None:
            found = half_excused(held_to, partial(element_errors, evaluated, baseline, dtype))
    diff1, diff2 = _norms(*sums()) if asked.norms and whole.unequal.number else (0.0, 0.0)
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


class _CriteriaRequest(NamedTuple):
    """The kinds that are asked for, each with its place in what is measured, and what they need."""

    places: tuple[tuple[CriterionKind, int], ...]
    norms: bool
    pairs: bool
    divergence: bool


@cache
def _request_of(kinds: tuple[CriterionKind, ...]) -> _CriteriaRequest:
    canonical = tuple(map(require_formula, kinds))
    return _CriteriaRequest(
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
    whole = EQUAL

    def hold(bound: Bound, precision: Precision) -> ElementErrors:
        nonlocal whole
        natively.hold_to(native_limits(bound, precision, dtype, baseline.shape))
        whole = natively.stats()
        return whole.elements

    errors = half_excused(held_to, hold)
    return whole, errors if whole.unequal.number else None


def _measured(blocks: Blocks, norms: bool) -> tuple[BlockStats, Callable[[], tuple[Sums, Sums]]]:
    """The figures of the whole, and the sums of the differences and of the baseline (for `norms` alone), by numpy."""
    figures = blocks.each(lambda start, scratch: timing_stats(blocks, start, scratch, norms), blocks.starts)

    def sums() -> tuple[Sums, Sums]:
        # Equal blocks were passed over; only now is it known that their share of the denominators is needed.
        passed = [start for start, f in zip(blocks.starts, figures, strict=True) if f is EQUAL]
        weights = [f.errors.weight for f in figures]
        weights += blocks.each(lambda start, scratch: weight_of(blocks, start, scratch), passed)
        return joined(f.errors.difference for f in figures), joined(weights)

    return merged(figures), sums


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


# Statistics of fewer say nothing: distinct unequal pairs for diff4, elements for diff_kl.
PAIRS_FOR_DIFF4: Final = 100
ELEMENTS_FOR_DIFF_KL: Final = 1000


def judge(kind: CriterionKind, value: float, threshold: float, comparison: Comparison) -> bool | None:
    """True within, False beyond, None not judged (too few elements); equality is within, NaN beyond.

    A non-finite mismatch and a differing integer fail whatever the threshold. diff4 has none of its own: it fails
    at exactly 0 and 1, where every difference goes the same way.
    """
    if comparison.nonfinite_mismatches:
        require_formula(kind)
        return False
    return judge_finite(kind, value, threshold, comparison)


def judge_finite(kind: CriterionKind, value: float, threshold: float, comparison: Comparison) -> bool | None:
    """As `judge`, for the finite positions alone: those that the value was measured on."""
    kind = require_formula(kind)
    if comparison.compared == 0:
        return None
    if comparison.exact:
        return comparison.unequal == 0
    if kind is CriterionKind.DIFF4:
        return 0.0 < value < 1.0 if comparison.pairs >= PAIRS_FOR_DIFF4 else None
    if kind is CriterionKind.DIFF_KL and comparison.compared < ELEMENTS_FOR_DIFF_KL:
        return None
    return value <= threshold


_RELATIVE: Final = frozenset({CriterionKind.DIFF1, CriterionKind.DIFF2, CriterionKind.DIFF3})


class WorstElement(NamedTuple):
    """One element by its flat index; `error` is |e−b| of its worse part, `scaled` that over max(|b|, rms of b)."""

    flat: int
    error: float
    scaled: float


def allowed_error(criteria: Sequence[Criterion]) -> float:
    """The threshold that one element is held to: the smallest relative one; 0 asks for equality."""
    thresholds = [c.threshold for c in criteria if c.kind.canonical in _RELATIVE]
    return max(0.0, min(thresholds, default=0.0))


def count_beyond(evaluated: Array, baseline: Array, dtype: DType, threshold: float) -> int:
    """The elements beyond tolerance; NaN and infinities that do not meet their like always are. `threshold` > 0."""
    natively = NativePass.over(evaluated, baseline, elements_of(dtype))
    if natively is not None:
        return natively.beyond(threshold, _root_mean_square(*natively.weights()))
    blocks = Blocks(evaluated, baseline, elements_of(dtype))
    scale = _rms(blocks)

    def counted(start: int, scratch: Scratch) -> int:
        parts, _, scaled = _errors(blocks, start, scratch, scale)
        return len(_whole(blocks, parts[scaled > threshold]))

    return sum(blocks.each(counted, blocks.starts))


def beyond_tolerance(evaluated: Array, baseline: Array, dtype: DType, threshold: float) -> Array:
    """Which elements are beyond tolerance; those that are unequal where the threshold is 0."""
    blocks = Blocks(evaluated, baseline, elements_of(dtype))
    scale = _rms(blocks) if threshold else 0.0

    def places(start: int, scratch: Scratch) -> Array:
        parts, _, scaled = _errors(blocks, start, scratch, scale)
        return _whole(blocks, parts[scaled > threshold] if threshold else parts)

    mask = np.zeros(baseline.shape, bool)
    for found in blocks.each(places, blocks.starts):
        mask.reshape(-1)[found] = True
    return mask


def worst_elements(
    evaluated: Array, baseline: Array, dtype: DType, number: int, first: int | None = None
) -> list[WorstElement]:
    """The elements with the largest errors, the worst first, none that is equal to its baseline.

    In front of them stands the element `first`, which the verdict names.
    """
    blocks = Blocks(evaluated, baseline, elements_of(dtype))
    scale = _rms(blocks)

    def worst(start: int, scratch: Scratch) -> list[WorstElement]:
        parts, error, scaled = _errors(blocks, start, scratch, scale)
        # Both parts of a complex element may be among the worst.
        chosen = np.lexsort((-error, -scaled))[: number * blocks.elements.parts]
        chosen = np.append(chosen, np.flatnonzero(parts // blocks.elements.parts == first))
        columns = parts[chosen] // blocks.elements.parts, error[chosen], scaled[chosen]
        return list(map(WorstElement, *(column.tolist() for column in columns)))

    found = [element for block in blocks.each(worst, blocks.starts) for element in block]
    found.sort(key=lambda element: (element.flat != first, -element.scaled, -element.error, element.flat))
    once: dict[int, WorstElement] = {}
    for element in found:
        once.setdefault(element.flat, element)
    return list(once.values())[:number]


def _rms(blocks: Blocks) -> float:
    """The root mean square of the finite baseline; 0 where there is none, or where it leaves float64."""
    weights = joined(blocks.each(lambda start, scratch: weight_of(blocks, start, scratch), blocks.starts))
    finite = sum(int(np.count_nonzero(np.isfinite(blocks.numbers(start)[1]))) for start in blocks.starts)
    return _root_mean_square(weights, finite)


def _root_mean_square(weights: Sums, finite: int) -> float:
    squares = total(weights[1])
    return math.sqrt(squares / finite) if finite and math.isfinite(squares) else 0.0


def _errors(blocks: Blocks, start: int, scratch: Scratch, scale: float) -> tuple[Array, Array, Array]:
    """The unequal parts of one block: their places in the whole, |e−b|, and |e−b| over max(|b|, rms)."""
    if not blocks.differs(start, scratch):
        return np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
    places, error, magnitude = unequal_parts(blocks, start)
    scaled = error / np.maximum(magnitude, scale)
    scaled[np.isinf(error)] = np.inf
    return places, error, scaled


def _whole(blocks: Blocks, parts: Array) -> Array:
    """The elements that these parts, in order, belong to, each once."""
    return parts if blocks.elements.parts == 1 else np.unique(parts // blocks.elements.parts)
