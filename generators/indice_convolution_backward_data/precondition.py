"""What the document takes for granted about the pairs: no kernel can be held to a case that breaks it."""

import numpy as np

from mluops_gtest.authoring import Array, OpCall

from .filters import extents


def precondition(call: OpCall) -> str | None:
    """One count per kernel offset; rows that exist, each once per offset; with sub_m a centre of identity (§1.4)."""
    counts = call.param("indice_num")
    offsets = extents(call.tensor("filters").desc).offsets
    if len(counts) != offsets:
        return f"indice_num has {len(counts)} entries for {offsets} kernel offsets"
    pairs = call.array("indice_pairs")
    rows = (call.tensor("input_grad").dims[0], call.tensor("output_grad").dims[0])
    for side, limit in enumerate(rows):
        # Where each row was named last. Stale entries of earlier offsets do no harm: only rows named now are asked for.
        places = np.empty(limit, np.int32)
        for offset, count in enumerate(counts):
            broken = _unsound(pairs[offset, side, :count], places)
            if broken is not None:
                return f"indice_pairs[{offset}, {side}] names {broken}"
    middle = offsets // 2
    if call.param("sub_m") == 1 and not _is_identity(pairs[middle, :, : counts[middle]], rows[0]):
        return f"with sub_m the centre, indice_pairs[{middle}], must join each of the {rows[0]} rows to itself"
    return None


def _unsound(named: Array, places: Array) -> str | None:
    """What is wrong with the rows that one offset names on one side, in words."""
    if not named.size:
        return None
    if named.min() < 0 or named.max() >= len(places):
        return f"a row outside of 0 … {len(places) - 1}"
    order = np.arange(len(named), dtype=np.int32)
    places[named] = order
    again = np.flatnonzero(places[named] != order)
    return f"row {named[again[0]]} more than once" if again.size else None


def _is_identity(pairs: Array, rows: int) -> bool:
    """Every row meets itself, in any order; that no row occurs twice is known."""
    return pairs.shape[1] == rows and np.array_equal(pairs[0], pairs[1])
