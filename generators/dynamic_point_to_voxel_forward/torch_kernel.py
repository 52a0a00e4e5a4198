"""With torch: unique rows, then scatter_reduce_ for the maximum or index_add_ for the mean."""

from collections.abc import Mapping

import torch

from mluops_gtest.authoring import OpCall

from .checks import REDUCE_MODE_MAX


def run(call: OpCall, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor]) -> None:
    """Write the voxels, where each point went, and the reduced features."""
    coors, feats = inputs["coors"], inputs["feats"]
    # A point counts if no coordinate is below 0 (§1.2; §3.1.2's `gt 0` is a slip).
    points = (coors >= 0).all(dim=1).nonzero().squeeze(1)
    outputs["point2voxel_map"].fill_(-1)
    outputs["voxel_num"].zero_()
    if len(points) == 0:
        return
    rows, voxels, counts = torch.unique(coors[points], dim=0, return_inverse=True, return_counts=True)
    outputs["voxel_num"].fill_(len(rows))
    outputs["voxel_coors"][: len(rows)] = rows
    outputs["voxel_points_count"][: len(rows)] = counts.to(torch.int32)
    outputs["point2voxel_map"][points] = voxels.to(torch.int32)
    gathered, reduced = feats.index_select(0, points), outputs["voxel_feats"][: len(rows)]
    if call.param("reduce_type") == REDUCE_MODE_MAX:
        # amax hands NaN on; here it loses against every number, and against the start.
        gathered = gathered.masked_fill(gathered.isnan(), -torch.inf)
        reduced.fill_(-torch.inf).scatter_reduce_(0, voxels[:, None].expand_as(gathered), gathered, "amax")
    else:
        reduced.zero_().index_add_(0, voxels, gathered).div_(counts[:, None])
