"""The oracle: one point after the other by the native core, else ranked within their voxel, a step per rank."""

import numpy as np

from mluops_gtest.authoring import Array, Baseline, OpCall
from mluops_gtest.authoring.rows import native_give

# Elements handled at once: three float32 blocks of this size stay in the second-level cache.
_BLOCK = 1 << 15
# Voxels with more points are searched one by one: a round per rank would be a loop over single points.
_DEEPEST_ROUND = 32


def reference(call: OpCall) -> Baseline:
    """Each (voxel, channel) gives its gradient to the first point with the voxel's value; the rest is 0."""
    points, channels = call.tensor("feats").dims
    voxel_of = call.array("point2voxel_map")
    # -1 means no voxel (§3.2), and rows at or behind voxel_num[0] are not voxels.
    inside = np.flatnonzero((voxel_of >= 0) & (voxel_of < call.array("voxel_num")[0]))
    grad_feats = np.zeros((points, channels), "<f4")
    arrays = (call.array(name) for name in ("feats", "voxel_feats", "grad_voxel_feats"))
    # IEEE equality: -0 meets +0, NaN meets nothing. What nobody meets is dropped: §3.2's second kernel would write it
    # out of bounds.
    if inside.size and not native_give(grad_feats, inside, voxel_of[inside], *arrays):
        _in_rank_rounds(call, inside, voxel_of, grad_feats)
    return Baseline({"grad_feats": grad_feats})


def _in_rank_rounds(call: OpCall, inside: Array, voxel_of: Array, grad_feats: Array) -> None:
    by_voxel = inside[np.argsort(voxel_of[inside], kind="stable")]
    voxels = voxel_of[by_voxel]
    starts = np.flatnonzero(np.diff(voxels, prepend=-1))
    depths = np.diff(starts, append=len(voxels))

    deep = depths > _DEEPEST_ROUND
    for start, depth in zip(starts[deep], depths[deep], strict=True):
        _search_one_voxel(call, by_voxel[start : start + depth], int(voxels[start]), grad_feats)

    starts, depths = starts[~deep], depths[~deep]
    claimed = np.zeros(call.tensor("voxel_feats").dims, bool)
    for rank in range(depths.max(initial=0)):
        starts, depths = starts[depths > rank], depths[depths > rank]
        _one_round(call, by_voxel[starts + rank], voxel_of, claimed, grad_feats)


def _one_round(call: OpCall, points: Array, voxel_of: Array, claimed: Array, grad_feats: Array) -> None:
    """At most one point per voxel, so no two rows of a step compete."""
    feats, voxel_feats = call.array("feats"), call.array("voxel_feats")
    grad_voxel_feats = call.array("grad_voxel_feats")
    rows = max(1, _BLOCK // feats.shape[1])
    for start in range(0, len(points), rows):
        block = points[start : start + rows]
        voxels = voxel_of[block]
        taken = claimed[voxels]
        hits = (feats[block] == voxel_feats[voxels]) & ~taken
        claimed[voxels] = taken | hits
        gradients = grad_voxel_feats[voxels]
        # On the bit pattern: 0 · NaN would not be 0. A third faster than np.where, whose branches mispredict.
        gradients.view("<u4")[...] *= hits
        grad_feats[block] = gradients


def _search_one_voxel(call: OpCall, points: Array, voxel: int, grad_feats: Array) -> None:
    feats, wanted = call.array("feats"), call.array("voxel_feats")[voxel]
    gradient = call.array("grad_voxel_feats")[voxel]
    rows = max(1, _BLOCK // feats.shape[1])
    still_open = np.arange(feats.shape[1])
    for start in range(0, len(points), rows):
        block = points[start : start + rows]
        hits = feats[block][:, still_open] == wanted[still_open]
        first = hits.argmax(axis=0)
        found = hits[first, np.arange(still_open.size)]
        channels = still_open[found]
        grad_feats[block[first[found]], channels] = gradient[channels]
        still_open = still_open[~found]
        if not still_open.size:
            return
