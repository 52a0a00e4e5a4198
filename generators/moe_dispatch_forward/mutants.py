"""Implementations with one plausible mistake each; the small cases must catch every one."""

from typing import Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.authoring import Array, Mutant, OpCall, Status, TensorArg, mistakes
from mluops_gtest.authoring.roundings import flushed

from .._shared import moe_dispatch as moe
from .._shared.wrong_moe_dispatch import moe_mutants
from . import OPERATOR, TASKS, kernel, untouched, written

_OUTPUT: Final = "dispatch"
_TILE: Final = 64


def _computes(call: OpCall) -> bool:
    return OPERATOR.answer(call).check is None


def _zero_gates(call: OpCall) -> Array:
    samples, slots = moe.routed(call) if _computes(call) else (np.empty(0, np.int64),) * 2
    return slots[call.array("gates")[samples] == 0] if len(samples) else slots


def _added(call: OpCall) -> Status:
    """What dispatch held is no part of the answer."""
    before = call.array(_OUTPUT).copy() if _computes(call) else None
    status = kernel(call)
    if before is not None:
        with np.errstate(all="ignore"):
            rows = ~untouched(call)
            call.array(_OUTPUT)[rows] += before[rows]
    return status


def _gathered(call: OpCall) -> Status:
    """The sample's place and the slot are exchanged."""
    if not _computes(call):
        return kernel(call)
    samples, slots = moe.routed(call)
    gates, rows, dispatch = call.arrays("gates", "input", _OUTPUT)
    fits = slots < len(rows)
    with np.errstate(all="ignore"):
        dispatch[samples[fits]] = gates[slots[fits], None] * rows[slots[fits]]
    return Status.SUCCESS


def _rows_by_slot(call: OpCall) -> Status:
    """The row of input is that of the slot."""
    if not _computes(call):
        return kernel(call)
    samples, slots = moe.routed(call)
    gates, rows, dispatch = call.arrays("gates", "input", _OUTPUT)
    with np.errstate(all="ignore"):
        dispatch[slots] = gates[samples, None] * np.take(rows, slots, 0, mode="wrap")
    return Status.SUCCESS


def _last_tile_misplaced(call: OpCall) -> Status:
    """§3.1.3's own: the last partial tile begins at the number of tiles times its own length."""
    if not _computes(call):
        return kernel(call)
    tiles, rest = divmod(call.param("samples"), _TILE)
    read = np.concatenate([np.arange(tiles * _TILE), tiles * rest + np.arange(rest)])
    inputs = {
        name: replace(arg, array=arg.array[read]) if isinstance(arg, TensorArg) and arg.array is not None else arg
        for name, arg in call.inputs.items()
    }
    return kernel(replace(call, inputs=inputs))


def _masked(call: OpCall) -> None:
    """What is not routed is multiplied with 0 and added to row 0."""
    if _computes(call):
        slots = moe.slots_read(call)
        rows = call.array("input")[slots < 0]
        with np.errstate(all="ignore"):
            call.array(_OUTPUT)[0] += (rows * np.float32(0)).sum(axis=0)


def _flushed(call: OpCall) -> None:
    call.array(_OUTPUT)[...] = flushed(call.array(_OUTPUT))


MUTANTS: Final = (
    *moe_mutants(OPERATOR, written, ("gates", "input"), _OUTPUT, "slots"),
    *mistakes.suspected(
        OPERATOR,
        {
            "slot_sums": "samples of one slot are summed",
            "cleared": "rows that no sample is routed to are cleared",
        },
    ),
    mistakes.left("zero_gates_left", "leaves slots whose gate is 0", kernel, _OUTPUT, _zero_gates),
    mistakes.spoilt("masked", "multiplies with 0 what is not routed", kernel, _masked),
    Mutant("added", "adds to what dispatch holds", _added),
    Mutant("gathered", "gathers rows instead of scattering them", _gathered),
    Mutant("rows_by_slot", "reads the row of input that has the slot's number", _rows_by_slot),
    Mutant("last_tile_misplaced", "reads the last partial tile of 64 samples elsewhere", _last_tile_misplaced),
    *mistakes.tails_left(kernel, _OUTPUT, 1, "columns", (TASKS, 16, 64)),
    mistakes.part_left(kernel, _OUTPUT, 1, "columns"),
    mistakes.input_cleared(kernel, "gates"),
    mistakes.input_cleared(kernel, "locations"),
)


# A device may take subnormal numbers for 0.

VARIANTS: Final = {
    "subnormal": (mistakes.spoilt("tiny_floats_flushed", "writes 0 for subnormal floats", kernel, _flushed),)
}
