"""With torch: per kernel offset gather, multiply, index_add_, all in float32."""

from collections.abc import Mapping

import torch

from mluops_gtest.authoring import Layout, OpCall

# Pairs per product on the processor: few enough for the cache, many enough that threads seldom wait for each other.
_PAIRS = 16384
# How the axes of a filter become Kd, Kh, Kw, Ci, Co.
_ORDER = {Layout.NDHWC: (1, 2, 3, 4, 0), Layout.NCDHW: (2, 3, 4, 1, 0), Layout.ARRAY: (0, 1, 2, 3, 4)}


def run(call: OpCall, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor]) -> None:
    """Write features_out; half is computed in float32 and rounded once."""
    features = inputs["features"].float()
    weights = inputs["filters"].float().permute(_ORDER[call.tensor("filters").layout]).flatten(0, 2).contiguous()
    result = outputs["features_out"]
    sums = result.zero_() if result.dtype == torch.float32 else torch.zeros_like(result, dtype=torch.float32)
    for pairs, count, weight in zip(inputs["indice_pairs"], call.param("indice_num"), weights, strict=True):
        step = _PAIRS if features.device.type == "cpu" else max(1, count)
        for first in range(0, count, step):
            in_rows, out_rows = pairs[:, first : min(first + step, count)]
            sums.index_add_(0, out_rows, features.index_select(0, in_rows) @ weight)
    if sums is not result:
        result.copy_(sums)
