"""With torch: per kernel offset gather both sides and multiply, all in float32."""

from collections.abc import Mapping

import torch

from mluops_gtest.authoring import OpCall

# Pairs per product on the processor: few enough for the cache, many enough that threads seldom wait for each other.
_PAIRS = 16384


def run(call: OpCall, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor]) -> None:
    """Write filters_grad; half is computed in float32 and rounded once."""
    features, grad = inputs["features"].float(), inputs["output_grad"].float()
    result = outputs["filters_grad"].flatten(0, -3)
    for total, pairs, count in zip(result, inputs["indice_pairs"], call.param("indice_num"), strict=True):
        sums = torch.zeros(total.shape, dtype=torch.float32, device=features.device)
        step = _PAIRS if features.device.type == "cpu" else max(1, count)
        for first in range(0, count, step):
            in_rows, out_rows = pairs[:, first : min(first + step, count)]
            sums.addmm_(features.index_select(0, in_rows).T, grad.index_select(0, out_rows))
        total.copy_(sums)
