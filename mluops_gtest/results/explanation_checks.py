"""Explanations that have the right types and still cannot be: no headline may rest on them."""

import math
from itertools import pairwise
from typing import Any, Final

import msgspec

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


def check_explanation(explained: Explanation, source: Source, at: str) -> None:
    """Refuse an explanation that no run makes."""

    def refuse_unless(holds: bool, what: str, part: str = "") -> None:
        if not holds:
            raise source.error(what, f"{at}{part}")

    dims = explained.dims
    refuse_unless(all(0 < length <= MAX_INTEGER for length in dims), "lengths must be at least 1", ".dims")
    size = math.prod(dims)
    refuse_unless(0 < explained.wrong <= size, f"{explained.wrong} of {size} elements cannot be wrong", ".wrong")
    refuse_unless(bool(explained.fitted), "it must have at least one set", ".fitted")
    for index, fitted in enumerate(explained.fitted):
        refuse_unless(_can_be(fitted, explained), "it does not fit the output", f".fitted[{index}]")
    refuse_unless(_is_hull(explained.hull, dims), "it does not fit the dims", ".hull")
    refuse_unless(len(explained.samples) <= MAX_STORED_SAMPLES, f"more than {MAX_STORED_SAMPLES} samples", ".samples")
    for index, sample in enumerate(explained.samples):
        inside = len(sample.index) == len(dims) and all(
            0 <= place < length for place, length in zip(sample.index, dims, strict=True)
        )
        refuse_unless(inside, f"{list(sample.index)} is outside of {list(dims)}", f".samples[{index}].index")
    if explained.map is not None:
        refuse_unless(_is_map(explained.map), "it is no map", ".map")


def _can_be(fitted: Fitted, explained: Explanation) -> bool:
    size = explained.size
    counts = 0 <= fitted.agreeing <= fitted.inside <= size and 0 <= fitted.lawful <= explained.wrong
    places = (fitted.where, *fitted.also)
    return counts and all(_is_place(where, explained.dims) for where in places) and _is_law(fitted, len(explained.dims))


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
