"""What the document takes for granted about the pairs: no kernel can be held to a case that breaks it."""

from mluops_gtest.authoring import OpCall

from .filters import extents


def precondition(call: OpCall) -> str | None:
    """One count per kernel offset, and every pair that is read names rows that exist (§1.4)."""
    counts = call.param("indice_num")
    offsets = extents(call.tensor("filters").desc).offsets
    if len(counts) != offsets:
        return f"indice_num has {len(counts)} entries for {offsets} kernel offsets"
    pairs = call.array("indice_pairs")
    rows = (call.tensor("input_grad").dims[0], call.tensor("output_grad").dims[0])
    for offset, count in enumerate(counts):
        for side, limit in enumerate(rows):
            read = pairs[offset, side, :count]
            if count and (read.min() < 0 or read.max() >= limit):
                return f"indice_pairs[{offset}, {side}] names a row outside of 0 … {limit - 1}"
    return None
