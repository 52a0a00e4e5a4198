"""What arithmetic allows: a maximum is one of the features, a mean is a sum in any order and one division (§1.2)."""

import numpy as np

from mluops_gtest.authoring import Bound, OpCall
from mluops_gtest.authoring.sums import lattice_unit

from .checks import REDUCE_MODE_MEAN
from .voxels import voxels_of


def bound(call: OpCall) -> dict[str, Bound]:
    """Mean of |features| of every voxel, a rounding per point, and two where it divides by way of a reciprocal."""
    if call.param("reduce_type") != REDUCE_MODE_MEAN:
        return {"voxel_feats": Bound(0.0)}
    voxels, feats = voxels_of(call.array("coors")), call.array("feats")
    magnitude = np.zeros(call.tensor("voxel_feats").dims)
    sizes = np.ones((len(magnitude), 1))
    if voxels.count:
        sizes[: voxels.count, 0] = voxels.sizes
        gathered = np.abs(feats[voxels.points], dtype=np.float64)
        magnitude[: voxels.count] = np.add.reduceat(gathered, voxels.starts, axis=0)
    unit = lattice_unit(feats[voxels.points])
    return {"voxel_feats": Bound(magnitude / sizes, sizes, unit=unit / sizes, afterwards=2)}
