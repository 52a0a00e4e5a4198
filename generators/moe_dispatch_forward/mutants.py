"""Implementations with one plausible mistake each; the small cases must catch every one."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.suspects import misread

from .._shared import moe_dispatch as moe
from .._shared.wrong_moe_dispatch import computed, flushing, moe_mutants
from . import INPUTS, OPERANDS, OPERATOR, written

_TILE: Final = 64


def _gathered(call: OpCall) -> Array:
    """The sample's place and the slot are exchanged."""
    samples, slots = moe.routed(call)
    gates, rows, dispatch = call.array("gates"), call.array("input"), call.array("dispatch").copy()
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


MUTANTS: Final = (
    *moe_mutants(OPERATOR, written, OPERANDS, "slots"),
    computed(OPERATOR, "masked", "multiplies with 0 what is not routed", _masked),
    computed(OPERATOR, "gathered", "gathers rows instead of scattering them", _gathered),
    computed(OPERATOR, "tile_misplaced", "reads the last partial tile of 64 samples elsewhere", _last_tile_misplaced),
)
VARIANTS: Final = {"subnormal": (flushing(OPERATOR, OPERANDS),)}
