"""With torch: three weighted rows per point are a bag of embeddings; float32 throughout."""

from collections.abc import Mapping

import torch
from torch.nn.functional import embedding_bag

from mluops_gtest.authoring import OpCall


def run(call: OpCall, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor]) -> None:  # noqa: ARG001 - all operators are called alike
    """Write output; half is computed in float32 and rounded once."""
    batches = zip(*(inputs[name] for name in ("features", "indices", "weights")), outputs["output"], strict=True)
    for features, indices, weights, output in batches:
        cells = features.float().T.contiguous()
        output.copy_(embedding_bag(indices, cells, per_sample_weights=weights.float(), mode="sum").T)
