"""The oracle: points sorted by voxel, every voxel reduced exactly; what coors may become; figures for efficiency."""

import numpy as np

from mluops_gtest.authoring import Array, Baseline, OpCall, Theory
from mluops_gtest.authoring.sums import exact_sums, largest_magnitude, lattice_exponent, sums_are_exact

from .checks import REDUCE_MODE_MEAN
from .voxels import Voxels, is_invalid, voxels_of

_WORD = 4  # bytes of a float and of an int32


def reference(call: OpCall) -> Baseline:
    """All five outputs. Rows at or behind the number of voxels are nobody's: −Inf or 0, −1 and 0."""
    feats, rows = call.array("feats"), call.tensor("voxel_feats").dims[0]
    voxels = voxels_of(call.array("coors"))
    mean = call.param("reduce_type") == REDUCE_MODE_MEAN
    voxel_feats = np.full((rows, feats.shape[1]), 0 if mean else -np.inf, "<f4")
    voxel_coors = np.full((rows, 3), -1, "<i4")
    voxel_points_count = np.zeros(rows, "<i4")
    if voxels.count:
        # §1.2's example exchanges its two voxels in the last lines: row v belongs to voxel_coors[v].
        voxel_feats[: voxels.count] = (_means if mean else _maxima)(feats[voxels.points], voxels)
        voxel_coors[: voxels.count] = voxels.coors
        voxel_points_count[: voxels.count] = voxels.sizes
    return Baseline(
        {
            "voxel_feats": voxel_feats,
            "voxel_coors": voxel_coors,
            "point2voxel_map": voxels.of_point.astype("<i4"),
            "voxel_points_count": voxel_points_count,
            "voxel_num": np.array([voxels.count], "<i4"),
        }
    )


def marked(call: OpCall) -> Array:
    """coors with −1, −1, −1 for every invalid point: what §1.2, step 1 leaves when it works in place."""
    coors = call.array("coors")
    return np.where(is_invalid(coors)[:, None], np.int32(-1), coors)


def theory(call: OpCall) -> Theory:
    """One operation per feature of a valid point, for the mean one more per result; rows behind the voxels are free."""
    points, channels = call.tensor("feats").dims
    voxels = voxels_of(call.array("coors"))
    ops = len(voxels.points) * channels
    if call.param("reduce_type") == REDUCE_MODE_MEAN:
        ops += voxels.count * channels
    read = points * channels + 3 * points
    written = voxels.count * (channels + 3 + 1) + points + 1
    return Theory(io_bytes=_WORD * (read + written), ops=ops)


def _maxima(gathered: Array, voxels: Voxels) -> Array:
    """On bit patterns, where −0 lies below +0: the answer depends on no machine and no order."""
    # §1.2: features may be NaN. Beside a number it is ignored; a voxel of NaN alone stays at the start, −Inf.
    ascending = _flipped(np.where(np.isnan(gathered), np.float32(-np.inf), gathered).view("<i4"))
    maxima: Array = _flipped(np.maximum.reduceat(ascending, voxels.starts, axis=0)).view("<f4")
    return maxima


def _flipped(patterns: Array) -> Array:
    """Patterns of negative floats descend with the value; with the lower 31 bits inverted all of them ascend."""
    flipped: Array = patterns ^ ((patterns >> 31) & np.int32(0x7FFFFFFF))
    return flipped


def _means(gathered: Array, voxels: Voxels) -> Array:
    """§1.2, step 4: the exact sum, then one division by the number of points."""
    with np.errstate(invalid="ignore", over="ignore"):
        # + 0.0: a sum of negative zeros is +0, whichever way it was taken.
        means = ((_sums(gathered, voxels) + 0.0) / voxels.sizes[:, None]).astype("<f4")
    means[np.isnan(means)] = np.nan
    return means


def _sums(gathered: Array, voxels: Voxels) -> Array:
    """float64 [V, C], rounded at most once; NaN and infinities follow IEEE."""
    longest = int(voxels.sizes.max())
    if sums_are_exact(lattice_exponent(gathered), largest_magnitude(gathered), longest):
        sums: Array = np.add.reduceat(gathered.astype(np.float64), voxels.starts, axis=0)
        return sums
    ends = voxels.starts + voxels.sizes
    return np.stack([exact_sums(gathered[a:b]) for a, b in zip(voxels.starts, ends, strict=True)])
