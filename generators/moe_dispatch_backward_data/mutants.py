"""Implementations with one plausible mistake each; the small cases must catch every one."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status, mistakes
from mluops_gtest.authoring.roundings import flushed

from .._shared import moe_dispatch as moe
from .._shared.wrong_moe_dispatch import computed, moe_mutants
from . import OPERATOR, gradients, kernel

_OUTPUT: Final = "grad_input"


def _unrouted(call: OpCall) -> object:
    """Rows of samples that went nowhere; none where there is no slot."""
    return moe.slots_read(call) < 0 if call.param("capacity") * call.param("num_experts") else slice(0)


def _scattered(call: OpCall) -> Array:
    """The sample's place and the slot are exchanged."""
    samples, slots = moe.routed(call)
    grad, dispatch = np.zeros_like(call.array(_OUTPUT)), call.array("dispatch")
    fits = (slots < len(grad)) & (samples < len(dispatch))
    grad[slots[fits]] = call.array("gates")[samples[fits], None] * dispatch[samples[fits]]
    return grad


def _masked(call: OpCall) -> Array:
    """What is not routed is multiplied with 0."""
    slots = moe.slots_read(call)
    mask = np.where(slots >= 0, np.float32(1), np.float32(0))[:, None]
    return call.array("gates")[:, None] * call.array("dispatch")[np.maximum(slots, 0)] * mask


def _limited(call: OpCall) -> Status:
    """Forward's limit."""
    return Status.BAD_PARAM if call.param("samples") > len(call.array("dispatch")) else kernel(call)


def _zero_gates(call: OpCall) -> object:
    return call.array("gates") == 0 if OPERATOR.answer(call).check is None else slice(0)


def _flushed(call: OpCall) -> None:
    call.array(_OUTPUT)[...] = flushed(call.array(_OUTPUT))


MUTANTS: Final = (
    *moe_mutants(OPERATOR, gradients, ("gates", "dispatch"), _OUTPUT, "samples"),
    *mistakes.suspected(
        OPERATOR, {"slot_sums": "samples of one slot are summed", "divided": "rows are divided by their gates"}
    ),
    mistakes.left("unrouted_left", "does not clear what is not routed", kernel, _OUTPUT, _unrouted),
    mistakes.left("zero_gates_left", "leaves samples whose gate is 0", kernel, _OUTPUT, _zero_gates),
    mistakes.left(
        "no_slots_left",
        "without slots grad_input is not cleared",
        kernel,
        _OUTPUT,
        lambda call: slice(None) if call.tensor("dispatch").desc.is_empty else slice(0),
    ),
    computed(OPERATOR, "scattered", "scatters rows instead of gathering them", _scattered),
    computed(OPERATOR, "masked", "multiplies with 0 what is not routed", _masked),
    Mutant("no_more_than_slots", "demands S ≤ E · K", _limited),
    *mistakes.tails_left(kernel, _OUTPUT, 1, "columns", (16, 64)),
    mistakes.part_left(kernel, _OUTPUT, 1, "columns"),
)


# A device may take subnormal numbers for 0.

VARIANTS: Final = {
    "subnormal": (mistakes.spoilt("tiny_floats_flushed", "writes 0 for subnormal floats", kernel, _flushed),)
}
