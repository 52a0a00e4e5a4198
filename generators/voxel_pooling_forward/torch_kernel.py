"""With torch: the points that count, block by block, through index_add_."""

from collections.abc import Mapping

import torch

from mluops_gtest.authoring import OpCall

# Points per addition on the processor: few enough for the cache, many enough that threads seldom wait for each other.
_POINTS = 16384


def run(call: OpCall, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor]) -> None:
    """Write the sums of every cell and where each point went."""
    width, height, depth = (call.param(f"num_voxel_{axis}") for axis in "xyz")
    x, y, z = inputs["geom_xyz"].unbind(-1)
    # 0 is inside (§3.1's `> 0` would drop every point of a space with one layer).
    counts = (x >= 0) & (x < width) & (y >= 0) & (y < height) & (z >= 0) & (z < depth)
    batch = torch.arange(len(x), device=x.device)[:, None]

    memo = outputs["pos_memo"]
    memo[..., 0], memo[..., 1], memo[..., 2] = batch, y, x
    memo.masked_fill_(~counts[..., None], -1)

    cells = ((batch * height + y) * width + x).flatten()
    points = counts.flatten().nonzero().squeeze(1)
    features = inputs["input_features"].flatten(0, 1)
    sums = outputs["output_features"].zero_().flatten(0, 2)
    step = _POINTS if x.device.type == "cpu" else max(1, len(points))
    for block in points.split(step):
        sums.index_add_(0, cells[block], features.index_select(0, block))
