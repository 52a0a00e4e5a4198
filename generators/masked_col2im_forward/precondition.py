"""What the document takes for granted about the mask positions: they are addresses, and nothing checks them."""

import numpy as np

from mluops_gtest.authoring import OpCall


def precondition(call: OpCall) -> str | None:
    """Every mask position lies in im, and none is there twice (§1.4)."""
    # §1.4 calls the image "col" and prints the range of mask_w_idx without its 0; both ranges are those of im.
    _, _, height, width = call.tensor("im").dims
    if call.tensor("mask_h_idx").desc.is_empty:
        return None
    rows, cols = call.array("mask_h_idx").astype(np.int64), call.array("mask_w_idx").astype(np.int64)
    for name, masks, limit in (("mask_h_idx", rows, height), ("mask_w_idx", cols, width)):
        if masks.min() < 0 or masks.max() >= limit:
            return f"{name} leaves 0 … {limit - 1}"
    pixels = rows * width + cols
    order = np.argsort(pixels, kind="stable")
    same = np.flatnonzero(pixels[order[1:]] == pixels[order[:-1]])
    if same.size:
        first, second = order[same[0]], order[same[0] + 1]
        return f"masks {first} and {second} are the same pixel [{rows[first]}, {cols[first]}]"
    return None
