"""With torch: per kernel offset gather, multiply, index_add_, all in float32."""

from collections.abc import Mapping

import torch

from mluops_gtest.authoring import Layout, OpCall

# Pairs per product on the processor: few enough for the cache, many enough that threads seldom wait for each other.
_PAIRS = 16384


def run(call: OpCall, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor]) -> None:
    """Write input_grad; half is computed in float32 and rounded once."""
    grad = inputs["output_grad"].float()
    weights = _weights(inputs["filters"].float(), call.tensor("filters").layout)
    result = outputs["input_grad"]
    sums = result.zero_() if result.dtype == torch.float32 else torch.zeros_like(result, dtype=torch.float32)
    for pairs, count, weight in zip(inputs["indice_pairs"], call.param("indice_num"), weights, strict=True):
        step = _PAIRS if grad.device.type == "cpu" else max(1, count)
        for first in range(0, count, step):
            in_rows, out_rows = pairs[:, first : min(first + step, count)]
            sums.index_add_(0, in_rows, grad.index_select(0, out_rows) @ weight)
    if sums is not result:
        result.copy_(sums)


def _weights(filters: torch.Tensor, layout: Layout) -> torch.Tensor:
    """[K, Co, Ci]: what a row of output_grad is multiplied with at each offset."""
    if layout in (Layout.NHWC, Layout.NDHWC):
        ordered = filters.flatten(1, -2).transpose(0, 1)
    elif layout in (Layout.NCHW, Layout.NCDHW):
        ordered = filters.flatten(2).permute(2, 0, 1)
    else:
        # Kd, Kh, Kw, Ci, Co; HWCN is the same order with N for Co.
        ordered = filters.flatten(0, -3).transpose(1, 2)
    return ordered.contiguous()
