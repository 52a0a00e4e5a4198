"""Implementations with one plausible mistake each; the small cases must catch every one."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, OpCall, mistakes
from mluops_gtest.authoring.roundings import flushed
from mluops_gtest.authoring.suspects import misread

from .._shared import moe_dispatch as moe
from .._shared.wrong_moe_dispatch import computed, moe_mutants
from . import INPUTS, OPERATOR, TASKS, kernel, untouched, written

_OUTPUT: Final = "dispatch"
_TILE: Final = 64


def _zero_gates(call: OpCall) -> Array:
    samples, slots = moe.routed(call) if OPERATOR.answer(call).check is None else (np.empty(0, np.int64),) * 2
    return slots[call.array("gates")[samples] == 0] if len(samples) else slots


def _added(call: OpCall) -> Array:
    before = call.array(_OUTPUT).copy()
    return np.where(untouched(call)[:, None], before, before + written(call, moe.routed(call)))


def _gathered(call: OpCall) -> Array:
    """The sample's place and the slot are exchanged."""
    samples, slots = moe.routed(call)
    gates, rows, dispatch = call.array("gates"), call.array("input"), call.array(_OUTPUT).copy()
    fits = slots < len(rows)
    dispatch[samples[fits]] = gates[slots[fits], None] * rows[slots[fits]]
    return dispatch


def _last_tile_misplaced(call: OpCall) -> Array:
    """§3.1.3's own: the last partial tile begins at the number of tiles times its own length."""
    tiles, rest = divmod(call.param("samples"), _TILE)
    read = np.concatenate([np.arange(tiles * _TILE), tiles * rest + np.arange(rest)])
    call = misread(**dict.fromkeys(INPUTS, lambda array: array[read]))(call)
    return written(call, moe.routed(call))


def _masked(call: OpCall) -> Array:
    """What is not routed is multiplied with 0 and added to row 0."""
    dispatch, rows = written(call, moe.routed(call)), call.array("input")[moe.slots_read(call) < 0]
    dispatch[0] += (rows * np.float32(0)).sum(axis=0)
    return dispatch


def _flushed(call: OpCall) -> None:
    call.array(_OUTPUT)[...] = flushed(call.array(_OUTPUT))


MUTANTS: Final = (
    *moe_mutants(OPERATOR, written, ("gates", "input"), _OUTPUT, "slots"),
    *mistakes.suspected(
        OPERATOR,
        {
            "slot_sums": "samples of one slot are summed",
            "cleared": "rows that no sample is routed to are cleared",
            "rows_by_slot": "rows of input are by slot",
        },
    ),
    mistakes.left("zero_gates_left", "leaves slots whose gate is 0", kernel, _OUTPUT, _zero_gates),
    computed(OPERATOR, "masked", "multiplies with 0 what is not routed", _masked),
    computed(OPERATOR, "added", "adds to what dispatch holds", _added),
    computed(OPERATOR, "gathered", "gathers rows instead of scattering them", _gathered),
    computed(
        OPERATOR, "last_tile_misplaced", "reads the last partial tile of 64 samples elsewhere", _last_tile_misplaced
    ),
    *mistakes.tails_left(kernel, _OUTPUT, 1, "columns", (TASKS, 16, 64)),
    mistakes.part_left(kernel, _OUTPUT, 1, "columns"),
    mistakes.input_cleared(kernel, "gates"),
    mistakes.input_cleared(kernel, "locations"),
)


# A device may take subnormal numbers for 0.

VARIANTS: Final = {
    "subnormal": (mistakes.spoilt("tiny_floats_flushed", "writes 0 for subnormal floats", kernel, _flushed),)
}
