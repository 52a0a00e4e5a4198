"""With torch: every match takes the gradient; a minimum decides where points share a voxel."""

from collections.abc import Mapping

import torch

from mluops_gtest.authoring import OpCall


def run(call: OpCall, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor]) -> None:  # noqa: ARG001 - all operators are called alike
    """Write grad_feats: each (voxel, channel) gives its gradient to its lowest matching point."""
    grad_feats, voxel_of = outputs["grad_feats"].zero_(), inputs["point2voxel_map"]
    # −1 means no voxel, and rows at or behind voxel_num[0] are not voxels (§3.2); voxel 0 is one.
    points = ((voxel_of >= 0) & (voxel_of < inputs["voxel_num"])).nonzero().squeeze(1)
    voxels = voxel_of[points].to(torch.int64)
    # IEEE equality: NaN matches nothing, −0 matches +0. What nobody matches is dropped.
    wins = inputs["feats"].index_select(0, points) == inputs["voxel_feats"].index_select(0, voxels)
    shared = (torch.bincount(voxels)[voxels] > 1).nonzero().squeeze(1)
    wins[shared] &= _is_lowest(points[shared], voxels[shared], wins[shared], inputs["voxel_feats"].shape[0])
    gradients = inputs["grad_voxel_feats"].index_select(0, voxels)
    grad_feats.index_copy_(0, points, torch.where(wins, gradients, 0.0))


def _is_lowest(points: torch.Tensor, voxels: torch.Tensor, matches: torch.Tensor, rows: int) -> torch.Tensor:
    """[points, C]: no match of a lower point exists in the voxel."""
    nobody = torch.iinfo(torch.int32).max
    candidates = torch.where(matches, points.to(torch.int32)[:, None], nobody)
    lowest = torch.full((rows, matches.shape[1]), nobody, dtype=torch.int32, device=points.device)
    lowest.scatter_reduce_(0, voxels[:, None].expand_as(candidates), candidates, "amin")
    return lowest.index_select(0, voxels) == points[:, None]
