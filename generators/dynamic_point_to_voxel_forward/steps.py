"""The operator in replaceable steps: right as it stands, and wrong in one way where mutants.py replaces one."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mluops_gtest.authoring import Array, OpCall, Status

MEAN, MAX = 1, 2


@dataclass(frozen=True, slots=True)
class Found:
    """What steps 1 to 3 of §1.2 find: the voxels, the voxel of every point, and how many points each has."""

    coors: Array
    of_point: Array
    sizes: Array


def below_zero(coors: Array) -> Array:
    """Which points are invalid."""
    return np.asarray((coors < 0).any(axis=1))


def marked(coors: Array, invalid: Array) -> Array:
    """Step 1: invalid rows become −1, −1, −1."""
    return np.where(invalid[:, None], -1, coors)


def unique(rows: Array, keys: Array) -> Found:
    """Step 2: sorted by the keys, one of those with equal keys."""
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    of_point = inverse.reshape(-1)
    return Found(rows[first], of_point, np.bincount(of_point))


def without_first(found: Found) -> Found:
    """The first class goes."""
    return Found(found.coors[1:], found.of_point - 1, found.sizes[1:])


def without_invalid(found: Found) -> Found:
    """Step 3: the class of the invalid points goes, if it is there."""
    return without_first(found) if found.coors[0, 0] < 0 else found


def maxima(feats: Array, of_point: Array, rows: int, start: float) -> Array:
    """Step 4, max: [M, C], `start` where no point is."""
    best = np.full((rows, feats.shape[1]), start, np.float32)
    np.fmax.at(best, of_point, feats)
    return best


def sums(feats: Array, of_point: Array, rows: int) -> Array:
    """Step 4, mean: [M, C], 0 where no point is."""
    total = np.zeros((rows, feats.shape[1]), np.float32)
    np.add.at(total, of_point, feats)
    return total


def divided(total: Array, sizes: Array, _points: int) -> Array:
    """Sums made means; rows without points stay 0."""
    return total / np.maximum(sizes, 1)[:, None].astype(np.float32)


@dataclass(frozen=True, slots=True)
class Steps:
    """One way to do each step."""

    invalid: Callable[[Array], Array] = below_zero
    mark: Callable[[Array, Array], Array] = marked
    # What rows are sorted and told apart by.
    keys: Callable[[Array], Array] = lambda rows: rows
    unique: Callable[[Array, Array], Found] = unique
    drop: Callable[[Found], Found] = without_invalid
    # Where the features of every point go.
    placed: Callable[[Found], Array] = lambda found: found.of_point
    reduce_type: Callable[[int], int] = lambda given: given
    start: float = -np.inf
    maxima: Callable[[Array, Array, int, float], Array] = maxima
    sums: Callable[[Array, Array, int], Array] = sums
    divided: Callable[[Array, Array, int], Array] = divided
    # The reduced features again, with all features and where they went.
    reduced: Callable[[Array, Array, Array], Array] = lambda result, _feats, _placed: result
    # What is done when everything is written.
    finish: Callable[[OpCall, Found], None] = lambda _call, _found: None

    def run(self, call: OpCall) -> Status:
        """Write all outputs of a valid call; nothing behind the rows that exist."""
        coors = call.array("coors").astype(np.int64)
        rows = self.mark(coors, self.invalid(coors))
        found = self.drop(self.unique(rows, self.keys(rows)))
        feats = self._reduce(call, self.placed(found))
        count = min(len(found.coors), len(feats))
        call.array("voxel_feats")[:count] = feats[:count]
        call.array("voxel_coors")[:count] = found.coors[:count]
        call.array("voxel_points_count")[:count] = found.sizes[:count]
        call.array("point2voxel_map")[...] = found.of_point
        call.array("voxel_num")[...] = len(found.coors)
        self.finish(call, found)
        return Status.SUCCESS

    def _reduce(self, call: OpCall, placed: Array) -> Array:
        feats, rows = call.array("feats"), call.tensor("voxel_feats").dims[0]
        inside = np.flatnonzero((placed >= 0) & (placed < rows))
        gathered, voxels = feats[inside], placed[inside]
        if self.reduce_type(call.param("reduce_type")) == MAX:
            result = self.maxima(gathered, voxels, rows, self.start)
        else:
            sizes = np.bincount(voxels, minlength=rows)
            result = self.divided(self.sums(gathered, voxels, rows), sizes, len(feats))
        return self.reduced(result, feats, placed)
