"""With torch: the three contributions of every point through index_add_, float32 throughout."""

from collections.abc import Mapping

import torch

from mluops_gtest.authoring import OpCall


def run(call: OpCall, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor]) -> None:
    """Write grad_features; half is computed in float32 and rounded once."""
    channels, cells = call.tensor("grad_features").dims[1:]
    batches = zip(*(inputs[name] for name in ("grad_output", "indices", "weights")), strict=True)
    for (grad, indices, weights), result in zip(batches, outputs["grad_features"], strict=True):
        points = grad.float().T.contiguous()
        sums = torch.zeros((cells, channels), device=grad.device)
        for named, factor in zip(indices.T, weights.float().T, strict=True):
            sums.index_add_(0, named, points * factor[:, None])
        result.copy_(sums.T)
