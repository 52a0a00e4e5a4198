"""Explanations that have the right types and still cannot be: no headline may rest on them."""

import math
from functools import lru_cache
from itertools import pairwise
from operator import lt
from typing import Any, Final

import msgspec

from mluops_gtest.errors import ContentError
from mluops_gtest.files.typed import MAX_INTEGER, Source
from mluops_gtest.model.explanation import (
    MAX_CELLS,
    MAX_STORED_SAMPLES,
    AxisSet,
    Explanation,
    Fitted,
    LaidOut,
    PermutedAlong,
    RepeatedAlong,
    ReversedAlong,
    TakenFrom,
    Where,
    WrongMap,
)

_SIGNS: Final = frozenset(".123456789#")


def check_explanation(explained: Explanation, source: Source, index: int) -> None:
    """Refuse an explanation that no run makes; it is the one at that index of its result."""

    def refused(what: str, part: str) -> ContentError:
        return source.error(what, f".explained[{index}]{part}")

    dims = explained.dims
    if not all(0 < length <= MAX_INTEGER for length in dims):
        raise refused("lengths must be at least 1", ".dims")
    size = math.prod(dims)
    if not 0 < explained.wrong <= size:
        raise refused(f"{explained.wrong} of {size} elements cannot be wrong", ".wrong")
    if not explained.fitted:
        raise refused("it must have at least one set", ".fitted")
    for number, fitted in enumerate(explained.fitted):
        if not _can_be(fitted, explained):
            raise refused("it does not fit the output", f".fitted[{number}]")
    if not _is_hull(explained.hull, dims):
        raise refused("it does not fit the dims", ".hull")
    if len(explained.samples) > MAX_STORED_SAMPLES:
        raise refused(f"more than {MAX_STORED_SAMPLES} samples", ".samples")
    for number, sample in enumerate(explained.samples):
        if not _is_inside(sample.index, dims):
            raise refused(f"{list(sample.index)} is outside of {list(dims)}", f".samples[{number}].index")
    if explained.map is not None and not _is_map(explained.map):
        raise refused("it is no map", ".map")


def _is_inside(index: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    return len(index) == len(dims) and min(index, default=0) >= 0 and all(map(lt, index, dims))


def _can_be(fitted: Fitted, explained: Explanation) -> bool:
    size = explained.size
    counts = 0 <= fitted.agreeing <= fitted.inside <= size and 0 <= fitted.lawful <= explained.wrong
    places = (fitted.where, *fitted.also)
    return counts and all(_is_place(where, explained.dims) for where in places) and _is_law(fitted, len(explained.dims))


# Cases that fail for one cause have much the same sets.
@lru_cache(maxsize=4096)
def _is_place(where: Where, dims: tuple[int, ...]) -> bool:
    """Sets along axes of the lengths that these dims have, taken together as the spans say."""
    if not where.axes:
        return not (where.spans or where.least or where.most or where.outside)
    spans = where.spans or (1,) * len(where.axes)
    if min(spans) < 1 or sum(spans) != len(dims) or len(spans) != len(where.axes):
        return False
    ends = [sum(spans[: number + 1]) for number in range(len(spans))]
    lengths = [math.prod(dims[end - span : end]) for end, span in zip(ends, spans, strict=True)]
    return all(
        not sets or (len(sets) == len(lengths) and all(map(_is_set, sets, lengths)))
        for sets in (where.axes, where.least, where.most)
    )


def _is_hull(hull: tuple[AxisSet, ...], dims: tuple[int, ...]) -> bool:
    return not hull or (len(hull) == len(dims) and all(map(_is_set, hull, dims)))


def _is_set(one: AxisSet, length: int) -> bool:
    inside = one.length == length and 0 <= one.start < one.stop <= length and 1 <= one.width <= one.step
    listed = one.listed
    in_order = all(first < second for first, second in pairwise(listed))
    return inside and (not listed or (in_order and (listed[0], listed[-1] + 1) == (one.start, one.stop)))


def _is_law(fitted: Fitted, axes: int) -> bool:
    """Its numbers are finite, and the axes that it names exist."""
    law: Any = fitted.law
    if law is None:
        return True
    numbers = [value for value in msgspec.structs.astuple(law) if isinstance(value, float)]
    if not all(map(math.isfinite, numbers)):
        return False
    match law:
        case PermutedAlong(axis=axis, order=order):
            return 0 <= axis < axes and sorted(order) == list(range(len(order))) and order != tuple(sorted(order))
        case RepeatedAlong(axis=axis, index=index):
            return 0 <= axis < axes and index >= 0
        case ReversedAlong(axis=axis):
            return 0 <= axis < axes
        case LaidOut(order=order):
            return sorted(order) == list(range(axes))
        case TakenFrom(offset=offset):
            return len(offset) == axes and any(offset)
    return True


def _is_map(seen: WrongMap) -> bool:
    sides = 0 < seen.rows <= MAX_CELLS and 0 < seen.columns <= MAX_CELLS and seen.width >= 0
    return sides and len(seen.cells) == seen.rows * seen.columns and _SIGNS.issuperset(seen.cells)
