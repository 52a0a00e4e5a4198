"""What the document takes for granted about the pairs: no kernel can be held to a case that breaks it."""

import math

from mluops_gtest.authoring import OpCall

from .._shared.connections import broken_pairs


def precondition(call: OpCall) -> str | None:
    """A count of 0 … L per kernel offset (§1.3); rows that exist, each once per offset; with sub_m an identity centre.

    The released code checks none of it: there a negative count is 0, and one beyond L reads behind the table.
    """
    pairs, counts = call.array("indice_pairs"), call.param("indice_num")
    rows_in = pairs.shape[2]
    if any(not 0 <= count <= rows_in for count in counts):
        return f"indice_num has an entry outside of 0 … {rows_in}"
    return broken_pairs(
        pairs,
        counts,
        offsets=math.prod(call.tensor("filters_grad").dims[:-2]),
        rows_in=rows_in,
        rows_out=call.tensor("output_grad").dims[0],
        sub_m=call.param("sub_m") != 0,
    )
