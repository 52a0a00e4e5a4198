"""How many elements are too far from their baseline by themselves, and which are the worst.

diff1 and diff2 judge an output as a whole. For a person who looks for the mistake an element is beyond tolerance where
|e−b| > threshold · max(|b|, rms of b): a rounding error beside a baseline near 0 does not count.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from mluops_gtest.criteria.blocks import Blocks, Scratch, elements_of
from mluops_gtest.criteria.figures import NativePass, weight_of
from mluops_gtest.criteria.sums import Sums, joined, total
from mluops_gtest.model.criterion import Criterion, CriterionKind
from mluops_gtest.model.dtypes import Array, DType

_RELATIVE: Final = frozenset({CriterionKind.DIFF1, CriterionKind.DIFF2, CriterionKind.DIFF3})


class WorstElement(NamedTuple):
    """One element by its flat index; `error` is |e−b| of its worse part, `scaled` that over max(|b|, rms of b)."""

    flat: int
    error: float
    scaled: float


class _Errors(NamedTuple):
    """The unequal parts of one block: their places in the whole, |e−b|, and |e−b| over max(|b|, rms)."""

    parts: Array
    error: Array
    scaled: Array


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
        errors = _errors(blocks, start, scratch, scale)
        return 0 if errors is None else len(_whole(blocks, errors.parts[errors.scaled > threshold]))

    return sum(blocks.each(counted, blocks.starts))


def beyond_tolerance(evaluated: Array, baseline: Array, dtype: DType, threshold: float) -> Array:
    """Which elements are beyond tolerance; those that are unequal where the threshold is 0."""
    blocks = Blocks(evaluated, baseline, elements_of(dtype))
    scale = _rms(blocks) if threshold else 0.0

    def places(start: int, scratch: Scratch) -> Array:
        errors = _errors(blocks, start, scratch, scale)
        if errors is None:
            return np.zeros(0, np.int64)
        return _whole(blocks, errors.parts[errors.scaled > threshold] if threshold else errors.parts)

    mask = np.zeros(baseline.shape, bool)
    found = blocks.each(places, blocks.starts)
    mask.reshape(-1)[np.concatenate([np.zeros(0, np.int64), *found])] = True
    return mask


def worst_elements(evaluated: Array, baseline: Array, dtype: DType, number: int) -> list[WorstElement]:
    """The elements with the largest errors, the worst first, none that is equal to its baseline."""
    blocks = Blocks(evaluated, baseline, elements_of(dtype))
    scale = _rms(blocks)

    def worst(start: int, scratch: Scratch) -> list[WorstElement]:
        errors = _errors(blocks, start, scratch, scale)
        if errors is None:
            return []
        # Both parts of a complex element may be among the worst.
        most = number * blocks.elements.parts
        chosen = np.lexsort((-errors.error, -errors.scaled))[:most]
        flats = errors.parts[chosen] // blocks.elements.parts
        rows = zip(flats.tolist(), errors.error[chosen].tolist(), errors.scaled[chosen].tolist(), strict=True)
        return [WorstElement(*row) for row in rows]

    found = [element for block in blocks.each(worst, blocks.starts) for element in block]
    found.sort(key=lambda element: (-element.scaled, -element.error, element.flat))
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


def _errors(blocks: Blocks, start: int, scratch: Scratch, scale: float) -> _Errors | None:
    if not np.not_equal(*blocks.patterns(start), out=scratch.mask).any():
        return None
    e, b = blocks.numbers(start)
    places = np.flatnonzero((e != b) & ~(np.isnan(e) & np.isnan(b)))
    if not places.size:
        return None
    e, b = e[places], b[places]
    magnitude = np.abs(b.astype(np.float64))
    if blocks.elements.wide:
        # Unsigned subtraction wraps to the true distance, which may need all 64 bits.
        error = (np.maximum(e, b).view(np.uint64) - np.minimum(e, b).view(np.uint64)).astype(np.float64)
    else:
        error = np.abs(e.astype(np.float64) - b.astype(np.float64))
    # A baseline of Inf gives NaN; nothing finite is near it.
    error[~np.isfinite(error)] = np.inf
    scaled = error / np.maximum(magnitude, scale)
    scaled[np.isinf(error)] = np.inf
    return _Errors(places + start, error, scaled)


def _whole(blocks: Blocks, parts: Array) -> Array:
    """The elements that these parts, in order, belong to, each once."""
    return parts if blocks.elements.parts == 1 else np.unique(parts // blocks.elements.parts)
