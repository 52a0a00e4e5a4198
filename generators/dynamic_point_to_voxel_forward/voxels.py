"""Which points share a voxel: §1.2, steps 1 to 3."""

from dataclasses import dataclass

import numpy as np

from mluops_gtest.authoring import Array


@dataclass(frozen=True, slots=True)
class Voxels:
    """The voxels of a set of points, ascending; `points` are the valid points voxel by voxel."""

    coors: Array  # int32 [V, 3]
    of_point: Array  # int64 [N], −1 where the point is invalid
    points: Array  # int64 [valid points]
    starts: Array  # int64 [V]: where in `points` each voxel begins
    sizes: Array  # int64 [V]: points of each voxel

    @property
    def count(self) -> int:
        """V."""
        return len(self.coors)

    @property
    def rows_needed(self) -> int:
        """Rows that are written: the invalid points are one more class until §1.2, step 3 removes it."""
        return self.count + (len(self.points) < len(self.of_point))


def is_invalid(coors: Array) -> Array:
    """bool [N]: any of the three coordinates is below 0."""
    # §3.1.2, kernel 1 prints `gt 0`, which would drop coordinate 0; §1.2 is right: 0 is valid.
    return np.asarray((coors < 0).any(axis=1))


def voxels_of(coors: Array) -> Voxels:
    """The distinct rows of valid points in ascending order, column 0 first; int32 [N, 3], compared as integers."""
    # §1.2, step 3 and §3.1.1, kernel 3: the invalid class is dropped if there is one; a first voxel that is real stays.
    valid = np.flatnonzero(~is_invalid(coors))
    # Exact integers: §3.1.2, kernel 1 passes them through float32, where 2^24 and 2^24 + 1 are one voxel.
    points = valid[np.lexsort(coors[valid, ::-1].T)]
    rows = coors[points]
    starts = np.flatnonzero(np.append(np.ones(min(len(rows), 1), bool), (rows[1:] != rows[:-1]).any(axis=1)))
    sizes = np.diff(starts, append=len(rows))
    of_point = np.full(len(coors), -1, np.int64)
    # §1.2's example prints the map before dropping as [0,0,2,1,1]; by its own rule it is [0,0,2,2,1].
    of_point[points] = np.repeat(np.arange(len(starts)), sizes)
    return Voxels(rows[starts], of_point, points, starts, sizes)
