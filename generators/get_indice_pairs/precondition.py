"""What the document takes for granted about the sites: no kernel can be held to a case that breaks it."""

import numpy as np

from mluops_gtest.authoring import Array, OpCall


def precondition(call: OpCall) -> str | None:
    """Every site lies in the batch and in the input space, none is there twice (§1.2), and sub_m's copies have room."""
    sites = call.array("indices")
    for axis, limit in enumerate((call.param("batch"), *call.param("input_space"))):
        if sites[:, axis].min() < 0 or sites[:, axis].max() >= limit:
            return f"indices[:, {axis}] leaves 0 … {limit - 1}"
    rows = call.tensor("out_indices").dims[0]
    # By default only the search can tell how many outputs there are.
    if call.param("sub_m") == 1 and rows < len(sites):
        return f"out_indices has {rows} rows for the {len(sites)} sites of sub_m"
    return _repeated(sites)


def _repeated(sites: Array) -> str | None:
    """The first site that stands in two rows, in words."""
    # Two columns as one number: two keys sort faster than four, and no product of axis lengths can overflow.
    keys = np.ascontiguousarray(sites).view("<u8")
    order = np.lexsort((keys[:, 0], keys[:, 1]))
    same = np.flatnonzero((keys[order[1:]] == keys[order[:-1]]).all(axis=1))
    if not same.size:
        return None
    first, second = order[same[0]], order[same[0] + 1]
    return f"rows {first} and {second} of indices are the same site {sites[first].tolist()}"
