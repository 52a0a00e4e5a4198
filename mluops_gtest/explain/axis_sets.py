"""Sets of indices along one axis in few numbers: intervals, every n-th, blocks, a short list."""

import numpy as np

from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.explanation import MAX_LISTED, AxisSet

# Two indices always have one distance, three seldom by chance.
_MIN_REPEATED = 3


def everything(length: int) -> AxisSet:
    """The whole axis."""
    return AxisSet(length, 0, length)


def axis_set(found: Array) -> AxisSet:
    """The set of a mask along an axis, of which at least one index is in it."""
    length, indices = len(found), np.flatnonzero(found)
    first, last = int(indices[0]), int(indices[-1])
    if last - first + 1 == len(indices):
        return AxisSet(length, first, last + 1)
    breaks = np.flatnonzero(np.diff(indices) > 1)
    starts = indices[np.concatenate(([0], breaks + 1))]
    widths = indices[np.concatenate((breaks, [len(indices) - 1]))] - starts + 1
    steps = np.diff(starts)
    # The last block may be cut off by the end of the axis.
    whole = widths[:-1] if last == length - 1 else widths
    are_alike = bool((whole == whole[0]).all()) and widths[-1] <= whole[0]
    if len(starts) >= _MIN_REPEATED and (steps == steps[0]).all() and are_alike:
        return AxisSet(length, first, last + 1, int(steps[0]), int(whole[0]))
    if len(indices) <= MAX_LISTED:
        return AxisSet(length, first, last + 1, listed=tuple(indices.tolist()))
    return AxisSet(length, first, last + 1, loose=True)


def indices_of(chosen: AxisSet) -> Array:
    """The indices of the set, of a loose one all that it may have."""
    if chosen.listed:
        return np.array(chosen.listed)
    every: Array = np.arange(chosen.start, chosen.stop)
    return every if chosen.step == 1 else every[(every - chosen.start) % chosen.step < chosen.width]


def selector(chosen: AxisSet) -> slice | Array:
    """What picks these indices from an array: a slice where one does, since it copies nothing."""
    if chosen.listed or chosen.width > 1:
        return indices_of(chosen)
    return slice(chosen.start, chosen.stop, chosen.step)
