"""With torch: the smallest indices inside, found by a partial sort of all indices."""

from collections.abc import Mapping

import torch

from mluops_gtest.authoring import OpCall

# Distances at a time.
_PAIRS = 1 << 22


def run(call: OpCall, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor]) -> None:
    """Write the rows of all centres with a point in their shell; the others keep what they hold."""
    # Squared in float, as the device does it.
    low, high = (float(torch.tensor(call.param(name)).float().square()) for name in ("min_radius", "max_radius"))
    for centres, points, rows in zip(inputs["new_xyz"], inputs["xyz"], outputs["idx"], strict=True):
        step = max(1, _PAIRS // len(points))
        for block, part in zip(centres.split(step), rows.split(step), strict=True):
            _fill(part, block.float(), points.float(), low, high)


def _fill(rows: torch.Tensor, centres: torch.Tensor, points: torch.Tensor, low: float, high: float) -> None:
    distance = (centres[:, None] - points).square_().sum(-1)
    inside = (distance == 0) | ((distance >= low) & (distance < high))
    # What is outside sorts behind every index.
    beyond = len(points)
    numbers = torch.where(inside, torch.arange(beyond, dtype=rows.dtype, device=points.device), beyond)
    entries = min(rows.shape[1], beyond)
    first = numbers.topk(entries, largest=False, sorted=True).values
    found = first[:, 0] < beyond
    listed = first[found]
    lead = listed[:, :1]
    filled = lead.expand(-1, rows.shape[1]).clone()
    filled[:, :entries] = torch.where(listed < beyond, listed, lead)
    rows[found] = filled
