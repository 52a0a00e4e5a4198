"""With torch: distance and index packed into one integer, the three least of every row."""

from collections.abc import Mapping

import torch

from mluops_gtest.authoring import OpCall

# Pairs per step on the processor: torch would spread more over threads, which wait for each other at every operation.
_PAIRS = 1 << 15
# The bits of +Inf: floats from 0 on order as their bits do.
_INFINITE = 0x7F800000


def run(call: OpCall, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor]) -> None:  # noqa: ARG001 - all operators are called alike
    """Write the three nearest known points of every unknown one."""
    dist2, idx = outputs["dist2"], outputs["idx"]
    points = inputs["known"].shape[1]
    place = torch.arange(points, device=idx.device)
    step = max(1, _PAIRS // points) if idx.device.type == "cpu" else max(1, (_PAIRS << 9) // points)
    for batch, (unknown, known) in enumerate(zip(inputs["unknown"].float(), inputs["known"].float(), strict=True)):
        axes = known.T.contiguous()
        for rows in torch.arange(len(unknown), device=idx.device).split(step):
            keys = (_squared(unknown[rows], axes).view(torch.int32).long() << 32) | place
            least = keys.topk(min(3, points), largest=False, sorted=True).values
            # Fewer than three: +Inf and 0.
            least = torch.nn.functional.pad(least, (0, 3 - least.shape[1]), value=_INFINITE << 32)
            bits = (least >> 32).int()
            dist2[batch, rows] = bits.view(torch.float32).to(dist2.dtype)
            idx[batch, rows] = torch.where(bits < _INFINITE, least & 0xFFFFFFFF, 0).int()


def _squared(points: torch.Tensor, axes: torch.Tensor) -> torch.Tensor:
    """float32 [rows, M]; +Inf where a pair has no distance (§1.2)."""
    total = (points[:, 0, None] - axes[0]).square_()
    for axis in (1, 2):
        total += (points[:, axis, None] - axes[axis]).square_()
    return total.nan_to_num_(nan=torch.inf, posinf=torch.inf)
