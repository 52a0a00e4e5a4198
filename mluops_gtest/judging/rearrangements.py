"""Laws that take a wrong value from another place: shifted, swapped, transposed, reversed, in another order."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Final

import numpy as np

from mluops_gtest.core.explanation import (
    BelongElsewhere,
    LaidOut,
    Law,
    PermutedAlong,
    ReorderedAlong,
    RepeatedAlong,
    ReversedAlong,
    ShiftedAlongAxes,
    ShiftedInMemory,
)
from mluops_gtest.core.tensor import Array
from mluops_gtest.judging.value_laws import MAX_SEARCHED, Fit, WrongOutput

# Axes as short as this are searched for any permutation: coordinates, pairs.
_SHORT: Final = 8
# Wrong elements whose values are looked for elsewhere, and how often a value may occur to be worth following.
_PROBES: Final = 24
_MAX_TWINS: Final = 6
# The most frequent offsets that are tried on all wrong elements.
_MAX_OFFSETS: Final = 3
# By how much a match must be more probable by the law than by chance.
_CHANCE: Final = 1e-8


def rearrangements(out: WrongOutput) -> Iterator[Fit]:
    """Every rearrangement that may hold, the most telling first; just another order where nothing more can be said."""
    if not 2 <= out.baseline.size <= MAX_SEARCHED:
        return
    held = False
    for fit in _permutations(out):
        held = held or (fit.sure and bool(fit.holds.all()))
        yield fit
    if not held and _is_reordered(out):
        yield Fit(ReorderedAlong(0), np.ones(len(out.places), bool), sure=_is_surprising(out, out.e), whole=True)
    elif not held and out.is_float:
        values = np.unique(out.e[out.e != 0])
        # The share of the numbers of a binade that are met by chance.
        share = min(1.0, len(out.right_values[0]) * out.epsilon)
        sure = len(values) * math.log(share) < math.log(_CHANCE)
        yield Fit(BelongElsewhere(), np.isin(out.e, out.baseline), sure=sure)


def _permutations(out: WrongOutput) -> Iterator[Fit]:
    for axis, length in enumerate(out.baseline.shape):
        if length > 2:
            yield _moved(out, ReversedAlong(axis), partial(np.flip, axis=axis))
        if 2 <= length <= _SHORT:
            yield from _permuted(out, axis)
            if length == 2:
                # Two that are swapped are two in reverse, too: longer outputs of the same kernel tell which it is.
                yield _moved(out, ReversedAlong(axis), partial(np.flip, axis=axis))
        elif length > _SHORT:
            yield _moved(out, RepeatedAlong(axis, 0), partial(_first_of, axis))
    for order in _orders_of_axes(out.baseline.ndim):
        yield _moved(out, LaidOut(order), partial(_laid_out, order))
    yield from _shifts(out)


def _orders_of_axes(axes: int) -> list[tuple[int, ...]]:
    """Two neighbours swapped, one axis moved, two others swapped: the layouts that are taken for each other."""
    straight = list(range(axes))
    swapped = []
    for first, second in sorted(combinations(straight, 2), key=lambda pair: pair[1] - pair[0]):
        order = straight.copy()
        order[first], order[second] = second, first
        swapped.append(tuple(order))
    moved = [
        tuple(np.insert(np.delete(straight, source), place, source).tolist())
        for source in straight
        for place in straight
        if source != place
    ]
    return [*dict.fromkeys([*swapped[: axes - 1], *moved, *swapped])]


def _is_surprising(out: WrongOutput, matched: Array) -> bool:
    """So many values would hardly be met elsewhere by chance: the more often a value occurs, the easier."""
    values, shares = out.right_values
    found = np.minimum(np.searchsorted(values, matched), len(values) - 1)
    # Of each value once: a row of equal elements is met as a whole.
    distinct = np.unique(found)
    return float(np.log(shares[distinct]).sum()) < math.log(_CHANCE)


def _first_of(axis: int, values: Array) -> Array:
    return np.broadcast_to(values.take([0], axis), values.shape)


def _laid_out(order: tuple[int, ...], values: Array) -> Array:
    return values.transpose(order).reshape(values.shape)


def _moved(out: WrongOutput, law: Law, move: Callable[[Array], Array]) -> Fit:
    """The law that each element is the one that `move` brings there."""
    flat = out.baseline.reshape(-1)
    sources = move(np.arange(flat.size).reshape(out.baseline.shape)).reshape(-1)
    there = sources[out.places]
    holds = _are(out, there)
    return Fit(law, holds, lambda: flat[sources].reshape(out.baseline.shape), _is_surprising(out, flat[there[holds]]))


def _are(out: WrongOutput, sources: Array) -> Array:
    """Which wrong elements are what belongs at these flat indices."""
    return out.near(out.baseline.reshape(-1)[sources].astype(out.b.dtype), sources=sources)


def _permuted(out: WrongOutput, axis: int) -> Iterator[Fit]:
    """Slices of a short axis that hold what belongs to others of them."""
    length = out.baseline.shape[axis]
    stride = math.prod(out.baseline.shape[axis + 1 :])
    here = out.places // stride % length
    moved = np.bincount(here, minlength=length) > 0
    # For each source the slices of which all wrong elements are what belongs there.
    fitting = []
    for other in range(length):
        fails = ~_are(out, out.places + (other - here) * stride)
        fitting.append(np.bincount(here[fails], minlength=length) == 0)
    sources = [
        [other for other in range(length) if (other != index) == moved[index] and fitting[other][index]]
        for index in range(length)
    ]
    order = _order(sources)
    if order is None or order == list(range(length)):
        return
    law = _law_of_order(axis, order)
    # A law that does not name its order says it of whole slices: right elements must keep to it as well.
    if not isinstance(law, ReorderedAlong) or (out.wrong | out.agreeing(out.baseline.take(order, axis))).all():
        yield _moved(out, law, lambda values: values.take(order, axis))


def _order(sources: Sequence[Sequence[int]]) -> list[int] | None:
    """A permutation with each index from one of its sources, swaps before others; else one source for all that move."""
    moved = [index for index, source in enumerate(sources) if index not in source]
    for first, second in combinations(moved, 2):
        if moved == [first, second] and second in sources[first] and first in sources[second]:
            return [second if i == first else first if i == second else i for i in range(len(sources))]
    found = _matched(sources, [])
    if found is not None:
        return found
    common = set(sources[0]).intersection(*sources[1:]) if all(sources) else set()
    return [min(common)] * len(sources) if common else None


def _matched(sources: Sequence[Sequence[int]], taken: list[int]) -> list[int] | None:
    """Each source once; at most 8 of them, so that trying is cheap."""
    if len(taken) == len(sources):
        return taken
    for source in sources[len(taken)]:
        if source not in taken:
            found = _matched(sources, [*taken, source])
            if found is not None:
                return found
    return None


def _law_of_order(axis: int, order: list[int]) -> Law:
    """Two that are swapped, all reversed, just another order, or one that stands everywhere."""
    straight = list(range(len(order)))
    if len(set(order)) == 1:
        return RepeatedAlong(axis, order[0])
    if sum(index != source for index, source in enumerate(order)) == 2:
        return PermutedAlong(axis, tuple(order))
    return ReversedAlong(axis) if order == straight[::-1] else ReorderedAlong(axis)


def _shifts(out: WrongOutput) -> Iterator[Fit]:
    """Offsets at which the values of a few wrong elements stand, tried on all of them."""
    flat, shape = out.baseline.reshape(-1), out.baseline.shape
    chosen = slice(None, None, -(-len(out.places) // _PROBES))
    # The nearest neighbours are tried whatever the votes.
    beside = [
        tuple(by * (axis == place) for place in range(len(shape))) for axis in range(len(shape)) for by in (1, -1)
    ]
    votes: Counter[tuple[int, ...]] = Counter()
    flat_votes: Counter[int] = Counter()
    known = np.sort(flat)
    order = np.argsort(flat, kind="stable")
    places, values, room = out.places[chosen], out.evaluated.reshape(-1)[out.places[chosen]], out.allowance[chosen]
    for place, value, around in zip(places.tolist(), values, room, strict=True):
        # Both ends are searched for as what the values are, so that integers of 64 bits stay what they are.
        ends = (value, value) if around == 0 else (value - around, value + around)
        twins = order[np.searchsorted(known, ends[0], "left") : np.searchsorted(known, ends[1], "right")]
        if not 0 < len(twins) <= _MAX_TWINS:
            continue
        here = np.array(np.unravel_index(place, shape))
        for twin in twins.tolist():
            if twin == place:
                # Its own right value, which is near enough to it.
                continue
            votes[tuple((np.array(np.unravel_index(twin, shape)) - here).tolist())] += 1
            flat_votes[twin - place] += 1
    voted = [offset for offset, _ in sorted(votes.items(), key=lambda vote: (-vote[1], vote[0]))[:_MAX_OFFSETS]]
    for offset in dict.fromkeys((*voted, *beside)):
        yield _shifted(out, ShiftedAlongAxes(offset), partial(_at_offset, shape, offset))
    if len(shape) > 1:
        for step, _ in sorted(flat_votes.items(), key=lambda vote: (-vote[1], vote[0]))[:_MAX_OFFSETS]:
            yield _shifted(out, ShiftedInMemory(step), partial(_at_step, len(flat), step))


def _at_offset(shape: tuple[int, ...], offset: tuple[int, ...], places: Array) -> tuple[Array, Array]:
    """Where the values of these places would come from, and whether there is such a place."""
    there = np.array(np.unravel_index(places, shape)) + np.array(offset)[:, None]
    limits = np.array(shape)[:, None]
    inside = ((there >= 0) & (there < limits)).all(axis=0)
    return np.ravel_multi_index(tuple(np.clip(there, 0, limits - 1)), shape), inside


def _at_step(size: int, step: int, places: Array) -> tuple[Array, Array]:
    there = places + step
    return np.clip(there, 0, size - 1), (there >= 0) & (there < size)


def _shifted(out: WrongOutput, law: Law, sources: Callable[[Array], tuple[Array, Array]]) -> Fit:
    flat = out.baseline.reshape(-1)
    taken, inside = sources(out.places)
    holds = inside & _are(out, taken)

    def predicted() -> Array:
        everywhere, exists = sources(np.arange(len(flat)))
        # What has no such place is not what the law says, whatever it is.
        return np.where(exists, flat[everywhere], np.nan).reshape(out.baseline.shape)

    return Fit(law, holds, predicted if out.is_real else None, _is_surprising(out, flat[taken[holds]]))


def _is_reordered(out: WrongOutput) -> bool:
    """The rows of the first axis are the right ones, in another order."""
    if len(out.baseline) < 2 or out.baseline.dtype.kind not in "fiu":
        return False
    width = out.baseline[0].nbytes
    if width == 0:
        return False
    rows = [np.ascontiguousarray(array).reshape(len(array), -1) for array in (out.evaluated, out.baseline)]
    # As bytes: any order will do, as long as it is the same.
    left, right = (np.sort(one.view(f"S{width}").reshape(-1)) for one in rows)
    return bool((left == right).all())
