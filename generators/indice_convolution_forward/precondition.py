"""What the document takes for granted about the pairs: no kernel can be held to a case that breaks it."""

from mluops_gtest.authoring import OpCall

from .._shared.connections import broken_pairs, extents


def precondition(call: OpCall) -> str | None:
    """One count per kernel offset; rows that exist, each once per offset; with sub_m a centre of identity (§1.4).

    §1.1 calls a negative index invalid; the released kernel reads with it. No case before indice_num[k] has one.
    """
    return broken_pairs(
        call.array("indice_pairs"),
        call.param("indice_num"),
        offsets=extents(call.tensor("filters").desc).offsets,
        rows_in=call.tensor("features").dims[0],
        rows_out=call.tensor("features_out").dims[0],
        sub_m=call.param("sub_m") == 1,
    )
